package podcidr

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

// specChanged passes changes of a profile's spec: its status is written by others all the time.
func specChanged() predicate.Predicate { return predicate.GenerationChangedPredicate{} }

// nodeChanged passes what matters of Nodes: each writes its status every few minutes, or seconds.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(u event.UpdateEvent) bool {
		was, ok1 := u.ObjectOld.(*corev1.Node)
		is, ok2 := u.ObjectNew.(*corev1.Node)
		return ok1 && ok2 && (was.UID != is.UID || was.Spec.PodCIDR != is.Spec.PodCIDR || !slices.Equal(was.Spec.PodCIDRs, is.Spec.PodCIDRs) ||
			!equality.Semantic.DeepEqual(was.Status.Addresses, is.Status.Addresses) ||
			was.Annotations[v1alpha1.PodCIDRAnnotation] != is.Annotations[v1alpha1.PodCIDRAnnotation])
	}}
}

// hostChanged passes what matters of hosts: that one begins, which Node it has, whether it is Ready.
func hostChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(u event.UpdateEvent) bool {
		was, ok1 := u.ObjectOld.(*v1alpha1.WindowsHost)
		is, ok2 := u.ObjectNew.(*v1alpha1.WindowsHost)
		return ok1 && ok2 && (was.UID != is.UID || was.Generation != is.Generation || ready(was) != ready(is) ||
			(was.Status.Plan == nil) != (is.Status.Plan == nil) || !equality.Semantic.DeepEqual(was.Status.Node, is.Status.Node))
	}}
}
