package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// TestPlanWithoutService: a hand-over that was killed between the stored plan and the service leaves a plan that nobody carries out. Who follows is
// told so within seconds, and handing the plan over again does the rest.
func TestPlanWithoutService(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		e := envelope(1, r.node(), ticket())
		_, err := r.a.Accept(t.Context(), e)
		r.must(err)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = r.a.FollowNow(ctx, func(plan.Report) error { return nil })
		r.wants(err, ErrAgentStopped)
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("it took %s to tell", d)
		}
		r.applied(e, plan.PhaseInSync)
	})
}

// TestKilledBeforeStateIsThere: a C:\k that an agent made before it was killed is the agent's all the same, and goes with it.
func TestKilledBeforeStateIsThere(t *testing.T) {
	errKilled := errors.New("killed")
	for n := 1; ; n++ {
		reached := false
		withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
			before := r.m.Dump()
			ops := 0
			r.m.Intercept(func(op fake.Op) fake.Verdict {
				ops++
				// Windows closes what a killed process has open.
				if ops <= n || op.Kind == fake.OpClose {
					return fake.Verdict{}
				}
				// From here on nothing comes through, not even what tidies up.
				reached = true
				return fake.Verdict{Err: errKilled}
			})
			_ = r.a.secureRoot(t.Context())
			r.m.Intercept(nil)
			r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
			_, err := r.a.Remove(t.Context(), plan.Claim{}, func(plan.Report) error { return nil })
			r.must(err)
			r.same(before, r.m.Dump())
		})
		if !reached || t.Failed() {
			break
		}
	}
}

// TestFolderOfOthersStays: a C:\k that was there with something in it is nobody's of ours.
func TestFolderOfOthersStays(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.must(r.a.sys.Files.Mkdir(plan.InstallDir, plan.AccessPublic))
		r.write(`C:\k\theirs`, "x")
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		r.must(r.a.sys.Files.Remove(`C:\k\theirs`))
		_, err := r.a.Remove(t.Context(), plan.Claim{}, func(plan.Report) error { return nil })
		r.must(err)
		if info, err := r.a.sys.Files.Stat(plan.InstallDir); err != nil || !info.Dir {
			t.Errorf("it is gone: %v", err)
		}
	})
}
