package csr

import (
	"context"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/csr"
)

// keysField indexes pending kubelet requests and hosts by csr.Keys, so that either finds the other.
const keysField = "csr.windowsmachine.dev/keys"

func index(ctx context.Context, x client.FieldIndexer) error {
	if err := x.IndexField(ctx, &certificatesv1.CertificateSigningRequest{}, keysField, requestKeys); err != nil {
		return err
	}
	return x.IndexField(ctx, &v1alpha1.WindowsHost{}, keysField, hostKeys)
}

func requestKeys(o client.Object) []string {
	r, ok := o.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return nil
	}
	return csr.Keys(csr.FromObject(r))
}

func hostKeys(o client.Object) []string {
	h, ok := o.(*v1alpha1.WindowsHost)
	if !ok {
		return nil
	}
	var keys []string
	if name := nodeName(h); name != "" {
		keys = append(keys, csr.NodeKey(name))
	}
	if t := h.Status.Ticket; t != nil {
		keys = append(keys, csr.UserKey(csr.TicketUser(t.ServiceAccount)))
	}
	return keys
}

func (r *Reconciler) watch(mgr ctrl.Manager, o controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("csr").
		For(&certificatesv1.CertificateSigningRequest{}, builder.WithPredicates(pending())).
		Watches(&v1alpha1.WindowsHost{}, handler.EnqueueRequestsFromMapFunc(r.requestsOfHost)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.requestsOfNode), builder.WithPredicates(nodeChanged())).
		WithOptions(o).
		Complete(r)
}

// pending keeps everything that is decided or has another signer out of the queue.
func pending() predicate.Predicate {
	p := predicate.NewPredicateFuncs(func(o client.Object) bool {
		r, ok := o.(*certificatesv1.CertificateSigningRequest)
		return ok && csr.FromObject(r).Kubelet()
	})
	return predicate.Funcs{
		CreateFunc: p.Create, UpdateFunc: p.Update, GenericFunc: p.Generic,
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// nodeChanged lets through what a decision may rest on, and not the heartbeats.
func nodeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(*corev1.Node)
		is, ok2 := e.ObjectNew.(*corev1.Node)
		return ok && ok2 && (was.UID != is.UID ||
			was.Annotations[v1alpha1.HostUIDAnnotation] != is.Annotations[v1alpha1.HostUIDAnnotation] ||
			!slices.Equal(was.Status.Addresses, is.Status.Addresses))
	}}
}

func (r *Reconciler) requestsOfHost(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetNamespace() != r.options.Namespace {
		return nil
	}
	return r.requestsOf(ctx, hostKeys(o))
}

func (r *Reconciler) requestsOfNode(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requestsOf(ctx, []string{csr.NodeKey(o.GetName())})
}

// requestsOf returns the pending requests with one of the keys.
func (r *Reconciler) requestsOf(ctx context.Context, keys []string) []reconcile.Request {
	var out []reconcile.Request
	for _, k := range keys {
		var list certificatesv1.CertificateSigningRequestList
		if err := r.Client.List(ctx, &list, client.MatchingFields{keysField: k}); err != nil {
			// The cache answers, so this is a mistake in the set-up; requests that wait are looked at again anyway.
			log.FromContext(ctx).Error(err, "listing certificate requests", "key", k)
			continue
		}
		for i := range list.Items {
			req := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}
			if !slices.Contains(out, req) {
				out = append(out, req)
			}
		}
	}
	return out
}
