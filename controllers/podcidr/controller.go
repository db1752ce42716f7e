package podcidr

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/podcidr"
)

// Pods are listed for their addresses only: there is no narrower right. Events about Nodes are in namespace default.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups="",namespace=default,resources=events,verbs=list
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=kube-system,resources=leases,resourceNames=kube-controller-manager,verbs=get
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=windowsmachine.dev,resources=windowsnodeprofiles;windowshosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// How often the cluster is looked at, besides when a Node, a host or a profile changes.
const (
	every        = 10 * time.Minute
	everyWaiting = 10 * time.Second
	// podsUrgent is how old the addresses of pods may be while they stand in somebody's way or a host is new, podsWaiting while a host is not Ready.
	podsUrgent  = 30 * time.Second
	podsWaiting = 2 * time.Minute
)

// Reconciler judges pod ranges, a profile at a time.
type Reconciler struct {
	Client client.Client
	// Reader reads past the cache.
	Reader   client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	Facts    *facts.Store
	Store    *podcidr.Store
	// Namespace is the only one whose hosts count.
	Namespace string
	// Leads reports whether nobody else can have taken over; no range is given while it is false. nil is always.
	Leads func() bool

	pods  addresses
	queue queueRef
}

// Setup adds the reconciler to mgr.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	r.Facts.Subscribe(r.queue.add)
	return ctrl.NewControllerManagedBy(mgr).
		Named("podcidr").
		For(&v1alpha1.WindowsNodeProfile{}, builder.WithPredicates(specChanged())).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.allProfiles), builder.WithPredicates(nodeChanged())).
		Watches(&v1alpha1.WindowsHost{}, handler.EnqueueRequestsFromMapFunc(profileOf), builder.WithPredicates(hostChanged())).
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			r.queue.set(q)
			return nil
		})).
		Complete(r)
}

// allProfiles: a Node is everybody's.
func (r *Reconciler) allProfiles(ctx context.Context, _ client.Object) []reconcile.Request {
	var all v1alpha1.WindowsNodeProfileList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range all.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
	}
	return out
}

func profileOf(_ context.Context, o client.Object) []reconcile.Request {
	h, ok := o.(*v1alpha1.WindowsHost)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: h.Spec.ProfileRef.Name}}}
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	p := &v1alpha1.WindowsNodeProfile{}
	if err := r.Client.Get(ctx, req.NamespacedName, p); err != nil {
		if apierrors.IsNotFound(err) {
			r.Store.Delete(req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	d, ok := r.Facts.Get(p.Name)
	if !ok {
		// The facts bring the next pass.
		return reconcile.Result{}, nil
	}
	if !podcidr.Needs(mode(p, d.Cluster)) {
		r.Store.Set(p.Name, podcidr.Result{})
		return reconcile.Result{}, nil
	}
	if used, err := r.used(ctx, p.Name); err != nil {
		return reconcile.Result{}, err
	} else if !used {
		r.Store.Set(p.Name, podcidr.Result{Needed: true})
		return reconcile.Result{}, nil
	}
	e, settled, err := r.gather(ctx, p, d.Cluster)
	if err != nil {
		return reconcile.Result{}, err
	}
	result := podcidr.Decide(e)
	r.tell(p, result)
	r.Store.Set(p.Name, result)
	if err := r.give(ctx, e); err != nil {
		return reconcile.Result{}, err
	}
	if settled {
		return reconcile.Result{RequeueAfter: every}, nil
	}
	return reconcile.Result{RequeueAfter: everyWaiting}, nil
}

// mode is the network mode in effect.
func mode(p *v1alpha1.WindowsNodeProfile, c facts.Cluster) v1alpha1.NetworkMode {
	if c.Mode != "" {
		return v1alpha1.NetworkMode(c.Mode)
	}
	return p.Spec.Network.Mode
}

// tell makes an event when Nodes turn out to be elsewhere than their spec says.
func (r *Reconciler) tell(p *v1alpha1.WindowsNodeProfile, now podcidr.Result) {
	was, _ := r.Store.Get(p.Name)
	if len(now.Mismatches) == 0 || slices.Equal(was.Mismatches, now.Mismatches) {
		return
	}
	note := now.Mismatches[0]
	if n := len(now.Mismatches); n > 1 {
		note += "; " + now.Mismatches[n-1]
	}
	r.Recorder.Eventf(p, nil, corev1.EventTypeWarning, v1alpha1.ReasonPodCIDRMismatch, "Compare", "%s", v1alpha1.Clip(note, v1alpha1.MaxNote))
}

// ready reports whether a host is as it shall be.
func ready(h *v1alpha1.WindowsHost) bool {
	return meta.IsStatusConditionTrue(h.Status.Conditions, v1alpha1.ConditionReady)
}

// queueRef is the controller's work queue, once there is one.
type queueRef struct {
	mu sync.RWMutex
	q  workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func (r *queueRef) set(q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.q = q
}

func (r *queueRef) add(profile string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.q != nil {
		r.q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: profile}})
	}
}

// give gives ranges where the profile says that the operator does.
func (r *Reconciler) give(ctx context.Context, e podcidr.Evidence) error {
	if grants, _ := podcidr.Grants(e); len(grants) == 0 {
		return nil
	}
	// What the cache does not know yet may have been given already, a moment ago or by the leader before.
	nodes, err := listNodes(ctx, r.Reader)
	if err != nil {
		return err
	}
	fresh := e
	fresh.Nodes = r.describe(nodes, oursOf(e.Nodes))
	grants, _ := podcidr.Grants(fresh)
	for _, g := range grants {
		if r.Leads != nil && !r.Leads() {
			return nil
		}
		if err := r.grant(ctx, g, nodes); err != nil {
			return err
		}
	}
	return nil
}

// grant writes a range into the Node that was read, and no other: the API server refuses the patch when the Node has changed since.
func (r *Reconciler) grant(ctx context.Context, g podcidr.Grant, nodes []corev1.Node) error {
	i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return string(n.UID) == g.UID })
	if i < 0 {
		return nil
	}
	n := nodes[i].DeepCopy()
	before := n.DeepCopy()
	n.Spec.PodCIDR, n.Spec.PodCIDRs = g.Range.String(), []string{g.Range.String()}
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[v1alpha1.PodCIDRAnnotation] = g.Range.String()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, n, patch); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("giving Node %s the pod range %s: %w", g.Node, g.Range, err)
	}
	return nil
}
