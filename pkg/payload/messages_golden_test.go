package payload

import (
	"bufio"
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMessagesGolden pins the lines of the receive protocol, which operators and agents of different versions exchange.
func TestMessagesGolden(t *testing.T) {
	const hello, bye = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", "b49f425a7e1f9cff3856329ada223f2f9d368f15a00cf48df16ca95986137fe8"
	offer := Offer{Host: "7b6f7a1e-8a4b-4e58-9f0f-0d3c4c1d2e3f", Order: 1796083200000, Blobs: []OfferedBlob{{SHA256: hello, Size: 5}, {SHA256: bye, Size: 3}}}
	need := Need{Need: []string{bye}}
	rest := Need{Need: []string{hello}, Have: map[string]int64{hello: 2}}
	stored := Result{Stored: []string{bye}}
	refusal := Result{Stored: []string{}, Code: "DiskFull", Detail: "8 bytes are needed, 5 are free: disk full"}

	golden, err := os.ReadFile("testdata/messages.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var written bytes.Buffer
	for _, m := range []any{offer, need, rest, stored, refusal} {
		if err := WriteMessage(&written, m); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(golden), written.String()); diff != "" {
		t.Errorf("written: -golden +got:\n%s", diff)
	}

	read, err := ReadOffer(bufio.NewReader(bytes.NewReader(golden)))
	if diff := cmp.Diff(offer, read); err != nil || diff != "" {
		t.Errorf("offer: error %v, -want +got:\n%s", err, diff)
	}
	lines := bytes.Split(bytes.TrimSpace(golden), []byte("\n"))
	for i, want := range []Need{need, rest} {
		if got, _, _ := ParseAnswer(lines[1+i]); got == nil || !cmp.Equal(want, *got) {
			t.Errorf("need: got %v, want %v", got, want)
		}
	}
	for i, want := range []Result{stored, refusal} {
		if _, got, _ := ParseAnswer(lines[3+i]); got == nil || !cmp.Equal(want, *got) {
			t.Errorf("result: got %v, want %v", got, want)
		}
	}
}
