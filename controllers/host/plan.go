package host

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
)

// planned computes the plan and its generation.
func (p *pass) planned() bool {
	if p.rival != "" {
		p.inSync = no(v1alpha1.ReasonPlanRefused, fmt.Sprintf(
			"the machine at %s is configured by WindowsHost %s: delete one of the two, or correct its spec.address", p.host.Spec.Address, p.rival))
		p.refresh(factsRecheck)
		return false
	}
	if p.node != nil && !p.ours() {
		if !p.mayAdopt() {
			p.registered = no(v1alpha1.ReasonNodeConflict, fmt.Sprintf(
				"Node %s exists and is not this host's: delete it if its machine is gone", p.nodeName))
			p.lookAgain(factsRecheck)
			return false
		}
		p.adoptNode = true
	}
	o := planner.Options{
		NodeName: p.nodeName, NodeIP: p.managementIP, Payload: p.payload, Network: p.network(), KubeProxy: p.kubeProxy(),
		Labels: p.profile.Spec.Kubelet.Labels, Taints: []kubelet.Taint{{Key: v1alpha1.UninitializedTaint, Effect: string(corev1.TaintEffectNoSchedule)}},
		MaxPods: p.profile.Spec.Kubelet.MaxPods, Verbosity: p.profile.Spec.Kubelet.Verbosity,
	}
	built, err := p.build(o)
	if err != nil {
		p.preflight = no(v1alpha1.ReasonPlanInvalid, err.Error())
		p.lookAgain(factsRecheck)
		return false
	}
	d := &desired{plan: built, digest: built.Digest()}
	d.generation = p.generation(d.digest)
	// A kubelet sets its labels at registration only, and some it may not set at all: the operator keeps them all.
	d.labels = o.Labels
	if _, _, err := kubelet.SplitLabels(o.Labels); err != nil {
		p.preflight = no(v1alpha1.ReasonPlanInvalid, err.Error())
		return false
	}
	p.desired = p.hold(d)
	p.tellPeers(o)
	return true
}

// generation is the fence of a plan: above all that the machine has accepted. A machine that is ahead of the record, since the cluster was
// restored from a backup, would refuse everything else for ever; an operator that merely lags cannot get past it so, because the
// generation goes into the status first, and a stale write is refused there.
func (p *pass) generation(digest string) int64 {
	s, r := p.host.Status.Plan, p.reported()
	ahead := s != nil && r.Host == string(p.host.UID) && r.Generation > s.Generation
	switch {
	case s == nil:
		return r.Generation + 1
	case s.Digest == digest && !ahead:
		return s.Generation
	}
	return max(s.Generation, r.Generation) + 1
}

// hold keeps to the plan on record while the run that applies it is still being watched, so that its last steps are seen before a
// new plan is handed over, and while the Node is gone.
func (p *pass) hold(next *desired) *desired {
	s := p.host.Status.Plan
	if s == nil || s.Digest == next.digest || !p.speaksOf(s) {
		return next
	}
	if p.watching() || p.snap.Report.Seq > s.Seq || p.nodeDeleted() {
		return &desired{digest: s.Digest, generation: s.Generation, labels: next.labels, held: true}
	}
	return next
}

// speaksOf reports whether the agent's newest report is about the plan on record.
func (p *pass) speaksOf(s *v1alpha1.PlanStatus) bool {
	r := p.snap.Report
	return r != nil && r.Digest == s.Digest && r.Generation == s.Generation && r.Host == string(p.host.UID)
}

// watching reports whether a run is under way and we hear of it.
func (p *pass) watching() bool {
	return p.snap.Report.Phase == plan.PhaseRunning && (p.snap.Busy == host.VerbApply || p.snap.Busy == host.VerbFollow)
}

// nodeDeleted reports whether somebody deleted our Node. It comes back when its kubelet restarts; its machine keeps what it has until
// then.
func (p *pass) nodeDeleted() bool {
	return p.node == nil && p.host.Status.Node != nil && p.host.Status.Node.UID != ""
}

func (p *pass) nodeFacts() facts.Node {
	if p.node == nil || (!p.ours() && !p.adoptNode) {
		return facts.Node{}
	}
	return facts.Node{
		Registered: true, Rejoin: p.rejoins(), UID: string(p.node.UID), Ready: nodeReady(p.node), PodCIDR: p.node.Spec.PodCIDR,
		PodCIDRs: p.node.Spec.PodCIDRs, Peers: p.peers,
	}
}

// silence is how long a node must have been silent before its machine, which answers us, is given a new bootstrap credential. The rules for
// certificates want the same of its lease.
const silence = 5 * time.Minute

// rejoins reports whether a machine whose Node exists has to ask for a certificate anew: it has lost our plan, since it was reinstalled, or
// it answers us while its kubelet has been silent for long, since its certificate expired. A rejoin that is under way ends when the kubelet
// speaks again.
func (p *pass) rejoins() bool {
	silent := nodeSilent(p.node)
	switch s := p.host.Status; {
	case s.Plan != nil && s.Plan.Applied != "" && p.reported().Host != string(p.host.UID):
		return true
	case !silent || s.Ticket != nil:
		return silent
	}
	return p.snap.FactsAt.Sub(readyCondition(p.node).LastTransitionTime.Time) > silence
}

// reported is the newest thing that the agent said. The report among the facts is as old as they are.
func (p *pass) reported() *plan.Report {
	if p.snap.Report != nil {
		return p.snap.Report
	}
	return &p.snap.Facts.Report
}

// report is the newest thing that the agent said, nil when it speaks of another plan than the desired one.
func (p *pass) report() *plan.Report {
	r := p.reported()
	if r.Host != string(p.host.UID) || r.Digest != p.desired.digest || r.Generation != p.desired.generation {
		return nil
	}
	return r
}
