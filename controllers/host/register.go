package host

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/planner"
)

// isRegistered looks at the Node.
func (p *pass) isRegistered() bool {
	if p.node == nil {
		p.registered = p.waitingForNode()
		p.renewTicket()
		return false
	}
	p.nodeUID, p.nodeWhy = string(p.node.UID), nodeWhy(p.node)
	p.registered = yes(v1alpha1.ReasonRegistered, "Node "+p.node.Name+" is this host's")
	if p.node.Annotations[v1alpha1.HostUIDAnnotation] != string(p.host.UID) || !hasLabels(p.node, p.desired.labels) || !p.hasLease() {
		p.adoptNode = true
	}
	p.holdPods()
	if nodeSilent(p.node) {
		p.renewTicket()
	}
	// The ticket has done its work once the plan has no place for it any more.
	p.revoke = !p.desired.held && !p.desired.plan.HasSecret(planner.BootstrapSecret) && p.host.Status.Ticket != nil
	p.renewProxyToken()
	return true
}

// waitingForNode names what registration waits for.
func (p *pass) waitingForNode() cond {
	s := p.host.Status
	switch {
	case s.Node != nil && s.Node.UID != "":
		return no(v1alpha1.ReasonWaitingForNode, fmt.Sprintf(
			"Node %s was deleted; its kubelet makes it again when it restarts: restart the service kubelet on the machine, or delete this WindowsHost to take the machine out of the cluster", s.Node.Name))
	case !p.kubeletStarted && (s.Plan == nil || s.Plan.KubeletStarted == nil):
		return no(v1alpha1.ReasonWaitingForKubelet, "the kubelet has not been started yet")
	case s.Ticket == nil || s.Ticket.ApprovedCSR == "":
		return no(v1alpha1.ReasonWaitingForCertificate, fmt.Sprintf(
			"the kubelet's first certificate request for system:node:%s has not been approved yet (kubectl get csr)", p.nodeName))
	}
	return no(v1alpha1.ReasonWaitingForNode, fmt.Sprintf(
		"the kubelet has its certificate and has not registered Node %s yet; its log is C:\\var\\log\\kubelet\\kubelet.log", p.nodeName))
}

// How long a machine may take with its ticket.
const (
	// ticketMargin: a token that ends so soon may end before the kubelet has used it.
	ticketMargin = 2 * time.Minute
	// joinPatience is how long after its certificate was approved a kubelet may take to register its Node. One that lost the key
	// meanwhile asks again, and a ticket is good for one certificate only.
	joinPatience = 3 * time.Minute
	// bootPatience is how long that is on a machine that has been booted since: a kubelet that has kept its key registers within seconds.
	bootPatience = 20 * time.Second
)

// ticketDue is when a machine that has to join, and says that this is its boot, needs another ticket: at once when there is none on record.
func ticketDue(t *v1alpha1.TicketStatus, bootID string) time.Time {
	switch {
	case t == nil:
		return time.Time{}
	case t.ApprovedCSR != "" && t.ApprovedAt != nil && t.ApprovedBoot != "" && bootID != t.ApprovedBoot:
		return t.ApprovedAt.Add(bootPatience)
	case t.ApprovedCSR != "" && t.ApprovedAt != nil:
		return t.ApprovedAt.Add(joinPatience)
	}
	return t.Expires.Add(-ticketMargin)
}

// renewTicket hands the envelope over again, with another ticket, to a machine whose kubelet cannot join with the one that it has. The
// agent puts it in place; a kubelet without a certificate ends itself after five minutes and reads it when it starts again
// (kubernetes/pkg/kubelet/certificate/transport.go).
func (p *pass) renewTicket() {
	if !p.settled() || !p.desired.plan.HasSecret(planner.BootstrapSecret) {
		return
	}
	t := p.host.Status.Ticket
	if due := ticketDue(t, p.bootID); due.After(p.now) {
		p.lookAgain(due.Sub(p.now))
		if t.ApprovedCSR != "" && !p.snap.Connected {
			// The machine may have been off, and says so when it is asked.
			p.startFacts()
		}
		return
	}
	p.startApply()
}

// settled reports whether the agent is not at work. While it is, a credential waits for it, and for its reboot; then is the time to look.
func (p *pass) settled() bool {
	return p.inSync.reason == v1alpha1.ReasonInSync || p.inSync.reason == v1alpha1.ReasonStepFailed
}

func hasLabels(n *corev1.Node, want map[string]string) bool {
	for k, v := range want {
		if got, ok := n.Labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func readyCondition(n *corev1.Node) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == corev1.NodeReady {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// nodeSilent reports whether the control plane has not heard of the kubelet for a while.
func nodeSilent(n *corev1.Node) bool {
	c := readyCondition(n)
	return c != nil && c.Status == corev1.ConditionUnknown
}

func nodeReady(n *corev1.Node) bool {
	c := readyCondition(n)
	return c != nil && c.Status == corev1.ConditionTrue
}

// nodeWhy is what the kubelet says of itself.
func nodeWhy(n *corev1.Node) string {
	c := readyCondition(n)
	if c == nil {
		return "the kubelet has not reported yet"
	}
	return c.Message
}
