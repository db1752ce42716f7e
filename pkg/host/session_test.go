package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/transport"
)

// hang is a program that ends with its context.
func hang(ctx context.Context, _ transport.Command) (int, error) {
	<-ctx.Done()
	return 0, context.Cause(ctx)
}

func TestConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{}
		h := newHarness(t, m, nil)
		if d := cmp.Diff(Snapshot{}, h.session.Snapshot()); d != "" {
			t.Errorf("a new session knows something: %s", d)
		}
		got := h.do(t, VerbConnect, args())
		want := Snapshot{
			Connected: true, HostKey: transport.HostKey{Algorithm: "ssh-ed25519", Fingerprint: "SHA256:key-of-192.0.2.10"},
			Last: map[Verb]Outcome{VerbConnect: {Verb: VerbConnect, At: time.Now()}},
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		// The snapshot is a copy.
		got.Last[VerbApply] = Outcome{}
		if len(h.session.Snapshot().Last) != 1 {
			t.Error("a snapshot changes the session")
		}
		if h.pool.Session("winhost-1") != h.session || h.pool.Session("winhost-2") == h.session {
			t.Error("sessions are not by key")
		}
	})
}

func TestConnectionIsReused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*transport.Target)
		dials  int
	}{
		{"same target", func(*transport.Target) {}, 1},
		{"another Verify", func(t *transport.Target) { t.Verify = func(transport.HostKey) error { return nil } }, 1},
		{"another address", func(t *transport.Target) { t.Address = "192.0.2.11" }, 2},
		{"another port", func(t *transport.Target) { t.Port = 2222 }, 2},
		{"another user", func(t *transport.Target) { t.User = "admin" }, 2},
		{"another key", func(t *transport.Target) { t.PrivateKeys = [][]byte{[]byte("new")} }, 2},
		{"key cut in two", func(t *transport.Target) { t.PrivateKeys = [][]byte{[]byte("k"), []byte("ey")} }, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{}
				h := newHarness(t, m, nil)
				h.do(t, VerbConnect, args())
				a := args()
				tc.change(&a.Target)
				h.do(t, VerbConnect, a)
				if open, dialed := m.open(); open != 1 || dialed != tc.dials {
					t.Errorf("%d connections open of %d", open, dialed)
				}
			})
		})
	}
}

func TestConnectFails(t *testing.T) {
	changed := errors.New("the key has changed")
	for _, tc := range []struct {
		name   string
		dial   error
		verify error
		want   error
	}{
		{"unreachable", fmt.Errorf("dialing: %w", transport.ErrUnreachable), nil, transport.ErrUnreachable},
		{"refused", fmt.Errorf("dialing: %w", transport.ErrAuth), nil, transport.ErrAuth},
		{"host key", nil, changed, transport.ErrHostKey},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, &machine{dialErr: tc.dial}, nil)
				a := args()
				a.Target.Verify = func(transport.HostKey) error { return tc.verify }
				got := h.do(t, VerbFacts, a)
				if got.Connected || got.HostKey.Fingerprint != "" || !errors.Is(got.Last[VerbFacts].Err, tc.want) {
					t.Errorf("got %+v", got)
				}
			})
		})
	}
}

func TestStartWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{run: hang}
		m.put(agentPath(), agentText)
		h := newHarness(t, m, nil)
		if !h.session.Start(VerbFollow, args()) {
			t.Fatal("not started")
		}
		synctest.Wait()
		if h.session.Start(VerbApply, args()) {
			t.Error("a second verb was started")
		}
		if got := h.session.Snapshot(); got.Busy != VerbFollow || !got.Connected {
			t.Errorf("got %+v", got)
		}
		h.session.Disconnect()
		got := h.wait()
		if err := got.Last[VerbFollow].Err; !errors.Is(err, transport.ErrDisconnected) || got.Connected {
			t.Errorf("after Disconnect: %v, %+v", err, got)
		}
		// The session can be used again.
		if got := h.do(t, VerbConnect, args()); !got.Connected {
			t.Errorf("got %+v", got)
		}
	})
}

func TestUnknownVerb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, &machine{}, nil)
		if got := h.do(t, "format", args()); got.Last["format"].Err == nil {
			t.Error("an unknown verb succeeded")
		}
	})
}

// A lost connection is told about without anyone asking, in the middle of a verb and between verbs.
func TestConnectionLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{run: hang}
		m.put(agentPath(), agentText)
		h := newHarness(t, m, nil)
		h.do(t, VerbConnect, args())
		drainNotes(h)
		m.cut()
		synctest.Wait()
		if got := h.session.Snapshot(); got.Connected || len(h.notes) != 1 {
			t.Errorf("%d notes, %+v", len(h.notes), got)
		}
		h.session.Start(VerbApply, args())
		synctest.Wait()
		m.cut()
		got := h.wait()
		if err := got.Last[VerbApply].Err; !errors.Is(err, transport.ErrDisconnected) || got.Connected {
			t.Errorf("got %v, %+v", err, got)
		}
	})
}

func drainNotes(h *harness) {
	synctest.Wait()
	for len(h.notes) > 0 {
		<-h.notes
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{}
		h := newHarness(t, m, nil)
		h.do(t, VerbConnect, args())
		advance(defaultIdle - time.Second)
		if open, _ := m.open(); open != 1 {
			t.Fatal("closed too early")
		}
		// A verb begins the time anew.
		h.do(t, VerbConnect, args())
		advance(defaultIdle - time.Second)
		if open, dialed := m.open(); open != 1 || dialed != 1 {
			t.Fatal("closed too early")
		}
		advance(2 * time.Second)
		if open, _ := m.open(); open != 0 || h.session.Snapshot().Connected {
			t.Error("an idle connection is open")
		}
		if got := h.session.Snapshot().Last[VerbConnect].Err; got != nil {
			t.Errorf("an idle end changes the outcome: %v", got)
		}
	})
}

// TestResting: of sessions that rest only so many keep their connection; one that works is not among them.
func TestResting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{run: says(0, line(t, facts(nil)))}
		h := newHarness(t, m, func(c *Config) { c.Resting = 2 })
		connected := func() (out string) {
			synctest.Wait()
			for _, k := range []string{"a", "b", "c", "d"} {
				if h.pool.Session(k).Snapshot().Connected {
					out += k
				}
			}
			return out
		}
		for _, k := range []string{"a", "b", "c", "d"} {
			h.session = h.pool.Session(k)
			h.do(t, VerbFacts, args())
			h.session.Rest()
			h.session.Rest()
		}
		if got := connected(); got != "cd" {
			t.Errorf("connected are %q, want the last two", got)
		}
		// Who rests without a connection takes nobody's place, and who is at work does not rest.
		h.pool.Session("a").Rest()
		h.session = h.pool.Session("c")
		h.do(t, VerbFacts, args())
		h.session = h.pool.Session("b")
		h.do(t, VerbFacts, args())
		h.session.Rest()
		if got := connected(); got != "bcd" {
			t.Errorf("connected are %q, want b, c, d: c does not rest", got)
		}
		h.pool.Forget("d")
		h.pool.Session("c").Rest()
		if got := connected(); got != "bc" {
			t.Errorf("connected are %q, want b and c: d is forgotten", got)
		}
	})
}

// advance lets the bubble's clock pass.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestSilentAgentIsTakenForLost: a link that drops while a network is made leaves a connection that nobody closes.
func TestSilentAgentIsTakenForLost(t *testing.T) {
	const limit = 8 * time.Second
	for _, v := range []Verb{VerbApply, VerbFollow, VerbRemove} {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{run: hang}
				m.put(agentPath(), agentText)
				h := newHarness(t, m, nil)
				begin := time.Now()
				got := h.do(t, v, args())
				if err := got.Last[v].Err; !errors.Is(err, transport.ErrDisconnected) || got.Connected {
					t.Errorf("got %v, connected %t", err, got.Connected)
				}
				if took := time.Since(begin); took != 3*limit {
					t.Errorf("an agent that never spoke was given %s, want %s", took, 3*limit)
				}
			})
		})
	}
}

// speak prints the report every two seconds, as the agent does.
func speak(t *testing.T) func(context.Context, transport.Command) (int, error) {
	said := line(t, report(func(r *plan.Report) { r.Phase = plan.PhaseRunning }))
	return func(ctx context.Context, c transport.Command) (int, error) {
		for {
			if _, err := io.WriteString(c.Stdout, said+"\n"); err != nil {
				return 0, err
			}
			select {
			case <-time.After(2 * time.Second):
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
	}
}

func TestDeadlines(t *testing.T) {
	for _, v := range []Verb{VerbFacts, VerbStage, VerbApply, VerbFollow, VerbRemove, VerbReboot} {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{run: hang}
				if v == VerbApply || v == VerbFollow || v == VerbRemove {
					m.run = speak(t)
				}
				m.put(agentPath(), agentText)
				s := store(t, "blob")
				h := newHarness(t, m, func(c *Config) { c.Store = s })
				a := args()
				a.Blobs = []string{digestOf("blob")}
				begin := time.Now()
				got := h.do(t, v, a)
				if err := got.Last[v].Err; !errors.Is(err, transport.ErrUnreachable) || got.Connected {
					t.Errorf("got %v", err)
				}
				if took, want := time.Since(begin), (Deadlines{}).of(v); took != want || want <= 0 {
					t.Errorf("took %s instead of %s", took, want)
				}
				if open, _ := m.open(); open != 0 {
					t.Error("the connection is open")
				}
			})
		})
	}
	set := Deadlines{Connect: 1, Facts: 2, Stage: 3, Apply: 4, Follow: 5, Remove: 6, Reboot: 7}
	for i, v := range []Verb{VerbConnect, VerbFacts, VerbStage, VerbApply, VerbFollow, VerbRemove, VerbReboot} {
		if got := set.of(v); got != time.Duration(i+1) {
			t.Errorf("%s has %d", v, got)
		}
	}
}

func TestForgetAndClose(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(*harness)
	}{
		{"forget", func(h *harness) { h.pool.Forget("winhost-1") }},
		{"forget others", func(h *harness) { h.pool.ForgetOthers("winhost-", "winhost-7") }},
		{"close", func(h *harness) { h.pool.Close() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{run: hang}
				m.put(agentPath(), agentText)
				h := newHarness(t, m, nil)
				h.session.Start(VerbApply, args())
				synctest.Wait()
				tc.end(h)
				got := h.session.Snapshot()
				if open, _ := m.open(); open != 0 || got.Busy != "" || got.Connected {
					t.Errorf("%d connections, %+v", open, got)
				}
				if err := got.Last[VerbApply].Err; !errors.Is(err, transport.ErrDisconnected) {
					t.Errorf("the verb ended with %v", err)
				}
				if h.session.Start(VerbConnect, args()) {
					t.Error("an ended session starts a verb")
				}
				next := h.pool.Session("winhost-1")
				if next == h.session || len(next.Snapshot().Last) != 0 {
					t.Error("the session is still known")
				}
				if got := next.Start(VerbConnect, args()); got == (tc.name == "close") {
					t.Errorf("a new session started: %v", got)
				}
				h.pool.Forget("winhost-7")
			})
		})
	}
}

// With one place, the second session waits for it, and gives up waiting when it is told to.
func TestStagingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t, "blob")
		m := &machine{run: hang}
		m.put(agentPath(), agentText)
		h := newHarness(t, m, func(c *Config) { c.Store, c.Stagings = s, 1 })
		a := args()
		a.Blobs = []string{digestOf("blob")}
		h.session.Start(VerbStage, a)
		synctest.Wait()
		second, third := h.pool.Session("winhost-2"), h.pool.Session("winhost-3")
		second.Start(VerbStage, a)
		third.Start(VerbStage, a)
		synctest.Wait()
		if _, dialed := m.open(); dialed != 1 || second.Snapshot().Busy != VerbStage {
			t.Fatalf("%d sessions send", dialed)
		}
		third.Disconnect()
		synctest.Wait()
		if err := third.Snapshot().Last[VerbStage].Err; !errors.Is(err, transport.ErrDisconnected) {
			t.Errorf("waiting ended with %v", err)
		}
		h.session.Disconnect()
		synctest.Wait()
		if _, dialed := m.open(); dialed != 2 {
			t.Error("the second session does not go on")
		}
	})
}

func TestNothingSecretIsPrinted(t *testing.T) {
	const canary = "canary-7f3a"
	synctest.Test(t, func(t *testing.T) {
		m := &machine{run: func(_ context.Context, c transport.Command) (int, error) {
			return says(1, `{"code":"StepFailed","detail":"disk full"}`)(nil, c)
		}}
		m.put(agentPath(), agentText)
		h := newHarness(t, m, nil)
		a := args()
		a.Target.PrivateKeys = [][]byte{[]byte(canary)}
		a.Envelope = plan.Envelope{Secrets: map[string][]byte{"kubeconfig": []byte(canary)}}
		got := h.do(t, VerbApply, a)
		texts := []string{got.Last[VerbApply].Err.Error(), strings.Join(m.lines, " ")}
		for _, v := range []any{a, a.Target, &a, got, h.session.target} {
			texts = append(texts, fmt.Sprintf("%v %+v %#v %s", v, v, v, v))
		}
		a.Envelope.Secrets["big"] = []byte(strings.Repeat(canary, plan.MaxEnvelope/len(canary)))
		got = h.do(t, VerbApply, a)
		if err := got.Last[VerbApply].Err; !errors.Is(err, ErrEnvelope) {
			t.Errorf("an envelope that is too large gave %v", err)
		}
		texts = append(texts, got.Last[VerbApply].Err.Error())
		for _, text := range texts {
			if strings.Contains(text, canary) || strings.Contains(text, fmt.Sprintf("%d", []byte(canary))) {
				t.Errorf("a secret is in %.200q", text)
			}
		}
	})
}
