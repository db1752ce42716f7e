package csr

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windowsmachine/operator/pkg/csr"
)

const (
	// maxAttempts bounds the rounds of read, decide, write in one reconcile when others write too.
	maxAttempts = 4
	// afterConflicts is when a request is looked at again after all rounds met a conflict.
	afterConflicts = 5 * time.Second
	// concurrency keeps one slow answer of the API server from holding up other requests.
	concurrency = 4
)

// Options of Setup.
type Options struct {
	// Namespace whose WindowsHosts count: the operator's own.
	Namespace string
	// Registerer takes the metrics; controller-runtime's registry in the operator. Nil: no metrics are exported.
	Registerer prometheus.Registerer
	// Clock is the real one when nil.
	Clock clock.PassiveClock
	// AllowLoopback accepts hosts on loopback addresses; for tests and demonstrations in one machine.
	AllowLoopback bool
	// ServerNames returns further names and addresses of the API server and of Services that no node may claim, such as
	// facts.Cluster.ServerNames; nil: none beyond those that the cluster's objects show.
	ServerNames func(context.Context) ([]string, error)
	// Leads reports whether nobody else can have taken over; nothing is decided while it is false. Nil is always.
	Leads func() bool
}

// Reconciler decides about one request a time.
type Reconciler struct {
	// Client reads from the cache, with the indexes of Setup, and writes.
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	Recorder events.EventRecorder

	options Options
	metrics *metrics
	server  *serverClaims
}

// NewReconciler makes a Reconciler that Setup has not tied to a manager.
func NewReconciler(c client.Client, live client.Reader, rec events.EventRecorder, o Options) (*Reconciler, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return &Reconciler{
		Client: c, Live: live, Recorder: rec, options: o, metrics: m,
		server: &serverClaims{live: live, client: c, extra: o.ServerNames, clock: o.Clock},
	}, nil
}

// Setup adds the reconciler, its indexes and its watches to the manager; it runs on the leader only. ctx bounds the set-up.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("indexing certificate requests and hosts: %w", err)
	}
	r, err := NewReconciler(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("csr"), o)
	if err != nil {
		return err
	}
	return r.watch(mgr, controller.Options{MaxConcurrentReconciles: concurrency})
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := &certificatesv1.CertificateSigningRequest{}
	read := client.Reader(r.Client)
	for range maxAttempts {
		if err := read.Get(ctx, req.NamespacedName, obj); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		d, err := r.once(ctx, obj)
		switch {
		case apierrors.IsConflict(err):
			// Somebody wrote the request or the host in between: read both again and decide anew.
			read = r.Live
			continue
		case apierrors.IsNotFound(err):
			return ctrl.Result{}, nil
		case err != nil:
			return ctrl.Result{}, fmt.Errorf("deciding about certificate request %s: %w", req.Name, err)
		}
		r.metrics.count(d, r.options.Clock.Since(obj.CreationTimestamp.Time))
		if d.Verdict == csr.Wait {
			return ctrl.Result{RequeueAfter: d.After}, nil
		}
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: afterConflicts}, nil
}

// once reads, decides and acts.
func (r *Reconciler) once(ctx context.Context, obj *certificatesv1.CertificateSigningRequest) (csr.Decision, error) {
	in, err := r.gather(ctx, obj)
	if err != nil {
		return csr.Decision{}, err
	}
	d := csr.Decide(in.request, in.expected(), r.options.Clock.Now())
	l := log.FromContext(ctx).WithValues("requester", obj.Spec.Username, "verdict", d.Verdict, "reason", d.Reason)
	switch d.Verdict {
	case csr.Approve, csr.Deny:
		if err := r.act(ctx, obj, in.host(d.HostUID), d); err != nil {
			return d, err
		}
		l.Info("decided about a certificate request", "message", d.Message)
	case csr.Wait:
		l.V(1).Info("a certificate request has to wait", "message", d.Message)
		r.tellWait(obj, in.host(d.HostUID), d)
	default:
		l.V(1).Info("left a certificate request alone")
	}
	return d, nil
}
