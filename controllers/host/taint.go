package host

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/planner"
)

// isOurs reports whether t is the operator's own taint. A cordon is another one (node.kubernetes.io/unschedulable), and a person's.
func isOurs(t corev1.Taint) bool {
	return t.Key == v1alpha1.UninitializedTaint && t.Effect == corev1.TaintEffectNoSchedule
}

func hasTaint(n *corev1.Node) bool { return slices.ContainsFunc(n.Spec.Taints, isOurs) }

// holdPods keeps pods off a Node whose machine has not been finished yet, and lets them in when it is. The kubelet registers the Node with the
// taint, so that there is no moment without; it sets taints only on a Node that it makes itself, and may not change them
// (NodeRestriction). A Node that was there before its kubelet gets the taint from us, together with our mark.
func (p *pass) holdPods() {
	switch {
	case p.finished():
		p.untaint = hasTaint(p.node)
	case p.node.Annotations[v1alpha1.HostUIDAnnotation] != string(p.host.UID):
		p.taint = !hasTaint(p.node)
	}
}

// finished reports whether the machine equals a plan that has all of the node in it: one without a place for a bootstrap credential is made
// of a Node that has what its network needs.
func (p *pass) finished() bool {
	return p.applied != "" && p.applied == p.desired.digest && !p.desired.held && !p.desired.plan.HasSecret(planner.BootstrapSecret)
}

// openNode takes the taint off, before the status says that the Node is open to pods.
func (r *Reconciler) openNode(ctx context.Context, p *pass) error {
	if !p.untaint {
		return nil
	}
	err := r.patchTaints(ctx, p)
	switch {
	case apierrors.IsConflict(err):
		p.lookAgain(afterConflict)
		return nil
	case err != nil:
		p.registered = no(v1alpha1.ReasonNodeUninitialized, fmt.Sprintf("%v; check that config/rbac is applied", err))
	}
	return err
}

// patchTaints changes nothing but the operator's own taint. The list has no keys for the API server (listType=atomic), so the patch holds for the
// version of the Node that the pass saw only; a conflict means that somebody else wrote, and is tried again.
func (r *Reconciler) patchTaints(ctx context.Context, p *pass) error {
	n := p.node.DeepCopy()
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, isOurs)
	if p.taint {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: v1alpha1.UninitializedTaint, Effect: corev1.TaintEffectNoSchedule})
	}
	patch := client.MergeFromWithOptions(p.node, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, n, patch, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return fmt.Errorf("patching the taint %s of Node %s: %w", v1alpha1.UninitializedTaint, n.Name, err)
	}
	p.node = n
	return nil
}
