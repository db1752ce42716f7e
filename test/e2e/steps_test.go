package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/test/bed"
)

// maxLag is how far the STEP column may be behind the agent.
const maxLag = 2 * time.Second

// maxOtherChanges is how often a WindowsHost may be changed for other things than a step that begins: made, finalizer, each condition on the way to
// the first plan, progress of the upload, the end of each of two plans, the lost link, the ticket, the node.
const maxOtherChanges = 24

// sighting is a step as `kubectl get winhost -w` shows it.
type sighting struct {
	step string
	at   time.Time
}

// TestStepsAreSeen compares what a watch on the host shows with what the agent wrote into its journal. The machine's clock is ours. It does not
// run beside other tests, and may try again where other programs keep the processors busy: every step has to be shown each time, in time once.
func TestStepsAreSeen(t *testing.T) {
	r := newRig(t, run.calm)
	const tries = 3
	for try := 1; ; try++ {
		worst := r.watchSteps(r.machine("steps"))
		switch {
		case worst <= maxLag:
			return
		case try == tries:
			t.Fatalf("steps were shown more than %s late, %d times", maxLag, tries)
		}
	}
}

// watchSteps has a machine joined and returns how late the latest of its steps was shown.
func (r *rig) watchSteps(m *machine) (worst time.Duration) {
	r.t.Helper()
	recorded := r.record(m.name)
	r.join(hostOf(m, withProfile(profileBridge)))
	r.untilReady(m.name)
	seen, changes := recorded()
	next, begun := 0, 0
	steps := map[string]bool{}
	for _, e := range r.journal(m) {
		if e.Code != agent.CodeStepStarted {
			continue
		}
		step := fmt.Sprintf("%d/%d %s", e.Index, e.Total, e.Step)
		i := slices.IndexFunc(seen[next:], func(s sighting) bool { return s.step == step })
		if i < 0 {
			r.t.Fatalf("step %q of the journal was not shown in its turn; shown after the one before: %v", step, seen[next:])
		}
		next += i + 1
		begun++
		steps[e.Step] = true
		worst = max(worst, seen[next-1].at.Sub(e.Time))
	}
	if len(steps) < 6 {
		r.t.Errorf("the journal has only the steps %v", steps)
	}
	// What a host costs the API server is bounded by its steps: each is shown once, and what comes before and after them is a handful.
	if limit := begun + maxOtherChanges; changes > limit {
		r.t.Errorf("the WindowsHost was changed %d times for %d steps, want at most %d", changes, begun, limit)
	}
	r.t.Logf("%d different steps, %d begun, %d changes of STEP shown, %d changes of the WindowsHost; the largest lag is %s",
		len(steps), begun, len(seen), changes, worst.Round(time.Millisecond))
	return worst
}

// record begins a watch on the host of that name and returns what gives the steps that were shown so far, and how often the host was changed.
func (r *rig) record(name string) func() ([]sighting, int) {
	r.t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		r.t.Fatal(err)
	}
	c, err := client.NewWithWatch(r.bed.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		r.t.Fatal(err)
	}
	w, err := c.Watch(r.ctx, &v1alpha1.WindowsHostList{}, client.InNamespace(bed.Namespace), client.MatchingFields{"metadata.name": name})
	if err != nil {
		r.t.Fatal(err)
	}
	var mu sync.Mutex
	var seen []sighting
	changes := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			h, ok := e.Object.(*v1alpha1.WindowsHost)
			mu.Lock()
			changes++
			if ok && h.Status.Step != "" && (len(seen) == 0 || seen[len(seen)-1].step != h.Status.Step) {
				seen = append(seen, sighting{h.Status.Step, time.Now()})
			}
			mu.Unlock()
		}
	}()
	r.afterwards(func(context.Context) { w.Stop(); <-done })
	return func() ([]sighting, int) {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen), changes
	}
}
