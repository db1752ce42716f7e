package host

import (
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/plan"
)

// A machine that is ahead of what is on record refuses every older generation; it has to be overtaken.
func TestMachineAheadOfTheRecord(t *testing.T) {
	ahead := func(digest string) func(*view) {
		return func(v *view) {
			r := *v.snap.Report
			r.Generation += 4
			if digest != "" {
				r.Digest = digest
			}
			v.snap.Report, v.snap.Facts.Report = &r, r
		}
	}
	for name, edit := range map[string]func(*view){"the plan on record": ahead(""), "a plan that is not on record": ahead("d")} {
		t.Run(name, func(t *testing.T) {
			v := aView(settled, edit)
			p := walk(v)
			if got, want := p.desired.generation, v.snap.Report.Generation+1; got != want || p.verb != host.VerbApply || p.args.Envelope.Generation != want {
				t.Errorf("generation %d, verb %q with %d, want %d handed over", got, p.verb, p.args.Envelope.Generation, want)
			}
		})
	}
}

func TestGeneration(t *testing.T) {
	for name, c := range map[string]struct {
		record *v1alpha1.PlanStatus
		report plan.Report
		want   int64
	}{
		"first plan":                     {nil, plan.Report{}, 1},
		"a machine of an earlier host":   {nil, plan.Report{Host: "uid-b", Generation: 7}, 8},
		"the same plan":                  {&v1alpha1.PlanStatus{Digest: "d", Generation: 3}, plan.Report{Host: "uid", Generation: 3}, 3},
		"another plan":                   {&v1alpha1.PlanStatus{Digest: "x", Generation: 3}, plan.Report{Host: "uid", Generation: 3}, 4},
		"the same plan, machine behind":  {&v1alpha1.PlanStatus{Digest: "d", Generation: 3}, plan.Report{Host: "uid", Generation: 2}, 3},
		"the same plan, machine ahead":   {&v1alpha1.PlanStatus{Digest: "d", Generation: 3}, plan.Report{Host: "uid", Generation: 9}, 10},
		"the same plan, machine foreign": {&v1alpha1.PlanStatus{Digest: "d", Generation: 3}, plan.Report{Host: "uid-b", Generation: 9}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pass{view: aView(connected)}
			p.host.UID, p.host.Status.Plan, p.snap.Report = "uid", c.record, &c.report
			if got := p.generation("d"); got != c.want {
				t.Errorf("generation %d, want %d", got, c.want)
			}
		})
	}
}

// An operator that was suspended, and wakes up in the middle of its work, begins nothing.
func TestSleeperBeginsNothing(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, object())
	leads := false
	w.r.Leads = func() bool { return leads }
	for range 3 {
		if _, err := w.once(); !errors.Is(err, errNotLeading) {
			t.Fatalf("a pass without the lead ended with %v", err)
		}
	}
	if ran := w.machine.verbs(); ran != "" || len(w.host().Status.Conditions) > 0 {
		t.Errorf("ran %q and wrote %+v", ran, w.host().Status.Conditions)
	}
	leads = true
	w.until("handed over", handedOver)
}
