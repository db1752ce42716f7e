package host

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
)

// notice is an event to be told.
type notice struct{ kind, reason, message string }

// notices are the events of a pass: one for each change of Ready's reason, and one for each thing that is done once. They are built
// from reasons and messages that hold no secrets.
func notices(p *pass, after v1alpha1.WindowsHostStatus, before v1alpha1.WindowsHostStatus) []notice {
	out := readyNotice(after, before)
	if p.pin != nil {
		out = append(out, notice{corev1.EventTypeNormal, v1alpha1.EventHostKeyPinned, "pinned the host key " + p.pin.Fingerprint + " " + howPinned(p.pin.Source)})
	}
	if p.ticket && after.Ticket != nil && (before.Ticket == nil || before.Ticket.ID != after.Ticket.ID) {
		out = append(out, notice{corev1.EventTypeNormal, v1alpha1.EventTicketIssued, fmt.Sprintf("issued a bootstrap ticket to %s, valid until %s", after.Ticket.ServiceAccount, after.Ticket.Expires.UTC().Format("15:04:05"))})
	}
	out = append(out, proxyTokenNotices(p, after)...)
	if p.verb == host.VerbReboot {
		out = append(out, notice{corev1.EventTypeNormal, v1alpha1.EventRebooting, "restarting the machine"})
	}
	return out
}

// howPinned ends the sentence about a pinned key.
func howPinned(s v1alpha1.HostKeySource) string {
	if s == v1alpha1.HostKeyFromWinRM {
		return "as read over WinRM"
	}
	return "on first use"
}

// readyNotice tells of a change of Ready.
func readyNotice(after, before v1alpha1.WindowsHostStatus) []notice {
	now := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionReady)
	if now == nil || was != nil && was.Reason == now.Reason && was.Status == now.Status {
		return nil
	}
	kind := corev1.EventTypeNormal
	if alarming(now.Reason) {
		kind = corev1.EventTypeWarning
	}
	return []notice{{kind, now.Reason, now.Message}}
}

// alarming reports whether a person should look at the reason.
func alarming(reason string) bool {
	switch reason {
	case v1alpha1.ReasonNodeReady, v1alpha1.ReasonNotChecked, v1alpha1.ReasonConnecting, v1alpha1.ReasonOpeningSSH, v1alpha1.ReasonConnected, v1alpha1.ReasonStaging,
		v1alpha1.ReasonApplying, v1alpha1.ReasonRebooting, v1alpha1.ReasonWaitingForKubelet, v1alpha1.ReasonWaitingForCertificate,
		v1alpha1.ReasonWaitingForNode, v1alpha1.ReasonNodeNotReady, v1alpha1.ReasonNodeUninitialized, v1alpha1.ReasonCleaning, v1alpha1.ReasonPaused:
		return false
	}
	return true
}

func (r *Reconciler) tell(p *pass, after v1alpha1.WindowsHostStatus) {
	r.announce(p, after)
	r.Metrics.observe(p, after)
}

// announce makes the events of a pass.
func (r *Reconciler) announce(p *pass, after v1alpha1.WindowsHostStatus) {
	for _, n := range notices(p, after, p.before) {
		r.Recorder.Eventf(p.host, nil, n.kind, n.reason, "Reconcile", "%s", v1alpha1.Clip(n.message, v1alpha1.MaxNote))
	}
}
