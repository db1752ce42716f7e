package profile

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/facts/discover"
	"github.com/windowsmachine/operator/pkg/podcidr"
	"github.com/windowsmachine/operator/pkg/ticket"
)

// +kubebuilder:rbac:groups=windowsmachine.dev,resources=windowsnodeprofiles,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=windowsmachine.dev,resources=windowsnodeprofiles/status,verbs=patch
// +kubebuilder:rbac:groups="",namespace=windows-machine-operator,resources=secrets;configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// every is how often the cluster is looked at anew, besides when the profile, its Secret or its ConfigMap changes; everyMissing while facts are
// missing without which nothing can be set up: somebody is mending that, and waits to see it.
const (
	every        = 30 * time.Second
	everyMissing = 10 * time.Second
)

// Reconciler discovers facts.
type Reconciler struct {
	Client   client.Client
	Reader   client.Reader
	Recorder events.EventRecorder
	Facts    *facts.Store
	// PodCIDRs says which Nodes' pods are elsewhere than their spec says; nil says nothing.
	PodCIDRs *podcidr.Store
	// Namespace is the operator's own.
	Namespace string
	// Version asks for the API server's version, such as "v1.37.2"; nil leaves it unknown.
	Version func() (string, error)
	// Config is how the operator itself reaches the API server, the last source of the API server's URL and CA.
	Config *rest.Config
}

// Setup adds the reconciler to mgr, and the making of the default profile.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	if err := mgr.Add(manager.RunnableFunc(r.ensureDefault)); err != nil {
		return fmt.Errorf("adding the default profile: %w", err)
	}
	all := handler.EnqueueRequestsFromMapFunc(r.profilesNaming)
	return ctrl.NewControllerManagedBy(mgr).
		Named("profile").
		For(&v1alpha1.WindowsNodeProfile{}).
		Watches(&corev1.Secret{}, all).
		Watches(&corev1.ConfigMap{}, all).
		Watches(&corev1.Node{}, handler.Funcs{
			CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { r.nodeChanged(ctx, nil, e.Object, q) },
			UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
				r.nodeChanged(ctx, e.ObjectOld, e.ObjectNew, q)
			},
			DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { r.nodeChanged(ctx, e.Object, nil, q) },
		}).
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			r.PodCIDRs.Subscribe(func(c podcidr.Change) {
				if c.Mismatches {
					q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: c.Profile}})
				}
			})
			return nil
		})).
		Complete(r)
}

// queue is what the handlers of events add to.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// gathering is how long changes of Windows Nodes are collected before the profiles are looked at again: a hundred that join together are one look.
const gathering = 5 * time.Second

// nodeChanged has the profiles looked at when the routes to a Windows Node's pods may be others; was is nil for a new Node, is for one that is gone.
func (r *Reconciler) nodeChanged(ctx context.Context, was, is client.Object, q queue) {
	if reflect.DeepEqual(routesTo(was), routesTo(is)) {
		return
	}
	var list v1alpha1.WindowsNodeProfileList
	if err := r.Client.List(ctx, &list); err != nil {
		log.FromContext(ctx).Error(err, "listing profiles")
		return
	}
	for i := range list.Items {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}}, gathering)
	}
}

// routesTo is what the routes to a Windows node's pods rest on, nil for any other object.
func routesTo(o client.Object) *facts.Peer {
	n, ok := o.(*corev1.Node)
	if !ok || n.Labels[corev1.LabelOSStable] != "windows" {
		return nil
	}
	p := peer(n, nil)
	return &p
}

// ensureDefault makes the profile "default"; one that is there stays as it is.
func (r *Reconciler) ensureDefault(ctx context.Context) error {
	p := &v1alpha1.WindowsNodeProfile{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultProfile}}
	if err := r.Client.Create(ctx, p); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating WindowsNodeProfile %s: %w", p.Name, err)
	}
	return nil
}

// profilesNaming maps a Secret or ConfigMap of the operator's namespace to the profiles whose ignition it holds.
func (r *Reconciler) profilesNaming(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetNamespace() != r.Namespace {
		return nil
	}
	var list v1alpha1.WindowsNodeProfileList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if ign := list.Items[i].Spec.Ignition; ign != nil && ignitionIn(ign, o) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

func ignitionIn(ign *v1alpha1.IgnitionSpec, o client.Object) bool {
	if _, secret := o.(*corev1.Secret); secret {
		return ign.SecretName == o.GetName()
	}
	return ign.ConfigMapName == o.GetName()
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	p := &v1alpha1.WindowsNodeProfile{}
	if err := r.Client.Get(ctx, req.NamespacedName, p); err != nil {
		if apierrors.IsNotFound(err) {
			r.Facts.Delete(req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	d, err := r.discover(ctx, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	if old, ok := r.Facts.Get(p.Name); !ok || !reflect.DeepEqual(old, d) {
		r.Facts.Set(p.Name, d)
	}
	risky, err := r.risky(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	after := Status(p, d, risky)
	if err := r.network(ctx, p, d.Cluster, after.Network); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.patch(ctx, p, after); err != nil {
		return reconcile.Result{}, err
	}
	r.tell(p, after)
	return reconcile.Result{RequeueAfter: again(d)}, nil
}

// discover looks at the cluster for the profile.
func (r *Reconciler) discover(ctx context.Context, p *v1alpha1.WindowsNodeProfile) (facts.Discovered, error) {
	ca, err := ownCA(r.Config)
	if err != nil {
		return facts.Discovered{}, err
	}
	cluster, problems, err := discover.Cluster(ctx, r.Reader, discover.Input{
		Profile: p.Spec, ProfileName: p.Name, Namespace: r.Namespace, OwnAPIServer: r.Config.Host, OwnCA: ca,
		Nodes: r.Client, Create: r.Client.Create,
	})
	if err != nil {
		return facts.Discovered{}, fmt.Errorf("WindowsNodeProfile %s: %w", p.Name, err)
	}
	if r.Version != nil {
		if cluster.Version, err = r.Version(); err != nil {
			return facts.Discovered{}, fmt.Errorf("asking the API server for its version: %w", err)
		}
	}
	return facts.Discovered{Cluster: cluster, Problems: problems}, nil
}

func again(d facts.Discovered) time.Duration {
	if len(d.Fatal()) > 0 {
		return everyMissing
	}
	return every
}

// ownCA is the CA bundle that the operator's own connection is verified with.
func ownCA(c *rest.Config) ([]byte, error) {
	if len(c.CAData) > 0 || c.CAFile == "" {
		return c.CAData, nil
	}
	b, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the operator's own CA bundle: %w", err)
	}
	return b, nil
}

// risky reads the bindings that let bootstrap identities join under any name, past every rule of package csr.
func (r *Reconciler) risky(ctx context.Context) ([]string, error) {
	var list rbacv1.ClusterRoleBindingList
	if err := r.Reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing ClusterRoleBindings: %w", err)
	}
	return ticket.RiskyBindings(list.Items), nil
}

// tell warns of risky bindings when their set has changed; p is the profile with its status as it was before.
func (r *Reconciler) tell(p *v1alpha1.WindowsNodeProfile, after v1alpha1.WindowsNodeProfileStatus) {
	now := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionBindingsSafe)
	was := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionBindingsSafe)
	if now.Status == metav1.ConditionTrue || was != nil && was.Message == now.Message {
		return
	}
	r.Recorder.Eventf(p, nil, corev1.EventTypeWarning, now.Reason, "Discover", "%s", v1alpha1.Clip(now.Message, v1alpha1.MaxNote))
}

func (r *Reconciler) patch(ctx context.Context, p *v1alpha1.WindowsNodeProfile, s v1alpha1.WindowsNodeProfileStatus) error {
	if reflect.DeepEqual(s, p.Status) {
		return nil
	}
	changed := p.DeepCopy()
	changed.Status = s
	if err := r.Client.Status().Patch(ctx, changed, client.MergeFrom(p)); err != nil {
		return fmt.Errorf("patching status of WindowsNodeProfile %s: %w", p.Name, err)
	}
	return nil
}

// Status derives the profile's status from what was discovered, and from the sentences of ticket.RiskyBindings.
func Status(p *v1alpha1.WindowsNodeProfile, d facts.Discovered, risky []string) v1alpha1.WindowsNodeProfileStatus {
	s := *p.Status.DeepCopy()
	s.ObservedGeneration = p.Generation
	c := d.Cluster
	s.Discovered = &v1alpha1.DiscoveredStatus{
		APIServer: c.APIServer, Platform: c.Platform, DNS: c.ClusterDNS, Domain: c.ClusterDomain,
		PodCIDRs: c.PodCIDRs, ServiceCIDRs: c.ServiceCIDRs, Sources: c.Sources,
	}
	s.Network = network(p, c)
	for _, c := range []metav1.Condition{factsComplete(d), bindingsSafe(risky)} {
		c.ObservedGeneration, c.Message = p.Generation, v1alpha1.Clip(c.Message, v1alpha1.MaxMessage)
		meta.SetStatusCondition(&s.Conditions, c)
	}
	return s
}

func factsComplete(d facts.Discovered) metav1.Condition {
	cond := metav1.Condition{
		Type: v1alpha1.ConditionFactsComplete, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonFactsComplete,
		Message: "all facts about the cluster were found",
	}
	if len(d.Problems) > 0 {
		var texts []string
		for _, x := range d.Problems {
			texts = append(texts, x.Message)
		}
		cond.Reason, cond.Message = d.Problems[0].Reason, strings.Join(texts, "; ")
		if slices.ContainsFunc(d.Problems, func(x facts.Problem) bool { return x.Fatal }) {
			cond.Status = metav1.ConditionFalse
		}
	}
	return cond
}

func bindingsSafe(risky []string) metav1.Condition {
	if len(risky) == 0 {
		return metav1.Condition{
			Type: v1alpha1.ConditionBindingsSafe, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNoRiskyBindings,
			Message: "no ClusterRoleBinding lets bootstrap identities join under any name",
		}
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionBindingsSafe, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRiskyBinding,
		Message: strings.Join(risky, "; "),
	}
}
