package host

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
)

// maxBootID is what the API server takes as status.bootID. It refuses a status with one field too long as a whole.
const maxBootID = 128

// status derives the whole status from what the pass saw. What the pass did not look at keeps its last value.
func (p *pass) status() v1alpha1.WindowsHostStatus {
	s := *p.host.Status.DeepCopy()
	s.ObservedGeneration = p.host.Generation
	s.Failures = int32(p.failures)
	s.Step = v1alpha1.Clip(p.step, 128)
	if p.pin != nil {
		s.HostKey = p.pin
	}
	if p.os != nil {
		s.OS, s.BootID = p.os, v1alpha1.Clip(p.bootID, maxBootID)
	}
	p.nodeStatus(&s)
	p.planStatus(&s)
	p.proxyTokenStatus(&s)
	// Until the object is gone the ticket's use says whose the Node is.
	if p.revoke {
		s.Ticket = nil
	}
	p.conditions(&s)
	return s
}

func (p *pass) nodeStatus(s *v1alpha1.WindowsHostStatus) {
	if p.nodeName == "" || p.registered.reason == v1alpha1.ReasonNodeConflict {
		return
	}
	if s.Node == nil {
		s.Node = &v1alpha1.NodeStatus{}
	}
	s.Node.Name, s.Node.ManagementIP = p.nodeName, p.managementIP
	if p.nodeUID != "" {
		s.Node.UID = p.nodeUID
	}
}

func (p *pass) planStatus(s *v1alpha1.WindowsHostStatus) {
	if p.desired == nil {
		return
	}
	if s.Plan == nil || s.Plan.Digest != p.desired.digest {
		old := s.Plan
		s.Plan = &v1alpha1.PlanStatus{Digest: p.desired.digest, Short: p.desired.digest[:8]}
		if old != nil {
			s.Plan.Applied, s.Plan.KubeletStarted = old.Applied, old.KubeletStarted
		}
	}
	s.Plan.Generation = p.desired.generation
	if p.seq > 0 {
		s.Plan.Seq = p.seq
	}
	if p.applied != "" {
		s.Plan.Applied = p.applied
	}
	if p.kubeletStarted && s.Plan.KubeletStarted == nil {
		t := metav1.NewTime(p.now)
		s.Plan.KubeletStarted = &t
	}
}

// conditions writes what was found, and Ready as the sum.
func (p *pass) conditions(s *v1alpha1.WindowsHostStatus) {
	for _, c := range []struct {
		name string
		cond cond
	}{
		{v1alpha1.ConditionTrusted, p.trusted},
		{v1alpha1.ConditionReachable, p.reachable},
		{v1alpha1.ConditionPreflightPassed, p.preflight},
		{v1alpha1.ConditionInSync, p.inSync},
		{v1alpha1.ConditionRegistered, p.registered},
		{v1alpha1.ConditionPaused, p.paused},
		{v1alpha1.ConditionDeleting, p.deleting},
	} {
		if c.cond != (cond{}) {
			set(s, p.host.Generation, c.name, c.cond)
		}
	}
	if p.paused == (cond{}) {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionPaused)
	}
	set(s, p.host.Generation, v1alpha1.ConditionReady, p.summary(s))
}

func set(s *v1alpha1.WindowsHostStatus, generation int64, name string, c cond) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: name, Status: c.status, Reason: c.reason, Message: v1alpha1.Clip(c.message, v1alpha1.MaxMessage), ObservedGeneration: generation,
	})
}

// summary is Ready. A Ready node stays Ready while it cannot be looked at: losing the operator or the way to the machine
// stops no node. A changed host key is another matter.
func (p *pass) summary(s *v1alpha1.WindowsHostStatus) cond {
	unmet, ofNode := p.unmet()
	switch {
	case p.deleting != (cond{}):
		return no(p.deleting.reason, p.deleting.message)
	case unmet != (cond{}) && !ofNode && p.running() && inPlace(s):
		return yes(v1alpha1.ReasonNodeReady, fmt.Sprintf("Node %s is Ready; %s: %s", p.node.Name, unmet.reason, unmet.message))
	case unmet != (cond{}):
		return unmet
	case p.more:
		return no(v1alpha1.ReasonApplying, "step "+p.step)
	}
	return p.ofNode(s)
}

// ofNode is Ready where nothing is unmet: it is the Node's word.
func (p *pass) ofNode(s *v1alpha1.WindowsHostStatus) cond {
	switch {
	case p.running() && inPlace(s):
		return yes(v1alpha1.ReasonNodeReady, fmt.Sprintf("Node %s is Ready and the machine equals its plan", p.node.Name))
	case p.up() && hasTaint(p.node):
		return no(v1alpha1.ReasonNodeUninitialized, fmt.Sprintf(
			"Node %s still has the taint %s:NoSchedule, which the operator takes off once the machine equals its plan", p.node.Name, v1alpha1.UninitializedTaint))
	case p.registered == (cond{}):
		// Nothing is wrong, and the pass has not come as far as the Node.
		return wait(v1alpha1.ReasonConnecting, "the machine is being asked what it is")
	}
	return no(v1alpha1.ReasonNodeNotReady, fmt.Sprintf("Node %s is not Ready: %s", p.nodeName, p.nodeWhy))
}

// running reports whether the host's Node is Ready and open to pods.
func (p *pass) running() bool { return p.up() && !hasTaint(p.node) }

// up reports whether the host's Node is Ready.
func (p *pass) up() bool { return p.node != nil && p.ours() && nodeReady(p.node) }

// inPlace reports whether the machine was last seen in sync with the plan that it is to have.
func inPlace(s *v1alpha1.WindowsHostStatus) bool {
	return s.Plan != nil && s.Plan.Applied != "" && s.Plan.Applied == s.Plan.Digest
}

// unmet is what stopped the pass: the first condition that is False, else the first that is Unknown, zero when all are met. node
// reports whether it is about the node itself rather than about our view of the machine.
func (p *pass) unmet() (c cond, node bool) {
	line := []struct {
		cond cond
		node bool
	}{{p.trusted, true}, {p.reachable, false}, {p.preflight, false}, {p.inSync, true}, {p.registered, true}}
	if p.paused != (cond{}) {
		return no(p.paused.reason, p.paused.message), false
	}
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		for _, l := range line {
			if l.cond.status == status {
				return l.cond, l.node
			}
		}
	}
	return cond{}, false
}

func problemsText(ps []facts.Problem) string {
	var out []string
	for _, x := range ps {
		out = append(out, x.Message)
	}
	return strings.Join(out, "; ")
}
