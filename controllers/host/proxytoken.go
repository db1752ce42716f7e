package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
	"github.com/windowsmachine/operator/pkg/proxytoken"
)

// Tokens of this one account: who may make tokens of an account can do what it may.
// +kubebuilder:rbac:groups="",resources=serviceaccounts/token,resourceNames=windows-kube-proxy,verbs=create,namespace=windows-machine-operator

// kubeProxy is what the profile says of it.
func (p *pass) kubeProxy() planner.KubeProxy {
	k := p.profile.Spec.KubeProxy
	return planner.KubeProxy{Mode: string(k.Mode), Verbosity: k.Verbosity, EnableDSR: k.EnableDSR}
}

// takesProxyToken reports whether the machine's plan has a place for kube-proxy's token.
func (p *pass) takesProxyToken() bool {
	return p.node != nil && p.desired.plan.HasSecret(planner.ProxySecret)
}

// owesProxyToken reports whether a token has to go with the envelope. A file that the machine has stays as it is, so that the many plans of a
// cluster whose nodes come and go do not leave many live tokens behind.
func (p *pass) owesProxyToken() bool {
	return p.takesProxyToken() && (p.secretLost() || !p.proxyTokenDue().After(p.now))
}

// proxyTokenDue is when the next token goes to the machine.
func (p *pass) proxyTokenDue() time.Time {
	return proxytoken.Due(p.proxyTokenSeen(), string(p.node.UID))
}

// secretLost reports whether the machine says that it lacks the content of a secret, or does not know us at all since it was installed anew.
func (p *pass) secretLost() bool {
	r := p.reported()
	if r.Host != string(p.host.UID) || r.Phase == plan.PhaseFailed && r.Code == agent.CodeSecretMissing {
		return true
	}
	var refusal *host.Refusal
	return errors.As(p.snap.Last[host.VerbApply].Err, &refusal) && refusal.Code == agent.CodeSecretMissing
}

// proxyTokenSeen is the token on record, marked as handed over when it is seen to be: the agent accepts a plan only together with the secrets that
// it lacks, and a hand-over that ended well has replaced those that came with it. One that was cut has perhaps done so, and is done again.
func (p *pass) proxyTokenSeen() *v1alpha1.KubeProxyTokenStatus {
	t := p.host.Status.KubeProxyToken
	if t == nil || t.HandedOver != nil || p.snap.Facts == nil {
		return t
	}
	r, last := p.reported(), p.snap.Last[host.VerbApply]
	withPlan := t.PlanGeneration > 0 && r.Host == string(p.host.UID) && r.Generation >= t.PlanGeneration
	ended := last.Err == nil && !last.At.Before(t.Issued.Time) && p.snap.Busy != host.VerbApply
	if !withPlan && !ended {
		return t
	}
	t = t.DeepCopy()
	now := metav1.NewTime(p.now)
	t.HandedOver = &now
	return t
}

// proxyTokenStatus keeps the record until the machine is in sync with a plan that has no place for a token.
func (p *pass) proxyTokenStatus(s *v1alpha1.WindowsHostStatus) {
	if p.desired != nil && !p.desired.held && p.applied == p.desired.digest && !p.desired.plan.HasSecret(planner.ProxySecret) {
		s.KubeProxyToken = nil
		return
	}
	s.KubeProxyToken = p.proxyTokenSeen()
}

// renewProxyToken hands the same plan over once more, with another token, when it is time. kube-proxy reads the file again by itself.
func (p *pass) renewProxyToken() {
	if !p.settled() || !p.takesProxyToken() {
		return
	}
	if due := p.proxyTokenDue(); due.After(p.now) {
		p.lookAgain(due.Sub(p.now))
		return
	}
	p.startApply()
}

// issueProxyToken gets a token and puts it into the envelope.
func (r *Reconciler) issueProxyToken(ctx context.Context, p *pass, s *v1alpha1.WindowsHostStatus) error {
	issuer := proxytoken.Issuer{Client: r.Client, Namespace: r.Namespace}
	t, err := issuer.Issue(ctx, proxytoken.Node{Name: p.node.Name, UID: p.node.UID}, p.cluster.Cluster.Version, p.now)
	if err != nil {
		return fmt.Errorf("issuing kube-proxy's token: %w", err)
	}
	s.KubeProxyToken = t.Status()
	if p.report() == nil {
		s.KubeProxyToken.PlanGeneration = p.desired.generation
	}
	p.addSecret(planner.ProxySecret, t.Value)
	return nil
}

// withoutProxyToken is what is said when no token could be issued. A kube-proxy that has one works on, and so does its node.
func (p *pass) withoutProxyToken(err error) cond {
	text := fmt.Sprintf("no token could be issued for kube-proxy: %v; check that config/rbac is applied, ServiceAccount %s/%s included",
		err, p.namespace, proxytoken.Account)
	t := p.proxyTokenSeen()
	if p.inSync.reason != v1alpha1.ReasonInSync || t == nil || t.HandedOver == nil || proxytoken.Ended(t, p.now) || t.NodeUID != "" && t.NodeUID != string(p.node.UID) {
		return no(v1alpha1.ReasonKubeProxyTokenFailed, text)
	}
	return yes(v1alpha1.ReasonInSync, fmt.Sprintf("%s; %s; the one that it has ends %s", p.inSync.message, text, t.Expires.UTC().Format(time.RFC3339)))
}

// proxyTokenNotices tell of a new token, and of one that lives shorter than it should.
func proxyTokenNotices(p *pass, after v1alpha1.WindowsHostStatus) []notice {
	t := after.KubeProxyToken
	if !p.proxyToken || t == nil {
		return nil
	}
	life := time.Duration(t.LifetimeSeconds) * time.Second
	out := []notice{{corev1.EventTypeNormal, v1alpha1.EventKubeProxyTokenIssued, fmt.Sprintf(
		"issued kube-proxy a token of %s, valid until %s", proxytoken.Account, t.Expires.UTC().Format(time.RFC3339))}}
	if proxytoken.Short(t) {
		out = append(out, notice{corev1.EventTypeWarning, v1alpha1.EventKubeProxyTokenShort, fmt.Sprintf(
			"the API server grants kube-proxy's token %s of the %s that are asked for (--service-account-max-token-expiration of kube-apiserver): "+
				"the operator replaces it every %s, and Services on the node stop changing when it is away for longer than %s",
			life, proxytoken.Lifetime, life/3, life-life/3)})
	}
	return out
}
