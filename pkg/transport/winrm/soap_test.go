package winrm

import (
	"errors"
	"strings"
	"testing"

	"github.com/windowsmachine/operator/pkg/transport"
	"github.com/windowsmachine/operator/pkg/transport/winrm/winrmtest"
)

// Faults are told apart by number: their texts are in the machine's language.
func TestW47Faults(t *testing.T) {
	for _, tc := range []struct {
		fault winrmtest.Fault
		want  error
		timed bool
	}{
		{winrmtest.Fault{Code: 2150858793, Subcode: "w:TimedOut"}, transport.ErrDisconnected, true},
		{winrmtest.Fault{Subcode: "w:TimedOut"}, transport.ErrDisconnected, true},
		{winrmtest.Fault{Code: 2150858843, Subcode: "w:InvalidSelectors"}, transport.ErrDisconnected, false},
		{winrmtest.Fault{Code: 2150859173, Subcode: "w:QuotaLimit"}, transport.ErrBusy, false},
		{winrmtest.Fault{Code: 2150859174, Subcode: "w:QuotaLimit"}, transport.ErrBusy, false},
		{winrmtest.Fault{Code: 2150859241, Subcode: "w:QuotaLimit"}, transport.ErrBusy, false},
		{winrmtest.Fault{Code: 2150858815, Subcode: "w:QuotaLimit"}, transport.ErrBusy, false},
		{winrmtest.Fault{Code: 2150859178, Subcode: "w:InternalError"}, transport.ErrDisconnected, false},
		{winrmtest.Fault{Code: 5, Subcode: "w:AccessDenied"}, transport.ErrAuth, false},
		{winrmtest.Fault{Code: 2150859180, Subcode: "w:AccessDenied"}, transport.ErrNoServer, false},
	} {
		_, err := parse([]byte(tc.fault.String()))
		var f *Fault
		if !errors.As(err, &f) || f.Code != tc.fault.Code || "w:"+f.Subcode != tc.fault.Subcode || f.Text == "" {
			t.Errorf("%+v is read as %v", tc.fault, err)
		}
		if !errors.Is(err, tc.want) || timedOut(err) != tc.timed {
			t.Errorf("%+v is %v, timed out %v", tc.fault, err, timedOut(err))
		}
	}
}

func TestExitCode(t *testing.T) {
	for in, want := range map[string]uint32{
		"0": 0, "3010": 3010, " 5 ": 5, "2148469076": 0x800f0954, "-2146498220": 0x800f0954, "4294967295": 1<<32 - 1, "-1": 1<<32 - 1,
	} {
		if got, err := exitCode(in); err != nil || got != want {
			t.Errorf("%q is %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "x", "1.5", "4294967296", "-2147483649", "99999999999999999999"} {
		if got, err := exitCode(in); !errors.Is(err, errAnswer) {
			t.Errorf("%q is %d, %v", in, got, err)
		}
	}
}

func TestReceived(t *testing.T) {
	const of = `<Envelope><Body><ReceiveResponse>`
	e, err := parse([]byte(of + `<Stream Name="stdout" CommandId="A">aGVs</Stream><Stream Name="stdout" CommandId="B">eHh4</Stream>
		<Stream Name="stderr" CommandId="a">IQ==</Stream><Stream Name="stdout" CommandId="A">
		bG8=</Stream><Stream Name="pr" CommandId="A">IQ==</Stream></ReceiveResponse></Body></Envelope>`))
	if err != nil {
		t.Fatal(err)
	}
	o, err := e.received("A")
	if err != nil || string(o.stdout) != "hello" || string(o.stderr) != "!" || o.done {
		t.Errorf("%q %q %v %v", o.stdout, o.stderr, o.done, err)
	}
	for _, body := range []string{
		`<Stream Name="stdout" CommandId="A">*</Stream>`,
		`<CommandState CommandId="A" State="` + stateDone + `"/>`,
		`<CommandState CommandId="A" State="` + stateDone + `"><ExitCode>none</ExitCode></CommandState>`,
	} {
		e, err := parse([]byte(of + body + `</ReceiveResponse></Body></Envelope>`))
		if err == nil {
			_, err = e.received("A")
		}
		if !errors.Is(err, errAnswer) {
			t.Errorf("%s gave %v", body, err)
		}
	}
}

// Text of the machine goes into conditions and events: it is bounded and printable.
func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"a\r\n  b\tc": "a b c", "gr\u00f6\u00dfer\x1b[31m": "gr????er?[31m", "": "", strings.Repeat("x", 300): strings.Repeat("x", 256) + "...",
	} {
		got := clean(in)
		if len(got) > 260 || strings.IndexFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
			t.Errorf("%q is %q", in, got)
		}
		if in != "gr\u00f6\u00dfer\x1b[31m" && got != want {
			t.Errorf("%q is %q", in, got)
		}
	}
}

// FuzzParse feeds answers of any kind: nothing panics, what comes out is bounded, and ids stay plain.
func FuzzParse(f *testing.F) {
	f.Add([]byte((&winrmtest.Fault{Code: 2150858793, Subcode: "w:TimedOut"}).String()))
	f.Add([]byte(shellAnswer("67A74734-DD32-4F10-89DE-49A060483810")))
	f.Add([]byte(`<Envelope><Body><ReceiveResponse><Stream Name="stdout" CommandId="A">aGVs</Stream><CommandState CommandId="A" State="` + stateDone + `"><ExitCode>-1</ExitCode></CommandState></ReceiveResponse></Body></Envelope>`))
	f.Add([]byte(`<!DOCTYPE a [<!ENTITY b "c">]><Envelope>&b;</Envelope>`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		e, err := parse(answer)
		if err != nil {
			var fault *Fault
			if errors.As(err, &fault) && len(fault.Error()) > 1024 {
				t.Errorf("a fault of %d bytes", len(fault.Error()))
			}
			return
		}
		if id, err := e.shellID(); err == nil && strings.ContainsAny(id, "<>&]\"' \r\n") {
			t.Errorf("id %q", id)
		}
		o, err := e.received("A")
		if err == nil && len(o.stdout)+len(o.stderr) > len(answer) {
			t.Errorf("%d bytes of %d", len(o.stdout)+len(o.stderr), len(answer))
		}
	})
}
