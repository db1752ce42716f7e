package host

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windowsmachine/operator/pkg/transport"
)

// TestTurns: so many machines are asked at the same time; what ends a turn lets the next one in.
func TestTurns(t *testing.T) {
	for _, tc := range []struct {
		name string
		// end is done to the session that has the only place, after its first verb.
		end   func(t *testing.T, s *Session, m *machine)
		after time.Duration
	}{
		{"it rests", func(_ *testing.T, s *Session, _ *machine) { s.Rest() }, 0},
		{"it does something else", func(_ *testing.T, s *Session, _ *machine) { s.Start(VerbFollow, args()) }, 0},
		{"it is disconnected", func(_ *testing.T, s *Session, _ *machine) { s.Disconnect() }, 0},
		{"its connection is lost", func(_ *testing.T, _ *Session, m *machine) { m.cut() }, 0},
		{"it is forgotten", func(_ *testing.T, s *Session, _ *machine) { s.pool.Forget(s.key) }, 0},
		{"it stalls", func(*testing.T, *Session, *machine) {}, turnLimit},
	} {
		for _, v := range []Verb{VerbConnect, VerbFacts} {
			t.Run(fmt.Sprintf("%s after %s", tc.name, v), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := &machine{run: says(0, line(t, facts(nil)))}
					h := newHarness(t, m, func(c *Config) { c.Asking = 1 })
					h.do(t, v, args())
					second := h.pool.Session("winhost-2")
					second.Start(VerbConnect, args())
					synctest.Wait()
					if s := second.Snapshot(); s.Connected || s.Busy != VerbConnect {
						t.Fatalf("two have a turn at once: %+v", s)
					}
					tc.end(t, h.session, m)
					advance(tc.after)
					if s := second.Snapshot(); !s.Connected || s.Busy != "" {
						t.Errorf("the second one waits on: %+v", s)
					}
				})
			})
		}
	}
}

// TestTurnsAreKeptFromNobody: a verb that is no question gives the place back as soon as it is connected, and so does a login that fails; who is
// told to stop while it waits takes none.
func TestTurnsAreKeptFromNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{run: hang}
		m.put(agentPath(), agentText)
		h := newHarness(t, m, func(c *Config) { c.Asking = 1 })
		places := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if got := len(h.pool.asking); got != want {
				t.Errorf("%s: %d places are taken, want %d", when, got, want)
			}
		}
		h.session.Start(VerbFollow, args())
		places("following", 0)
		h.session.Disconnect()
		h.wait()

		refused := args()
		refused.Target.Verify = func(transport.HostKey) error { return errors.New("unknown") }
		h.session = h.pool.Session("refused")
		h.do(t, VerbConnect, refused)
		places("refused", 0)

		h.do(t, VerbConnect, args())
		places("connected", 1)
		waits := h.pool.Session("waits")
		waits.Start(VerbConnect, args())
		synctest.Wait()
		waits.Disconnect()
		synctest.Wait()
		if err := waits.Snapshot().Last[VerbConnect].Err; !errors.Is(err, transport.ErrDisconnected) {
			t.Errorf("told to stop: %v", err)
		}
		places("one has stopped waiting", 1)
		if err := waits.takeTurn(canceled()); !errors.Is(err, context.Canceled) {
			t.Errorf("waiting with an ended context: %v", err)
		}
	})
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
