package host

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/transport"
)

var (
	windows = corev1.Taint{Key: "os", Value: "Windows", Effect: corev1.TaintEffectNoSchedule}
	own     = corev1.Taint{Key: v1alpha1.UninitializedTaint, Effect: corev1.TaintEffectNoSchedule}
	// cordon is what the control plane makes of spec.unschedulable.
	cordon = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
)

func tainted(taints ...corev1.Taint) func(*view) {
	return func(v *view) { v.node.Spec.Taints = taints }
}

func unmarked(v *view) { v.node.Annotations = nil }

// unnamed is a Node whose UID is not on record yet.
func unnamed(v *view) { v.host.Status.Node.UID = "" }

func TestW28PodsWaitForTheLastStep(t *testing.T) {
	inSync := recorded(plan.Report{Phase: plan.PhaseInSync, Total: 7, Seq: 3})
	stepFails := recorded(plan.Report{
		Phase: plan.PhaseFailed, Step: plan.ServiceStep("kube-proxy"), Index: 7, Total: 7, Code: agent.CodeServiceStartTimeout, Detail: "1053", Seq: 3,
	})
	// The kubelet registers while the first plan, which has a place for a secret and no network, is the one on record.
	firstPlan := func(v *view) {
		node, uid := v.node, v.host.Status.Node.UID
		v.node, v.host.Status.Node.UID = nil, ""
		inSync(v)
		v.node, v.host.Status.Node.UID = node, uid
	}
	seen := func(v *view) { v.host.Status.Plan.Seq = v.snap.Report.Seq }
	youngNode := func(v *view) {
		unmarked(v)
		unnamed(v)
		v.node.CreationTimestamp = v.host.CreationTimestamp
		v.host.Status.Ticket = &v1alpha1.TicketStatus{ID: "1", ApprovedCSR: "csr-1"}
	}
	for name, c := range map[string]struct {
		edits          []func(*view)
		taint, untaint bool
		reason         string
	}{
		"first plan, its end just seen":      {[]func(*view){firstPlan, tainted(windows, own)}, false, false, v1alpha1.ReasonNodeUninitialized},
		"first plan, the second to be sent":  {[]func(*view){firstPlan, seen, tainted(windows, own)}, false, false, v1alpha1.ReasonApplying},
		"a step fails":                       {[]func(*view){stepFails, tainted(windows, own)}, false, false, v1alpha1.ReasonStepFailed},
		"a step is under way":                {[]func(*view){recorded(running(plan.StepNetwork, 6, 7)), tainted(windows, own)}, false, false, v1alpha1.ReasonApplying},
		"in sync":                            {[]func(*view){inSync, tainted(windows, own)}, false, true, v1alpha1.ReasonNodeUninitialized},
		"in sync, beside a person's":         {[]func(*view){inSync, tainted(cordon, own)}, false, true, v1alpha1.ReasonNodeUninitialized},
		"in sync and taken off":              {[]func(*view){inSync, tainted(windows)}, false, false, v1alpha1.ReasonNodeReady},
		"cordoned by a person":               {[]func(*view){inSync, tainted(windows, cordon)}, false, false, v1alpha1.ReasonNodeReady},
		"our key with a person's effect":     {[]func(*view){inSync, tainted(corev1.Taint{Key: own.Key, Effect: corev1.TaintEffectNoExecute})}, false, false, v1alpha1.ReasonNodeReady},
		"Node was there before its kubelet":  {[]func(*view){stepFails, youngNode, tainted(windows)}, true, false, v1alpha1.ReasonStepFailed},
		"taken off early by a person":        {[]func(*view){stepFails, tainted(windows)}, false, false, v1alpha1.ReasonStepFailed},
		"Node made again, machine in sync":   {[]func(*view){inSync, unmarked, tainted(windows, own)}, false, true, v1alpha1.ReasonNodeUninitialized},
		"mark lost, machine in sync":         {[]func(*view){inSync, unmarked, tainted(windows)}, false, false, v1alpha1.ReasonNodeReady},
		"a later plan fails on an open node": {[]func(*view){stepFails, tainted(windows)}, false, false, v1alpha1.ReasonStepFailed},
		"cannot be looked at": {
			[]func(*view){inSync, tainted(windows, own), func(v *view) {
				v.snap.Facts = nil
				failed("facts", transport.ErrUnreachable, 3)(v)
			}}, false, false, v1alpha1.ReasonUnreachable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := walk(aView(append([]func(*view){connected, named, registered, loaded}, c.edits...)...))
			if p.taint != c.taint || p.untaint != c.untaint {
				t.Errorf("taint %t, untaint %t; want %t, %t", p.taint, p.untaint, c.taint, c.untaint)
			}
			if got := readyOf(p); got.Reason != c.reason {
				t.Errorf("Ready is %s: %s, want %s", got.Reason, got.Message, c.reason)
			}
		})
	}
}

// The kubelet's own configuration has the taint, so there is no moment at which the Node is open.
func TestW28KubeletRegistersWithTheTaint(t *testing.T) {
	p := walk(aView(connected, named, loaded))
	for _, f := range p.desired.plan.Files {
		if strings.HasSuffix(f.Path, "kubelet.conf") {
			if text := string(f.Inline); !strings.Contains(text, v1alpha1.UninitializedTaint) || !strings.Contains(text, "registerWithTaints") {
				t.Errorf("%s: %s", f.Path, text)
			}
			return
		}
	}
	t.Error("the plan has no kubelet.conf")
}

// From the Node's first moment to Ready: the operator writes its own taint only, tries again where somebody else wrote in between, and a person's
// cordon and taints stay.
func TestW28OnlyTheOwnTaintIsTakenOff(t *testing.T) {
	patches, conflicts := 0, 1
	w := newWorld(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		if _, ok := o.(*corev1.Node); ok {
			if patches++; patches <= conflicts {
				return apierrors.NewConflict(runtimeschema.GroupResource{Resource: "nodes"}, o.GetName(), nil)
			}
		}
		return c.Patch(ctx, o, p, opts...)
	}}, object())
	w.until("handed over", handedOver)
	n := w.registers()
	person := corev1.Taint{Key: "team", Value: "a", Effect: corev1.TaintEffectNoExecute}
	n.Spec.Unschedulable, n.Spec.Taints = true, []corev1.Taint{windows, own, cordon, person}
	if err := w.api.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	h := w.until("Ready", func(h *v1alpha1.WindowsHost) bool {
		open := !hasTaint(w.node("win-a"))
		if ready := reason(h, v1alpha1.ConditionReady) == v1alpha1.ReasonNodeReady; ready && !open {
			t.Fatal("the host is Ready and no pod can go there")
		}
		if open && h.Status.Plan.Generation < 2 {
			t.Fatal("the taint went with the first plan")
		}
		return reason(h, v1alpha1.ConditionReady) == v1alpha1.ReasonNodeReady
	})
	got := w.node("win-a")
	if diff := cmp.Diff([]corev1.Taint{windows, cordon, person}, got.Spec.Taints); diff != "" || !got.Spec.Unschedulable {
		t.Errorf("unschedulable %t, taints: -want +got\n%s", got.Spec.Unschedulable, diff)
	}
	for range 5 {
		w.pass()
	}
	if want := conflicts + 1; patches != want || w.node("win-a").ResourceVersion != got.ResourceVersion {
		t.Errorf("%d patches of the Node, want %d; plan %d", patches, want, h.Status.Plan.Generation)
	}
}

// Where the taint cannot be taken off the host is not Ready and says why, and the pass is an error, which brings another one.
func TestW28TaintThatCannotBeTakenOff(t *testing.T) {
	forbidden := true
	w := newWorld(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		if n, ok := o.(*corev1.Node); ok && forbidden && !hasTaint(n) {
			return apierrors.NewForbidden(runtimeschema.GroupResource{Resource: "nodes"}, o.GetName(), nil)
		}
		return c.Patch(ctx, o, p, opts...)
	}}, object())
	w.until("handed over", handedOver)
	n := w.registers()
	n.Spec.Taints = []corev1.Taint{own}
	if err := w.api.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 30 {
		if _, err = w.once(); err != nil {
			break
		}
	}
	ready := meta.FindStatusCondition(w.host().Status.Conditions, v1alpha1.ConditionReady)
	if !apierrors.IsForbidden(err) || ready.Reason != v1alpha1.ReasonNodeUninitialized || !strings.Contains(ready.Message, "config/rbac") {
		t.Errorf("error %v, Ready is %s: %s", err, ready.Reason, ready.Message)
	}
	forbidden = false
	w.until("Ready", func(h *v1alpha1.WindowsHost) bool {
		return reason(h, v1alpha1.ConditionReady) == v1alpha1.ReasonNodeReady
	})
}

// A Node that was there before its kubelet gets the taint before the mark; a conflict is no error of the pass, and brings another one.
func TestW28NodeThatItsKubeletDidNotMake(t *testing.T) {
	for name, clash := range map[string]bool{"undisturbed": false, "somebody else writes": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if _, ok := o.(*corev1.Node); ok && clash {
					return apierrors.NewConflict(runtimeschema.GroupResource{Resource: "nodes"}, o.GetName(), nil)
				}
				return c.Patch(ctx, o, p, opts...)
			}}, object())
			w.until("handed over", handedOver)
			w.registers()
			res := w.pass()
			n := w.node("win-a")
			if marked := n.Annotations[v1alpha1.HostUIDAnnotation] != ""; hasTaint(n) == clash || marked == clash {
				t.Errorf("taints %v, marked %t", n.Spec.Taints, marked)
			}
			if clash && res.RequeueAfter != afterConflict {
				t.Errorf("another pass after %s, want %s", res.RequeueAfter, afterConflict)
			}
			clash = false
			w.until("Ready", func(h *v1alpha1.WindowsHost) bool {
				return reason(h, v1alpha1.ConditionReady) == v1alpha1.ReasonNodeReady
			})
			if n := w.node("win-a"); hasTaint(n) || n.Annotations[v1alpha1.HostUIDAnnotation] == "" {
				t.Errorf("taints %v, annotations %v", n.Spec.Taints, n.Annotations)
			}
		})
	}
}
