package hostsim_test

import (
	"testing"

	"github.com/windowsmachine/operator/test/hostsim"
)

// TestTurnsOfACommand holds the counts of a whole connection against what a client does.
func TestTurnsOfACommand(t *testing.T) {
	moments := make(chan hostsim.Moment, 16)
	key := newKey(t)
	h := newHost(t, key, func(o *hostsim.Options) { o.Trace = func(m hostsim.Moment) { moments <- m } })
	c := dial(t, h, key)
	login := h.Stats().Turns
	// TCP, and at least the versions, the keys and the login.
	if login < 4 || login > 12 {
		t.Errorf("%d turns until the login", login)
	}
	const line = `C:\Windows\System32\hostname.exe`
	if r := run(t, c, line, nil); r.exit != 0 {
		t.Fatalf("%+v", r)
	}
	// One for the channel, one for the request.
	if got := h.Stats().Turns - login; got != 2 {
		t.Errorf("%d turns for a command without input", got)
	}
	for _, want := range []hostsim.Moment{
		{Kind: hostsim.MomentConnect}, {Kind: hostsim.MomentLogin}, {Kind: hostsim.MomentStart, Command: line}, {Kind: hostsim.MomentEnd, Command: line},
	} {
		got := <-moments
		if got.At.IsZero() || got.Kind != want.Kind || got.Command != want.Command {
			t.Errorf("saw %+v, want %+v", got, want)
		}
	}
}
