package command

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// bubble is the time of a synctest bubble.
type bubble struct{}

func (bubble) Now() time.Time { return time.Now() }

func (bubble) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestWatchedCommandIsNeverSilent: a step that takes a minute is told from a lost connection by a line every two seconds.
func TestWatchedCommandIsNeverSilent(t *testing.T) {
	for _, json := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			p := &program{json: json, env: Env{System: system.System{Clock: bubble{}}, Stdout: &out}}
			begin := time.Now()
			err := p.watched(func(ctx context.Context) error {
				if err := p.report(plan.Report{Phase: plan.PhaseRunning, Step: plan.StepNetwork}); err != nil {
					return err
				}
				return bubble{}.Sleep(ctx, time.Minute)
			})(t.Context())
			if err != nil || time.Since(begin) != time.Minute {
				t.Fatalf("the command ended after %s with %v", time.Since(begin), err)
			}
			lines := bytes.Count(out.Bytes(), []byte("\n"))
			if want := 30; json && (lines < want-1 || lines > want+1) {
				t.Errorf("%d lines in a minute, want about %d", lines, want)
			}
			if !json && lines != 1 {
				t.Errorf("%d lines for a person, want 1", lines)
			}
		})
	}
}
