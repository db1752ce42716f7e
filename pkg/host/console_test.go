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

	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/transport"
)

// TestOneConsole: the agent's commands share a channel, whether they go well, say no, or end before they were told everything.
func TestOneConsole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{run: func(ctx context.Context, c transport.Command) (int, error) {
			switch c.Args[0] {
			case "receive":
				// The disk is full before anything is sent, and the sender waits for an answer.
				return says(1, `{"stored":[],"code":"DiskFull","detail":"no room"}`)(ctx, c)
			case "apply":
				return says(5, `{"code":"Busy","detail":"another command is at work"}`)(ctx, c)
			}
			return says(0, line(t, facts(nil)))(ctx, c)
		}}
		s := store(t, "a")
		h := newHarness(t, m, func(c *Config) { c.Store = s })
		a := stageArgs("a")
		a.Envelope = plan.Envelope{APIVersion: plan.EnvelopeVersion, Host: "uid", Generation: 1, Plan: plan.Empty()}
		for _, v := range []Verb{VerbFacts, VerbStage, VerbApply, VerbStage, VerbFacts} {
			got := h.do(t, v, a)
			var refusal *Refusal
			if refused := errors.As(got.Last[v].Err, &refusal); refused != (v != VerbFacts) || got.Stats.Channels != 2 {
				t.Errorf("%s: %v, %d channels", v, got.Last[v].Err, got.Stats.Channels)
			}
		}
	})
}

// TestConsoleAfterTrouble: a command that was left, flooded or killed takes the console with it, and the next command gets another one.
func TestConsoleAfterTrouble(t *testing.T) {
	for name, row := range map[string]struct {
		run  func(context.Context, transport.Command) (int, error)
		want error
	}{
		"floods": {func(_ context.Context, c transport.Command) (int, error) {
			for {
				if _, err := io.WriteString(c.Stdout, strings.Repeat("x", 64<<10)); err != nil {
					return 0, err
				}
			}
		}, errFlood},
		"says nothing": {func(ctx context.Context, _ transport.Command) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, transport.ErrUnreachable},
		"is killed": {func(context.Context, transport.Command) (int, error) {
			return 137, errors.New("the process is gone")
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bad := true
				m := &machine{run: func(ctx context.Context, c transport.Command) (int, error) {
					if bad {
						return row.run(ctx, c)
					}
					return says(0, line(t, facts(nil)))(ctx, c)
				}}
				h := newHarness(t, m, nil)
				got := h.do(t, VerbFacts, args())
				if err := got.Last[VerbFacts].Err; err == nil || row.want != nil && !errors.Is(err, row.want) {
					t.Errorf("got %v, want %v", err, row.want)
				}
				bad = false
				if got := h.do(t, VerbFacts, args()); got.Last[VerbFacts].Err != nil {
					t.Errorf("the next command: %v", got.Last[VerbFacts].Err)
				}
			})
		})
	}
}

// TestConsoleSaysItTwice: a machine that says of another command that it has ended does not end this one.
func TestConsoleSaysItTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const done = `{"apiVersion":"done.windowsmachine.dev/v1","id":0,"exit":0}`
		ran := 0
		m := &machine{run: func(ctx context.Context, c transport.Command) (int, error) {
			ran++
			exit, err := says(0, line(t, facts(func(f *plan.HostFacts) { f.Build = ran })), done, done)(ctx, c)
			<-time.After(time.Second)
			return exit, err
		}}
		h := newHarness(t, m, nil)
		for i := range 3 {
			if got := h.do(t, VerbFacts, args()); got.Last[VerbFacts].Err != nil || got.Facts.Build != i+1 {
				t.Errorf("answer %d: %v, %+v", i+1, got.Last[VerbFacts].Err, got.Facts)
			}
		}
	})
}

// TestRemoveLeavesTheProgramFirst: Windows does not delete a program that runs.
func TestRemoveLeavesTheProgramFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle := report(func(r *plan.Report) { r.Phase, r.Step = plan.PhaseIdle, "" })
		m := &machine{run: says(0, line(t, idle))}
		m.removeErr = func() error {
			if n := m.serving.Load(); n != 0 {
				return fmt.Errorf("%d programs run", n)
			}
			return nil
		}
		h := newHarness(t, m, nil)
		if got := h.do(t, VerbRemove, args()); got.Last[VerbRemove].Err != nil {
			t.Error(got.Last[VerbRemove].Err)
		}
		if _, there := m.file(agentPath()); there {
			t.Error("the agent is left")
		}
	})
}
