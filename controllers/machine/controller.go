package machine

import (
	"context"
	"fmt"

	machinev1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
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
)

// +kubebuilder:rbac:groups=machine.openshift.io,resources=machines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=windowsmachine.dev,resources=windowsnodeprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups=windowsmachine.dev,namespace=windows-machine-operator,resources=windowshosts,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=windowsmachine.dev,namespace=windows-machine-operator,resources=windowshosts/status,verbs=patch

// Reconciler keeps the WindowsHost of each Windows Machine.
type Reconciler struct {
	Client    client.Client
	Recorder  events.EventRecorder
	Clock     clock.PassiveClock
	Namespace string
	// AllowLoopback lets 127.0.0.0/8 pass as a Machine's address, for simulated machines.
	AllowLoopback bool
}

// AddToScheme registers the Machine API.
func AddToScheme(s *runtime.Scheme) error { return machinev1.Install(s) }

// build adds the reconciler to mgr, on a cluster that has Machines.
func (r *Reconciler) build(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("machine").
		For(&machinev1.Machine{}, builder.WithPredicates(windowsOnly())).
		Watches(&v1alpha1.WindowsHost{}, handler.EnqueueRequestsFromMapFunc(machineOfHost)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}

// machineOfHost maps a host to its Machine.
func machineOfHost(_ context.Context, o client.Object) []reconcile.Request {
	h, ok := o.(*v1alpha1.WindowsHost)
	if !ok || h.Spec.MachineRef == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: h.Spec.MachineRef.Namespace, Name: h.Spec.MachineRef.Name}}}
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	v, err := r.gather(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.act(ctx, v, decide(v))
}

func (r *Reconciler) gather(ctx context.Context, name types.NamespacedName) (view, error) {
	v := view{now: r.Clock.Now(), namespace: r.Namespace, allowLoopback: r.AllowLoopback}
	m := &machinev1.Machine{}
	switch err := r.Client.Get(ctx, name, m); {
	case err == nil:
		v.machine = m
	case !apierrors.IsNotFound(err):
		return v, fmt.Errorf("getting Machine %s: %w", name, err)
	}
	h := &v1alpha1.WindowsHost{}
	switch err := r.Client.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: name.Name}, h); {
	case err == nil:
		v.host = h
	case !apierrors.IsNotFound(err):
		return v, fmt.Errorf("getting WindowsHost %s/%s: %w", r.Namespace, name.Name, err)
	}
	if v.machine == nil {
		// Another Machine of the same name in another namespace may own the host.
		if v.host != nil && (v.host.Spec.MachineRef == nil || v.host.Spec.MachineRef.Namespace != name.Namespace) {
			v.host = nil
		}
		return v, nil
	}
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return v, fmt.Errorf("listing Nodes: %w", err)
	}
	v.node = nodeOf(v.machine, nodes.Items)
	var p v1alpha1.WindowsNodeProfile
	if err := r.Client.Get(ctx, types.NamespacedName{Name: v1alpha1.DefaultProfile}, &p); client.IgnoreNotFound(err) != nil {
		return v, fmt.Errorf("getting WindowsNodeProfile %s: %w", v1alpha1.DefaultProfile, err)
	}
	v.profile = p.Spec
	return v, nil
}

func (r *Reconciler) act(ctx context.Context, v view, d decision) error {
	for _, e := range d.events {
		r.tell(v.machine, e)
	}
	switch {
	case d.create != nil:
		if err := r.Client.Create(ctx, d.create); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating WindowsHost %s/%s: %w", d.create.Namespace, d.create.Name, err)
		}
		log.FromContext(ctx).Info("made a WindowsHost", "host", d.create.Name, "address", d.create.Spec.Address)
	case d.remove:
		if !v.host.DeletionTimestamp.IsZero() {
			return nil
		}
		uid := v.host.UID
		if err := r.Client.Delete(ctx, v.host, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting WindowsHost %s/%s: %w", v.host.Namespace, v.host.Name, err)
		}
		log.FromContext(ctx).Info("deleted the WindowsHost of a Machine that is gone", "host", v.host.Name)
	case d.update != nil:
		if err := r.Client.Update(ctx, d.update); err != nil {
			return fmt.Errorf("updating WindowsHost %s/%s: %w", d.update.Namespace, d.update.Name, err)
		}
	}
	return r.patchStatus(ctx, v, d)
}

func (r *Reconciler) patchStatus(ctx context.Context, v view, d decision) error {
	if d.status == nil {
		return nil
	}
	h := v.host.DeepCopy()
	h.Status = *d.status
	if err := r.Client.Status().Patch(ctx, h, client.MergeFrom(v.host)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patching status of WindowsHost %s/%s: %w", h.Namespace, h.Name, err)
	}
	return nil
}

func (r *Reconciler) tell(m *machinev1.Machine, e notice) {
	kind := corev1.EventTypeNormal
	if e.warning {
		kind = corev1.EventTypeWarning
	}
	r.Recorder.Eventf(m, nil, kind, e.reason, "Reconcile", "%s", v1alpha1.Clip(e.message, v1alpha1.MaxNote))
}

// windowsOnly lets Machines through that have the label or just lost it, so that Linux Machines cost nothing; and all that are gone, since
// one that had lost its label may still have a host.
func windowsOnly() predicate.Predicate {
	has := func(o client.Object) bool { return o.GetLabels()[OSLabel] == OSLabelValue }
	p := predicate.NewPredicateFuncs(has)
	return predicate.Funcs{
		CreateFunc:  p.Create,
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: p.Generic,
		UpdateFunc:  func(e event.UpdateEvent) bool { return has(e.ObjectOld) || has(e.ObjectNew) },
	}
}
