//go:build linux

package wine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRouting is what the shim of iphlpapi asks for, and that a boot forgets it.
func TestRouting(t *testing.T) {
	h, _ := newHardware(t)
	const a, b = "10.244.0.0 24 192.0.2.20 3", "10.244.2.0 24 192.0.2.21 3"
	var got []string
	for _, message := range []string{
		"add-route\n" + a, "add-route\n" + b, "add-route\n" + a, "delete-route\n" + a, "delete-route\n" + a, "routes\n",
		"forwarding\n3", "set-forwarding\n3 1", "forwarding\n3", "forwarding\n4", "set-forwarding\n3 0", "forwarding\n3", "set-forwarding\n3 1",
	} {
		got = append(got, h.answer(message))
	}
	if err := h.boot(); err != nil {
		t.Fatal(err)
	}
	got = append(got, h.answer("routes\n"), h.answer("forwarding\n3"))
	want := []string{"0", "0", "5010", "0", "1168", b, "0", "0", "1", "0", "0", "0", "0", "", "0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestDefinitionOfNewFunctions: what Wine's library lacks and its shim has is exported as well.
func TestDefinitionOfNewFunctions(t *testing.T) {
	got := string(definition("x.dll", []string{"A", "B"}, []byte("DWORD my_B(void) {}\nvoid my_C(void) { my_B(); }"), "xo"))
	if want := "LIBRARY x.dll\nEXPORTS\n A=xo.A\n B=my_B\n C=my_C\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
