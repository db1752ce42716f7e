package e2e

import (
	"strings"
	"testing"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/test/hostsim"
)

const (
	// maxChannels is the budget for a first configuration.
	maxChannels = 5
	// usualChannels are SFTP for the agent's file and one for all of its commands. A network that is made drops the link, and the connection after
	// that needs another one for the commands.
	usualChannels, networkChannels = 2, 3
)

// TestCost: a first configuration is few channels, whatever the payload's size, and no PowerShell. The payload is sent once, and nothing of it again
// for another plan.
func TestCost(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name                  string
		on                    *table
		mode                  v1alpha1.NetworkMode
		connections, channels int
	}{
		{"small payload, network given", run.calm, v1alpha1.NetworkCustom, 1, usualChannels},
		{"large payload, network given", run.rough, v1alpha1.NetworkCustom, 1, usualChannels},
		{"network made", run.calm, v1alpha1.NetworkL2Bridge, 2, networkChannels},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			defer row.on.reserve()()
			r := newRig(t, row.on)
			p := r.ownProfile(row.mode)
			m := r.machine("cost")
			r.join(hostOf(m, withProfile(p.Name)))
			r.untilReady(m.name)
			first := m.Stats()
			t.Logf("%d connections, %d channels (%d of them SFTP), %d bytes received: %q", first.Connections, first.Sessions, first.Subsystems, first.Received, first.Commands)
			checkFirst(t, first)
			if first.Connections != row.connections || first.Sessions != row.channels {
				t.Errorf("%d connections, %d channels; want %d and %d", first.Connections, first.Sessions, row.connections, row.channels)
			}

			// Another plan without other programs.
			change(r, p, louder)
			r.untilLouder(m)
			second := m.Stats()
			t.Logf("one more plan: %d bytes, %q", second.Received-first.Received, second.Commands[len(first.Commands):])
			if grown := second.Received - first.Received; countReceive(second) != 1 || grown > 64<<10 || second.Sessions != first.Sessions {
				t.Errorf("after another plan: receive ran %d times, %d bytes more, %d channels", countReceive(second), grown, second.Sessions)
			}
		})
	}
}

func checkFirst(t *testing.T, s hostsim.Stats) {
	t.Helper()
	// An SFTP server runs in a session, so sessions are all channels.
	if s.Sessions > maxChannels || s.Refused != 0 {
		t.Errorf("%d channels, %d refused", s.Sessions, s.Refused)
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
