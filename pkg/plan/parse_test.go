package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// golden reads a file of testdata; the flag -update writes it first.
func golden(t *testing.T, name string, want []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the files in testdata that this version of the format makes")
	os.Exit(m.Run())
}

func indented(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func TestGoldenPlanV1StaysReadable(t *testing.T) {
	b := golden(t, "plan-v1.json", indented(t, validPlan()))
	got, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(validPlan(), got); diff != "" {
		t.Error(diff)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	digest := golden(t, "plan-v1.sha256", []byte(validPlan().Digest()+"\n"))
	if got.Digest()+"\n" != string(digest) {
		t.Errorf("digest %s, must stay %s", got.Digest(), digest)
	}
}

func TestGoldenEnvelopeV1StaysReadable(t *testing.T) {
	want := Envelope{
		APIVersion: EnvelopeVersion, Host: "7b6f7a1e-8a4b-4e58-9f0f-0d3c4c1d2e3f", Adopt: true, Generation: 7, Order: 1796083200000, Plan: validPlan(),
		Secrets: map[string][]byte{"bootstrap-kubeconfig": []byte("apiVersion: v1\n")},
	}
	got, err := ParseEnvelope(bytes.NewReader(golden(t, "envelope-v1.json", indented(t, want))))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// Older operators, and people, give no order.
	want.Order = 0
	if got, err = ParseEnvelope(bytes.NewReader(indented(t, want))); err != nil || got.Order != 0 {
		t.Errorf("without an order: %d, %v", got.Order, err)
	}
}

func TestClaimCheck(t *testing.T) {
	for name, c := range map[string]struct {
		claim Claim
		ok    bool
	}{
		"of a person":            {Claim{}, true},
		"of a host":              {Claim{Host: "7b6f7a1e-8a4b-4e58-9f0f-0d3c4c1d2e3f", Order: 1796083200000}, true},
		"negative order":         {Claim{Host: "h", Order: -1}, false},
		"host with a line break": {Claim{Host: "a\nb"}, false},
		"host too long":          {Claim{Host: long(257)}, false},
	} {
		if err := c.claim.Check(); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseEncodeRoundTrip(t *testing.T) {
	p := validPlan()
	got, err := Parse(p.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     error
	}{
		{"nothing", "", ErrMalformed},
		{"no JSON", "x", ErrMalformed},
		{"no version", "{}", ErrMalformed},
		{"null", "null", ErrMalformed},
		{"list", "[]", ErrMalformed},
		{"other group", `{"apiVersion":"envelope.windowsmachine.dev/v1"}`, ErrMalformed},
		{"version 0", `{"apiVersion":"plan.windowsmachine.dev/v0"}`, ErrMalformed},
		{"version 01", `{"apiVersion":"plan.windowsmachine.dev/v01"}`, ErrMalformed},
		{"version beta", `{"apiVersion":"plan.windowsmachine.dev/v1beta1"}`, ErrMalformed},
		{"newer version", `{"apiVersion":"plan.windowsmachine.dev/v2","teleports":[]}`, ErrTooNew},
		{"much newer", `{"apiVersion":"plan.windowsmachine.dev/v99999999999999999999"}`, ErrMalformed},
		{"newer capability before unknown field", `{"apiVersion":"plan.windowsmachine.dev/v1","requires":["teleport/v1"],"teleports":[]}`, ErrTooNew},
		{"unknown field", `{"apiVersion":"plan.windowsmachine.dev/v1","teleports":[]}`, ErrMalformed},
		{"unknown inner field", `{"apiVersion":"plan.windowsmachine.dev/v1","files":[{"mode":1}]}`, ErrMalformed},
		{"wrong type", `{"apiVersion":"plan.windowsmachine.dev/v1","files":{}}`, ErrMalformed},
		{"trailing", `{"apiVersion":"plan.windowsmachine.dev/v1"} {}`, ErrMalformed},
		{"too large", strings.Repeat(" ", MaxPlan+1), ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Parse([]byte(c.in)); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestParseEnvelopeRefuses(t *testing.T) {
	envelope := func(edits ...func(*Envelope)) string {
		e := Envelope{APIVersion: EnvelopeVersion, Host: "h", Generation: 1, Plan: validPlan()}
		for _, edit := range edits {
			edit(&e)
		}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if _, err := ParseEnvelope(strings.NewReader(envelope())); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, in string
		want     error
	}{
		{"nothing", "", ErrMalformed},
		{"newer version", `{"apiVersion":"envelope.windowsmachine.dev/v2"}`, ErrTooNew},
		{"newer plan", strings.Replace(envelope(), "plan.windowsmachine.dev/v1", "plan.windowsmachine.dev/v2", 1), ErrTooNew},
		{"no plan", `{"apiVersion":"envelope.windowsmachine.dev/v1","host":"h","generation":1}`, ErrMalformed},
		{"unknown field", strings.Replace(envelope(), `"host"`, `"x":1,"host"`, 1), ErrMalformed},
		{"no host", envelope(func(e *Envelope) { e.Host = "" }), ErrMalformed},
		{"host with line break", envelope(func(e *Envelope) { e.Host = "a\nb" }), ErrMalformed},
		{"host too long", envelope(func(e *Envelope) { e.Host = long(257) }), ErrMalformed},
		{"negative order", envelope(func(e *Envelope) { e.Order = -1 }), ErrMalformed},
		{"generation 0", envelope(func(e *Envelope) { e.Generation = 0 }), ErrMalformed},
		{"secret without a place", envelope(func(e *Envelope) { e.Secrets = map[string][]byte{"x": nil} }), ErrMalformed},
		{"secret too large", envelope(func(e *Envelope) {
			e.Secrets = map[string][]byte{"bootstrap-kubeconfig": make([]byte, MaxSecret+1)}
		}), ErrTooLarge},
		{"trailing", envelope() + "x", ErrMalformed},
		{"too large", strings.Repeat(" ", MaxEnvelope+1), ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := ParseEnvelope(strings.NewReader(c.in)); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	broken := errors.New("cut")
	if _, err := ParseEnvelope(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestParseEnvelopeReadsNoMoreThanItsLimit(t *testing.T) {
	r := &endless{}
	if _, err := ParseEnvelope(r); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if r.n > MaxEnvelope+64<<10 {
		t.Errorf("read %d bytes", r.n)
	}
}

type endless struct{ n int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.n += len(b)
	return len(b), nil
}

func TestParseEnvelopeErrorsHoldNoSecret(t *testing.T) {
	const canary = "canary"
	for _, in := range []string{
		`{"apiVersion":"envelope.windowsmachine.dev/v1","secrets":"` + canary + `"}`,
		`{"apiVersion":"envelope.windowsmachine.dev/v1","secrets":{"a":"` + canary + `!"}}`,
		`{"apiVersion":"envelope.windowsmachine.dev/v1","secrets":{"a":` + canary + `}}`,
		canary,
	} {
		_, err := ParseEnvelope(strings.NewReader(in))
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("got %v", err)
		}
	}
}

func TestW12ArgumentsArriveByteForByte(t *testing.T) {
	args := []string{
		"--eviction-hard=memory.available<500Mi,nodefs.available<10%", "--provider-id=azure:///subscriptions/0000/x",
		`--x=$a;b&c|d^e%PATH%"f"'g'\`, "BUDGET",
	}
	p := validPlan(onService(func(s *Service) { s.Args = args }))
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	got, err := Parse(p.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(args, got.Services[1].Args); diff != "" {
		t.Error(diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(validPlan().Encode())
	f.Add(Empty().Encode())
	f.Add([]byte(`{"apiVersion":"plan.windowsmachine.dev/v1","files":[{"inline":"AA=="}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		again, err := Parse(p.Encode())
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if p.Digest() != again.Digest() {
			t.Error("digest changed on the way")
		}
		_ = p.Validate()
		_ = Diff(p, Empty())
	})
}
