package payload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadLine(t *testing.T) {
	for _, tc := range []struct {
		name, in, want string
		err            error
	}{
		{"line", "ab\ncd\n", "ab", nil},
		{"CRLF", "ab\r\n", "ab", nil},
		{"empty line", "\n", "", nil},
		{"as long as allowed", strings.Repeat("a", 100) + "\n", strings.Repeat("a", 100), nil},
		{"as long as allowed with CRLF", strings.Repeat("a", 100) + "\r\n", strings.Repeat("a", 100), nil},
		{"one too long", strings.Repeat("a", 101) + "\n", "", ErrMessage},
		{"without end", strings.Repeat("a", 1<<20), "", ErrMessage},
		{"cut", "ab", "", io.ErrUnexpectedEOF},
		{"ended", "", "", io.EOF},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// The smallest buffer, so that a line comes in parts.
			got, err := ReadLine(bufio.NewReaderSize(strings.NewReader(tc.in), 16), 100)
			if string(got) != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestOffer(t *testing.T) {
	d := digestOf([]byte("a"))
	var many []string
	for i := range MaxBlobs + 1 {
		many = append(many, fmt.Sprintf(`{"sha256":%q,"size":1}`, digestOf(fmt.Append(nil, i))))
	}
	for _, tc := range []struct {
		name, in string
		ok       bool
	}{
		{"one", `{"blobs":[{"sha256":"` + d + `","size":1}]}`, true},
		{"none", `{"blobs":[]}`, true},
		{"twice", `{"blobs":[{"sha256":"` + d + `","size":1},{"sha256":"` + d + `","size":1}]}`, false},
		{"path", `{"blobs":[{"sha256":"../../etc/passwd","size":1}]}`, false},
		{"negative", `{"blobs":[{"sha256":"` + d + `","size":-1}]}`, false},
		{"huge", `{"blobs":[{"sha256":"` + d + `","size":1099511627776}]}`, false},
		{"too many", `{"blobs":[` + strings.Join(many, ",") + `]}`, false},
		{"not JSON", `hello`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ReadOffer(bufio.NewReader(strings.NewReader(tc.in + "\n")))
			if tc.ok != (err == nil) || (err != nil && !errors.Is(err, ErrMessage)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestMessageRoundTrip(t *testing.T) {
	o := Offer{Blobs: []OfferedBlob{{SHA256: digestOf([]byte("a")), Size: 1}}}
	var wire bytes.Buffer
	if err := WriteMessage(&wire, o); err != nil {
		t.Fatal(err)
	}
	wire.WriteString("frames")
	r := bufio.NewReader(&wire)
	got, err := ReadOffer(r)
	if d := cmp.Diff(o, got); d != "" || err != nil {
		t.Fatal(d, err)
	}
	if rest, err := io.ReadAll(r); string(rest) != "frames" || err != nil {
		t.Errorf("what follows the offer is %q, %v", rest, err)
	}
	if err := WriteMessage(io.Discard, Result{Detail: strings.Repeat("a", MaxMessage)}); !errors.Is(err, ErrMessage) {
		t.Errorf("a message that is too long gave %v", err)
	}
}

func TestNeed(t *testing.T) {
	a, b := digestOf([]byte("a")), digestOf([]byte("b"))
	o := Offer{Blobs: []OfferedBlob{{SHA256: a, Size: 1}}}
	for _, tc := range []struct {
		need []string
		ok   bool
	}{{nil, true}, {[]string{a}, true}, {[]string{b}, false}, {[]string{a, a}, false}} {
		if err := (Need{Need: tc.need}).Validate(o); tc.ok != (err == nil) || (err != nil && !errors.Is(err, ErrMessage)) {
			t.Errorf("need %v gave %v", tc.need, err)
		}
	}
}

func TestParseAnswer(t *testing.T) {
	for _, tc := range []struct {
		line   string
		need   *Need
		result *Result
		ok     bool
	}{
		{`{"need":["x"]}`, &Need{Need: []string{"x"}}, nil, true},
		{`{"need":[]}`, &Need{Need: []string{}}, nil, true},
		{`{"need":null}`, nil, nil, false},
		{`{"stored":[]}`, nil, &Result{Stored: []string{}}, true},
		{`{"code":"DiskFull","detail":"C:"}`, nil, &Result{Code: "DiskFull", Detail: "C:"}, true},
		{`{}`, nil, nil, false},
		{`#< CLIXML`, nil, nil, false},
		{`["need"]`, nil, nil, false},
		{`{"need":["` + strings.Repeat("a", MaxMessage) + `"]}`, nil, nil, false},
		{"{\"code\":\"DiskFull\",\"detail\":\"gr\xfc\xdfe\"}", nil, &Result{Code: "DiskFull", Detail: "gr\ufffd\ufffde"}, true},
	} {
		need, result, ok := ParseAnswer([]byte(tc.line))
		if d := cmp.Diff(tc.need, need) + cmp.Diff(tc.result, result); d != "" || ok != tc.ok {
			t.Errorf("%.60s: ok %v %s", tc.line, ok, d)
		}
	}
}

func FuzzParseAnswer(f *testing.F) {
	known := digestOf([]byte("x"))
	offer := Offer{Blobs: []OfferedBlob{{SHA256: known, Size: 1}}}
	f.Add([]byte(`{"need":["x"]}`))
	f.Add([]byte(`{"need":["` + known + `"]}`))
	f.Add([]byte(`{"need":["` + known + `","` + known + `"]}`))
	f.Add([]byte(`{"stored":[],"code":"x"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		need, result, ok := ParseAnswer(line)
		if ok != ((need == nil) != (result == nil)) {
			t.Errorf("ok %v with %v and %v", ok, need, result)
		}
		// A machine gets nothing that was not offered, and nothing twice.
		if need != nil && need.Validate(offer) == nil && (len(need.Need) > 1 || len(need.Need) == 1 && need.Need[0] != known) {
			t.Errorf("accepted %v", need.Need)
		}
	})
}

// FuzzReadOffer: an offer holds its limits, what was read is written and read the same, and the frames behind it are untouched.
func FuzzReadOffer(f *testing.F) {
	f.Add([]byte(`{"blobs":[{"sha256":"`+digestOf(nil)+`","size":0}]}`), []byte("WMOFRAME"))
	f.Add([]byte(`{"blobs":[{"sha256":"../../x","size":-1}]}`), []byte("\n"))
	f.Add([]byte(strings.Repeat(" ", MaxMessage)+"{}"), []byte{})
	f.Fuzz(func(t *testing.T, line, behind []byte) {
		in := append(append(bytes.Clone(line), '\n'), behind...)
		r := bufio.NewReaderSize(bytes.NewReader(in), 16)
		o, err := ReadOffer(r)
		if err != nil {
			return
		}
		if len(o.Blobs) > MaxBlobs || bytes.IndexByte(in, '\n') > MaxMessage+1 {
			t.Fatalf("%d blobs of %d bytes", len(o.Blobs), bytes.IndexByte(in, '\n'))
		}
		for _, b := range o.Blobs {
			if !digestRule.MatchString(b.SHA256) || b.Size < 0 || b.Size > MaxBlobSize {
				t.Fatalf("accepted %+v", b)
			}
		}
		rest, err := io.ReadAll(r)
		if want := in[bytes.IndexByte(in, '\n')+1:]; err != nil || !bytes.Equal(rest, want) {
			t.Fatalf("%d bytes follow, want %d, %v", len(rest), len(want), err)
		}
		var out bytes.Buffer
		if err := WriteMessage(&out, o); err != nil {
			return
		}
		again, err := ReadOffer(bufio.NewReader(&out))
		if d := cmp.Diff(o, again); d != "" || err != nil {
			t.Fatalf("read again otherwise: %v %s", err, d)
		}
	})
}

var digestRule = regexp.MustCompile(`^[0-9a-f]{64}$`)
