package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/windowsmachine/operator/test/hostsim"
)

// maxChannels is the budget for a first configuration.
const maxChannels = 5

// TestCost: a first configuration is one connection and at most five channels, whatever the payload's size, and no PowerShell. The payload is
// sent once.
func TestCost(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	channels := map[int]bool{}
	for scale, on := range map[float64]*table{smallScale: run.calm, largeScale: run.rough} {
		t.Run(fmt.Sprint(scale), func(t *testing.T) {
			t.Parallel()
			defer on.reserve()()
			n := newRig(t, on).cost()
			mu.Lock()
			defer mu.Unlock()
			channels[n] = true
		})
	}
	// This runs when both have ended.
	t.Cleanup(func() {
		if len(channels) != 1 {
			t.Errorf("the number of channels depends on the payload's size: %v", channels)
		}
	})
}

// cost has a machine configured and returns how many channels that took.
func (r *rig) cost() (channels int) {
	r.t.Helper()
	p := r.ownProfile()
	m := r.machine("cost")
	r.join(hostOf(m, withProfile(p.Name)))
	r.untilReady(m.name)
	first := m.Stats()
	r.t.Logf("%d connection, %d channels (%d of them SFTP), %d bytes received: %q", first.Connections, first.Sessions, first.Subsystems, first.Received, first.Commands)
	checkFirst(r.t, first)

	// Another plan without other programs.
	change(r, p, louder)
	r.untilLouder(m)
	second := m.Stats()
	r.t.Logf("one more plan: %d bytes, %q", second.Received-first.Received, second.Commands[len(first.Commands):])
	if grown := second.Received - first.Received; countReceive(second) != 1 || grown > 64<<10 {
		r.t.Errorf("after another plan: receive ran %d times, %d bytes more", countReceive(second), grown)
	}
	return first.Sessions
}

func checkFirst(t *testing.T, s hostsim.Stats) {
	t.Helper()
	// An SFTP server runs in a session, so sessions are all channels.
	if s.Connections != 1 || s.Sessions > maxChannels || s.Refused != 0 {
		t.Errorf("%d connections, %d channels, %d refused", s.Connections, s.Sessions, s.Refused)
	}
	for _, c := range s.Commands {
		if strings.Contains(strings.ToLower(c), "powershell") || strings.Contains(strings.ToLower(c), "cmd") {
			t.Errorf("a shell is started: %s", c)
		}
	}
	if n := countReceive(s); n != 1 {
		t.Errorf("the payload was sent %d times", n)
	}
}

func countReceive(s hostsim.Stats) int {
	n := 0
	for _, c := range s.Commands {
		if strings.HasSuffix(c, " receive") {
			n++
		}
	}
	return n
}
