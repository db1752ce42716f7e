package agent

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// stuck are features that stay pending however often the machine is booted, until they are on.
type stuck struct{ on *atomic.Bool }

func (s stuck) Enabled(string) (enabled, pending bool, err error) {
	return s.on.Load(), !s.on.Load(), nil
}

func (stuck) Enable(context.Context, string) (bool, error) { return true, nil }

func withFeature(r *rig) plan.Plan {
	p := r.node()
	p.Features = []plan.Feature{{Name: "Containers"}}
	return p
}

// TestRebootRepeated: a step that asks for a reboot again after the machine was rebooted for it fails, over further boots and the same plan once
// more; it never asks for a second reboot. The agent goes on looking, and once the cause is gone so is the failure.
func TestRebootRepeated(t *testing.T) {
	on := &atomic.Bool{}
	withStuck := func(ctx context.Context, p *fake.Process) int {
		return loopOn(ctx, p, func(s *system.System) { s.Features = stuck{on} })
	}
	withRig(t, fake.Options{Programs: map[string]fake.Program{"wmcb.exe": withStuck}}, func(t *testing.T, r *rig) {
		p := withFeature(r)
		r.applied(envelope(1, p, ticket()), plan.PhaseRebootNeeded)
		// The same plan again before the reboot asks for the same one.
		r.applied(envelope(1, p, nil), plan.PhaseRebootNeeded)
		for range 3 {
			r.must(r.m.Reboot(t.Context()))
			r.sleep(time.Hour)
			if rep := r.report(); rep.Phase != plan.PhaseFailed || rep.Code != CodeRebootRepeated || rep.Step != plan.StepFeatures {
				t.Fatalf("report %+v", rep)
			}
		}
		if last := r.applied(envelope(1, p, nil), plan.PhaseFailed); last.Code != CodeRebootRepeated {
			t.Errorf("report %+v", last)
		}
		asked := 0
		for _, e := range r.journal() {
			if e.Code == CodeRebootNeeded {
				asked++
			}
		}
		if asked != 2 {
			t.Errorf("asked %d times for a reboot", asked)
		}
		on.Store(true)
		r.sleep(6 * time.Minute)
		if rep := r.report(); rep.Phase != plan.PhaseInSync {
			t.Errorf("report %+v", rep)
		}
	})
}

// TestRebootedNotYetBack: between the boot and the first words of the service the machine no longer waits for a reboot, and who follows sees the
// run go on.
func TestRebootedNotYetBack(t *testing.T) {
	slow := func(ctx context.Context, p *fake.Process) int {
		if p.Sleep(ctx, 5*time.Second) != nil {
			return 1
		}
		return loopProgram(ctx, p)
	}
	withRig(t, fake.Options{Programs: map[string]fake.Program{"wmcb.exe": slow}}, func(t *testing.T, r *rig) {
		r.applied(envelope(1, withFeature(r), ticket()), plan.PhaseRebootNeeded)
		r.must(r.m.Reboot(t.Context()))
		if rep := r.report(); rep.Phase != plan.PhaseRunning || rep.Code != "" || rep.Step != plan.StepFeatures {
			t.Errorf("report %+v", rep)
		}
		last, err := r.a.FollowNow(t.Context(), func(plan.Report) error { return nil })
		r.must(err)
		if last.Phase != plan.PhaseInSync {
			t.Errorf("ended with %+v", last)
		}
	})
}

func TestRebootedFor(t *testing.T) {
	e := func(code, step, digest, boot string) plan.Entry {
		return plan.Entry{Code: code, Step: step, Digest: digest, BootID: boot}
	}
	asked := e(CodeRebootNeeded, "s", "d", "1")
	for _, tc := range []struct {
		name    string
		entries []plan.Entry
		want    bool
	}{
		{"no journal", nil, false},
		{"asked for in another boot", []plan.Entry{asked, e(CodeRunStarted, "", "d", "2"), e(CodeStepStarted, "s", "d", "2")}, true},
		{"asked for in this boot", []plan.Entry{e(CodeRebootNeeded, "s", "d", "2")}, false},
		{"asked for by an older agent, which names no boot", []plan.Entry{e(CodeRebootNeeded, "s", "d", "")}, false},
		{"by another step", []plan.Entry{e(CodeRebootNeeded, "other", "d", "1")}, false},
		{"by another plan", []plan.Entry{e(CodeRebootNeeded, "s", "other", "1")}, false},
		{"found before", []plan.Entry{e(CodeRebootRepeated, "s", "d", "2")}, true},
		{"found before, in an earlier boot", []plan.Entry{e(CodeRebootRepeated, "s", "d", "1")}, true},
		{"in sync after it", []plan.Entry{asked, e(CodeStepInSync, "s", "d", "2")}, false},
		{"applied after it", []plan.Entry{asked, e(CodeStepApplied, "s", "d", "2")}, false},
		{"another step in sync after it", []plan.Entry{asked, e(CodeStepInSync, "other", "d", "2")}, true},
		{"a run got to its end", []plan.Entry{asked, e(CodeRunDone, "", "other", "2")}, false},
		{"failed otherwise after it", []plan.Entry{asked, e(CodeStepFailed, "s", "d", "2")}, true},
	} {
		if got := rebootedFor(tc.entries, "d", "s", "2"); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
