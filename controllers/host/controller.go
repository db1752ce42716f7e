package host

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/pkg/planner"
	"github.com/windowsmachine/operator/pkg/podcidr"
	"github.com/windowsmachine/operator/pkg/ticket"
)

// +kubebuilder:rbac:groups=windowsmachine.dev,resources=windowshosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=windowsmachine.dev,namespace=windows-machine-operator,resources=windowshosts,verbs=patch
// A host in another namespace is told in its status that it does not count; nothing but that status may be written there, and nothing reads it.
// +kubebuilder:rbac:groups=windowsmachine.dev,resources=windowshosts/status,verbs=patch
// +kubebuilder:rbac:groups=windowsmachine.dev,resources=windowsnodeprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=windows-machine-operator,resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler makes Nodes of WindowsHosts.
type Reconciler struct {
	Client   client.Client
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Pool carries out what takes long; its notify function must be Notifier.Notify.
	Pool  *host.Pool
	Facts *facts.Store
	// PodCIDRs holds what is known of the pod ranges of all Nodes; nil leaves them unlooked at.
	PodCIDRs *podcidr.Store
	// Tickets issues bootstrap credentials.
	Tickets ticket.Issuer
	// Notifier brings passes for changes that are not in the API.
	Notifier *Notifier
	// Namespace is the only one whose hosts count.
	Namespace string
	// AllowLoopback lets hosts have loopback addresses, for simulated machines.
	AllowLoopback bool
	Payload       payload.Manifest
	Metrics       *Metrics
	// Leads reports whether nobody else can have taken over; nothing is begun while it is false. nil is always.
	Leads func() bool
	// Workers is how many hosts are looked at side by side; 0 is DefaultWorkers.
	Workers int
}

// DefaultWorkers is how many passes go on at the same time. A pass waits for the API server only, never for a machine, so that many cost little.
const DefaultWorkers = 32

// Notifier turns calls from outside the API into passes. The zero Notifier drops them until the controller has started, which
// looks at every host anyway.
type Notifier struct {
	queue queueRef
	// neighbors are the Nodes that plans depend on.
	neighbors neighborhood
}

// Notify brings a pass for the host of a session key.
func (n *Notifier) Notify(key string) {
	f := strings.SplitN(key, "/", 3)
	if len(f) == 3 {
		n.queue.add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: f[0], Name: f[1]}})
	}
}

// indexNode is the field index from a node's name to its hosts.
const indexNode = "status.node.name"

func matchingNodeName(name string) []client.ListOption {
	return []client.ListOption{client.MatchingFields{indexNode: name}}
}

// Setup adds the reconciler to mgr.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.WindowsHost{}, indexNode, nodeNames); err != nil {
		return fmt.Errorf("indexing WindowsHosts by node: %w", err)
	}
	if err := mgr.Add(manager.RunnableFunc(r.sweep)); err != nil {
		return fmt.Errorf("adding the search for tickets without a host: %w", err)
	}
	r.Facts.Subscribe(func(profile string) { r.enqueueAll(ctx, profile) })
	r.PodCIDRs.Subscribe(func(c podcidr.Change) { r.rangesChanged(ctx, c) })
	return ctrl.NewControllerManagedBy(mgr).
		Named("host").
		For(&v1alpha1.WindowsHost{}).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.hostsOfNode)).
		Watches(&corev1.Node{}, r.peersChanged()).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.hostsOfSecret)).
		Watches(&v1alpha1.WindowsNodeProfile{}, handler.EnqueueRequestsFromMapFunc(r.hostsOfProfile)).
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			r.Notifier.queue.set(q)
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: cmp.Or(r.Workers, DefaultWorkers)}).
		Complete(r)
}

// nodeNames are the names of Nodes that a host has or wants.
func nodeNames(o client.Object) []string {
	h, ok := o.(*v1alpha1.WindowsHost)
	switch {
	case !ok:
		return nil
	case h.Status.Node != nil:
		return []string{h.Status.Node.Name}
	case h.Spec.NodeName != "":
		return []string{h.Spec.NodeName}
	}
	return nil
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	h := &v1alpha1.WindowsHost{}
	if err := r.Client.Get(ctx, req.NamespacedName, h); err != nil {
		if apierrors.IsNotFound(err) {
			r.Pool.ForgetOthers(req.String()+"/", "")
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	// One that was deleted and made again may come as one change.
	r.Pool.ForgetOthers(req.String()+"/", sessionKey(h))
	if h.Namespace != r.Namespace {
		return reconcile.Result{}, r.refuse(ctx, h)
	}
	if h.DeletionTimestamp.IsZero() && controllerutil.AddFinalizer(h, v1alpha1.Finalizer) {
		if err := r.Client.Update(ctx, h); apierrors.IsConflict(err) {
			return reconcile.Result{RequeueAfter: afterConflict}, nil
		} else if err != nil {
			return reconcile.Result{}, fmt.Errorf("adding the finalizer: %w", err)
		}
	}
	p, err := r.gather(ctx, h)
	if err != nil {
		return reconcile.Result{}, err
	}
	if h.DeletionTimestamp.IsZero() {
		p.run()
	} else {
		p.leave()
	}
	return r.act(ctx, p)
}

// refuse tells a host in another namespace that it does not count. Nothing that such an object holds, its status least of all, leads to
// anything else: who may write there may neither add a node nor delete one.
func (r *Reconciler) refuse(ctx context.Context, h *v1alpha1.WindowsHost) error {
	if !h.DeletionTimestamp.IsZero() {
		return nil
	}
	p := &pass{view: view{settings: r.settings(), now: r.Clock.Now(), host: h, before: *h.Status.DeepCopy()}}
	p.allowed()
	after := p.status()
	if err := r.patchStatus(ctx, p, after); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.announce(p, after)
	return nil
}

func (r *Reconciler) settings() settings {
	x := payloadIndex{}
	for _, b := range r.Payload.Blobs {
		x[b.Name] = planner.Blob{SHA256: b.SHA256, Size: b.Size, Version: b.Version}
	}
	return settings{namespace: r.Namespace, allowLoopback: r.AllowLoopback, payload: x}
}

func (r *Reconciler) enqueueAll(ctx context.Context, profile string) {
	for _, q := range r.list(ctx, func(h *v1alpha1.WindowsHost) bool { return h.Spec.ProfileRef.Name == profile }) {
		r.Notifier.queue.add(q)
	}
}

func (r *Reconciler) hostsOfNode(ctx context.Context, o client.Object) []reconcile.Request {
	var hosts v1alpha1.WindowsHostList
	if err := r.Client.List(ctx, &hosts, matchingNodeName(o.GetName())...); err != nil {
		return nil
	}
	return requests(hosts.Items)
}

func (r *Reconciler) hostsOfSecret(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetNamespace() != r.Namespace {
		return nil
	}
	return r.list(ctx, func(h *v1alpha1.WindowsHost) bool {
		return h.Spec.CredentialsRef == nil || h.Spec.CredentialsRef.Name == o.GetName()
	})
}

func (r *Reconciler) hostsOfProfile(ctx context.Context, o client.Object) []reconcile.Request {
	return r.list(ctx, func(h *v1alpha1.WindowsHost) bool { return h.Spec.ProfileRef.Name == o.GetName() })
}

func (r *Reconciler) list(ctx context.Context, want func(*v1alpha1.WindowsHost) bool) []reconcile.Request {
	var hosts v1alpha1.WindowsHostList
	if err := r.Client.List(ctx, &hosts); err != nil {
		return nil
	}
	var out []v1alpha1.WindowsHost
	for i := range hosts.Items {
		if want(&hosts.Items[i]) {
			out = append(out, hosts.Items[i])
		}
	}
	return requests(out)
}

func requests(hosts []v1alpha1.WindowsHost) []reconcile.Request {
	var out []reconcile.Request
	for i := range hosts {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&hosts[i])})
	}
	return out
}
