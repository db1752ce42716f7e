package host

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/planner"
	"github.com/windowsmachine/operator/pkg/ticket"
)

// act does what the pass wants: the ticket and the status come before anything is sent to the machine, so that a plan's generation
// and a ticket's expiry are on record first. A conflict on the status means that the view was stale; nothing was started then.
func (r *Reconciler) act(ctx context.Context, p *pass) (reconcile.Result, error) {
	if r.Leads != nil && !r.Leads() {
		return reconcile.Result{}, errNotLeading
	}
	session := r.Pool.Session(sessionKey(p.host))
	if p.disconnect {
		session.Disconnect()
	}
	if err := r.openNode(ctx, p); err != nil {
		return reconcile.Result{}, errors.Join(err, r.patchStatus(ctx, p, p.status()))
	}
	status := p.status()
	p.claim(&status)
	if c, err := r.issue(ctx, p, &status); err != nil {
		p.inSync = c
		return reconcile.Result{}, errors.Join(err, r.patchStatus(ctx, p, p.status()))
	}
	if err := r.patchStatus(ctx, p, status); err != nil {
		if apierrors.IsConflict(err) {
			// The newer object is on its way into the cache and brings a pass of its own.
			return reconcile.Result{RequeueAfter: afterConflict}, nil
		}
		return reconcile.Result{}, err
	}
	r.tell(p, status)
	if err := r.settle(ctx, p); apierrors.IsConflict(err) {
		p.lookAgain(afterConflict)
	} else if err != nil {
		return reconcile.Result{}, err
	}
	p.begin(ctx, session, meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady))
	return reconcile.Result{RequeueAfter: p.again}, nil
}

// begin has the session do what the pass wants of the machine, or rest where there is nothing to do for one that is ready.
func (p *pass) begin(ctx context.Context, session *host.Session, ready bool) {
	switch {
	case p.verb != "":
		p.args.Target = p.target()
		if session.Start(p.verb, p.args) {
			log.FromContext(ctx).V(1).Info("started a verb", "verb", p.verb)
		}
	case ready:
		session.Rest()
	}
}

// errNotLeading: this operator was suspended, or cannot reach the API server, for so long that another one may have the lead.
var errNotLeading = errors.New("the lease has not been renewed in time: another operator may lead")

// afterConflict is when to look again after somebody else wrote first.
const afterConflict = 200 * time.Millisecond

// settle changes what lies beside the status: ticket, Node, finalizer.
func (r *Reconciler) settle(ctx context.Context, p *pass) error {
	if p.revoke || p.finish {
		if err := r.Tickets.Revoke(ctx, p.host); err != nil {
			return err
		}
	}
	if p.finish {
		return r.finish(ctx, p)
	}
	// The taint comes before the mark, so that a pass that stops in between is made up for.
	if p.taint {
		if err := r.patchTaints(ctx, p); err != nil {
			return err
		}
	}
	if p.adoptNode {
		return r.applyNode(ctx, p)
	}
	return nil
}

// issue gets the credentials that the envelope is to hold; where it cannot, it returns what the status says of that.
func (r *Reconciler) issue(ctx context.Context, p *pass, s *v1alpha1.WindowsHostStatus) (cond, error) {
	if p.ticket {
		if err := r.issueTicket(ctx, p, s); err != nil {
			return no(v1alpha1.ReasonTicketFailed, fmt.Sprintf(
				"no bootstrap credential could be issued: %v; check that config/rbac is applied, namespace %s included", err, ticket.Namespace)), err
		}
	}
	if p.proxyToken {
		if err := r.issueProxyToken(ctx, p, s); err != nil {
			return p.withoutProxyToken(err), err
		}
	}
	return cond{}, nil
}

// addSecret puts a secret into the envelope.
func (p *pass) addSecret(name string, content ticket.Secret) {
	if p.args.Envelope.Secrets == nil {
		p.args.Envelope.Secrets = map[string][]byte{}
	}
	p.args.Envelope.Secrets[name] = content
}

// issueTicket gets a token and puts the kubeconfig that holds it into the envelope.
func (r *Reconciler) issueTicket(ctx context.Context, p *pass, s *v1alpha1.WindowsHostStatus) error {
	t, err := r.Tickets.Issue(ctx, p.host, p.cluster.Cluster)
	if err != nil {
		return fmt.Errorf("issuing a ticket: %w", err)
	}
	s.Ticket = t.Status(s.Ticket)
	p.addSecret(planner.BootstrapSecret, t.Kubeconfig)
	return nil
}

// patchStatus writes the status with the version of the object that the pass saw.
func (r *Reconciler) patchStatus(ctx context.Context, p *pass, s v1alpha1.WindowsHostStatus) error {
	if reflect.DeepEqual(s, p.host.Status) {
		return nil
	}
	h := p.host.DeepCopy()
	h.Status = s
	// The lock keeps a leader that was asleep from recording a plan over a newer one, and this pass from acting on a stale view.
	patch := client.MergeFromWithOptions(p.host, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, h, patch); err != nil {
		return fmt.Errorf("patching status of WindowsHost %s/%s: %w", h.Namespace, h.Name, err)
	}
	p.host = h
	return nil
}

// applyNode puts our labels and the host's UID on the Node, with a field manager of our own, so that others' stay theirs.
func (r *Reconciler) applyNode(ctx context.Context, p *pass) error {
	n := corev1ac.Node(p.node.Name).
		WithUID(p.node.UID).
		WithAnnotations(map[string]string{v1alpha1.HostUIDAnnotation: string(p.host.UID)}).
		WithAnnotations(p.flannelLease())
	if p.desired != nil {
		n = n.WithLabels(p.desired.labels)
	}
	if err := r.Client.Apply(ctx, n, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying labels to Node %s: %w", p.node.Name, err)
	}
	return nil
}

// finish deletes the Node that was ours and lets the object go.
func (r *Reconciler) finish(ctx context.Context, p *pass) error {
	if p.dropNode {
		uid := p.node.UID
		err := r.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.node.Name}}, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Node %s: %w", p.node.Name, err)
		}
	}
	// The session is kept until the object is gone from the cache: a pass that still sees it would clean the machine once more.
	r.Pool.Session(sessionKey(p.host)).Disconnect()
	h := p.host.DeepCopy()
	if controllerutil.RemoveFinalizer(h, v1alpha1.Finalizer) {
		if err := r.Client.Patch(ctx, h, client.MergeFrom(p.host)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the finalizer of WindowsHost %s/%s: %w", h.Namespace, h.Name, err)
		}
	}
	return nil
}

// sessionKey names the session of a host; a new object of the same name is another host.
func sessionKey(h *v1alpha1.WindowsHost) string {
	return h.Namespace + "/" + h.Name + "/" + string(h.UID)
}
