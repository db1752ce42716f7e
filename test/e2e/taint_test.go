package e2e

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/plan"
)

// TestW28HalfConfiguredNodeTakesNoPods: the kubelet runs and its Node is Ready, and a step of the plan fails again and again. Until it succeeds no
// version of the Node is without the operator's taint; then it goes, and a person's cordon stays.
func TestW28HalfConfiguredNodeTakesNoPods(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.calm)
	m := r.machine("half")
	// Once the node is registered its bootstrap credential is taken off the machine, which another program prevents.
	m.Machine().Intercept(func(op fake.Op) fake.Verdict {
		if op.Kind == fake.OpRemove && strings.EqualFold(op.Path, plan.InstallDir+`\bootstrap-kubeconfig`) {
			return fake.Verdict{Err: &fake.Error{Op: "remove", Name: op.Path, Code: 32, Err: system.ErrBusy}}
		}
		return fake.Verdict{}
	})
	versions := r.recordNode(m.name)
	h := r.join(hostOf(m))
	r.untilReason(client.ObjectKeyFromObject(h), v1alpha1.ReasonStepFailed)
	r.until("the half configured Node is Ready", func() (bool, string) {
		return nodeReady(r.node(r.get(m.name))), "not Ready"
	})
	r.kubectl("cordon", m.name)
	for _, n := range versions() {
		if !held(&n) {
			t.Errorf("version %s of the Node is open to pods: taints %v", n.ResourceVersion, n.Spec.Taints)
		}
	}

	m.Machine().Intercept(nil)
	n := r.node(r.untilReady(m.name))
	if held(n) || !n.Spec.Unschedulable {
		t.Errorf("unschedulable %t, taints %v: want the cordon and not the operator's taint", n.Spec.Unschedulable, n.Spec.Taints)
	}
}

// held reports whether the operator's taint keeps pods off the Node.
func held(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == v1alpha1.UninitializedTaint && t.Effect == corev1.TaintEffectNoSchedule
	})
}

// recordNode begins a watch on the Node of that name and returns what gives its versions so far.
func (r *rig) recordNode(name string) func() []corev1.Node {
	r.t.Helper()
	c, err := client.NewWithWatch(r.bed.RESTConfig(), client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		r.t.Fatal(err)
	}
	w, err := c.Watch(r.ctx, &corev1.NodeList{}, client.MatchingFields{"metadata.name": name})
	if err != nil {
		r.t.Fatal(err)
	}
	var mu sync.Mutex
	var seen []corev1.Node
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if n, ok := e.Object.(*corev1.Node); ok {
				mu.Lock()
				seen = append(seen, *n)
				mu.Unlock()
			}
		}
	}()
	r.afterwards(func(context.Context) { w.Stop(); <-done })
	return func() []corev1.Node {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}
