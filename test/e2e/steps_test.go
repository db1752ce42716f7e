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

// sighting is a step as `kubectl get winhost -w` shows it.
type sighting struct {
	step string
	at   time.Time
}

// TestStepsAreSeen compares what a watch on the host shows with what the agent wrote into its journal. The machine's clock is ours.
func TestStepsAreSeen(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.calm)
	m := r.machine("steps")
	recorded := r.record(m.name)
	r.join(hostOf(m, withProfile(profileBridge)))
	r.untilReady(m.name)

	seen, next, worst := recorded(), 0, time.Duration(0)
	steps := map[string]bool{}
	for _, e := range r.journal(m) {
		if e.Code != agent.CodeStepStarted {
			continue
		}
		step := fmt.Sprintf("%d/%d %s", e.Index, e.Total, e.Step)
		i := slices.IndexFunc(seen[next:], func(s sighting) bool { return s.step == step })
		if i < 0 {
			t.Fatalf("step %q of the journal was not shown in its turn; shown after the one before: %v", step, seen[next:])
		}
		next += i + 1
		steps[e.Step] = true
		lag := seen[next-1].at.Sub(e.Time)
		worst = max(worst, lag)
		if lag > maxLag {
			t.Errorf("step %q was shown %s after it began", step, lag)
		}
	}
	if len(steps) < 6 {
		t.Errorf("the journal has only the steps %v", steps)
	}
	t.Logf("%d different steps, %d changes of STEP shown; the largest lag is %s", len(steps), len(seen), worst.Round(time.Millisecond))
}

// record begins a watch on the host of that name and returns what gives the steps that were shown so far.
func (r *rig) record(name string) func() []sighting {
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
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			h, ok := e.Object.(*v1alpha1.WindowsHost)
			mu.Lock()
			if ok && h.Status.Step != "" && (len(seen) == 0 || seen[len(seen)-1].step != h.Status.Step) {
				seen = append(seen, sighting{h.Status.Step, time.Now()})
			}
			mu.Unlock()
		}
	}()
	r.afterwards(func(context.Context) { w.Stop(); <-done })
	return func() []sighting {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}
