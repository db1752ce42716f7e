package host

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
	"github.com/windowsmachine/operator/pkg/podcidr"
)

// gatherRanges takes what controllers/podcidr found out about the pod ranges of all Nodes. Without a store nobody looks at them.
func (r *Reconciler) gatherRanges(p *pass) {
	if r.PodCIDRs == nil || p.profile == nil {
		return
	}
	found, _ := r.PodCIDRs.Get(p.profile.Name)
	p.ranges = &found
}

// rangesChanged brings a pass for the hosts that a change concerns.
func (r *Reconciler) rangesChanged(ctx context.Context, c podcidr.Change) {
	for _, q := range r.list(ctx, func(h *v1alpha1.WindowsHost) bool { return concerns(c, h) }) {
		r.Notifier.queue.add(q)
	}
}

func concerns(c podcidr.Change, h *v1alpha1.WindowsHost) bool {
	if h.Spec.ProfileRef.Name != c.Profile {
		return false
	}
	n := h.Status.Node
	return c.All || slices.Contains(c.Hosts, string(h.UID)) || n != nil && slices.Contains(c.Nodes, n.Name)
}

// rangeMatters reports whether the Node needs a pod range, and somebody looks at those of all Nodes.
func (p *pass) rangeMatters() bool {
	return p.ranges != nil && podcidr.Needs(v1alpha1.NetworkMode(p.network().Mode))
}

// ofCluster are the reasons for which a machine is not asked at all. They end with their cause, also for a machine that then cannot be asked.
func ofCluster() []string {
	return []string{
		v1alpha1.ReasonProfileMissing, v1alpha1.ReasonFactsMissing, v1alpha1.ReasonFactsForbidden, v1alpha1.ReasonIgnitionMissing, v1alpha1.ReasonNetworkUnfit,
		v1alpha1.ReasonPodCIDRUnchecked, v1alpha1.ReasonNodeCIDRsNotAllocated, v1alpha1.ReasonNodeCIDRsIncomplete, v1alpha1.ReasonPodCIDRRangeExhausted,
		v1alpha1.ReasonControllerManagerSilent, v1alpha1.ReasonPodCIDROverlap, v1alpha1.ReasonPodCIDRMismatch, v1alpha1.ReasonPodCIDRTwoWriters,
	}
}

// ranged keeps a machine that has not been begun from being touched as long as its Node would get no range, or one that may be another's.
func (p *pass) ranged() bool {
	if p.host.Status.Plan != nil {
		return true
	}
	if c := meta.FindStatusCondition(p.before.Conditions, v1alpha1.ConditionPreflightPassed); c != nil && slices.Contains(ofCluster(), c.Reason) {
		p.preflight = wait(v1alpha1.ReasonNotChecked, "the machine has not been asked yet")
	}
	if !p.rangeMatters() {
		return true
	}
	switch w := p.ranges.Wait; {
	case !p.ranges.Needed || !slices.Contains(p.ranges.Hosts, string(p.host.UID)):
		p.preflight = wait(v1alpha1.ReasonPodCIDRUnchecked, "the pod ranges of all Nodes are being compared with the addresses of their pods")
	case w != podcidr.Finding{}:
		p.preflight = no(w.Reason, w.Message)
	default:
		return true
	}
	p.lookAgain(factsRecheck)
	return false
}

// judgeRange shows what is wrong with the range of a Node that has registered. A machine whose network is in place keeps it.
func (p *pass) judgeRange() {
	if !p.rangeMatters() || p.node == nil || !p.ours() {
		return
	}
	if p.node.Spec.PodCIDR == "" {
		p.rangeMissing()
		return
	}
	switch c := p.rangeRefused(); {
	case c == cond{}:
		if n := len(p.ranges.Mismatches); n > 0 {
			p.preflight.message += fmt.Sprintf("; pods of other Nodes are not in the range that their spec says (status.network.mismatches of WindowsNodeProfile %s): %s",
				p.profile.Name, p.ranges.Mismatches[0])
		}
	case nodeReady(p.node):
		p.preflight.message += "; " + c.message
	default:
		p.preflight = c
		p.lookAgain(factsRecheck)
	}
}

// rangeMissing tells of a Node that has been without a range for longer than it takes to give one.
func (p *pass) rangeMissing() {
	if age := p.now.Sub(p.node.CreationTimestamp.Time); age < podcidr.Patience {
		p.lookAgain(podcidr.Patience - age)
		return
	}
	if m := p.ranges.Missing; m != (podcidr.Finding{}) {
		p.preflight = no(m.Reason, m.Message)
	}
	p.lookAgain(factsRecheck)
}

// rangeRefused is why the Node's range must not be used, zero when it may be.
func (p *pass) rangeRefused() cond {
	j := p.ranges.Nodes[p.node.Name]
	switch {
	case j.UID != string(p.node.UID) || !sameRange(j.Range, p.node.Spec.PodCIDR):
		return wait(v1alpha1.ReasonPodCIDRUnchecked, fmt.Sprintf(
			"the pod range %s of Node %s is being compared with the addresses that others have", p.node.Spec.PodCIDR, p.node.Name))
	case j.Refused != podcidr.Finding{}:
		return no(j.Refused.Reason, j.Refused.Message)
	}
	return p.ownSubnet()
}

func sameRange(a, b string) bool {
	p, err1 := netip.ParsePrefix(a)
	q, err2 := netip.ParsePrefix(b)
	return err1 == nil && err2 == nil && p.Masked() == q.Masked()
}

// ownSubnet refuses a range that overlaps a subnet which the machine is in. The gateway and the host endpoint of the pod network, the first two
// addresses of the range, are ours.
func (p *pass) ownSubnet() cond {
	cidr, err := netip.ParsePrefix(p.node.Spec.PodCIDR)
	if err != nil {
		return cond{}
	}
	gateway := cidr.Masked().Addr().Next()
	for _, a := range p.snap.Facts.Addresses {
		own, err := netip.ParsePrefix(a.Prefix)
		if err != nil || !own.Overlaps(cidr) || own.Addr() == gateway || own.Addr() == gateway.Next() {
			continue
		}
		return no(v1alpha1.ReasonPodCIDROverlap, fmt.Sprintf(
			"Node %s was given %s, which overlaps %s of adapter %s on the machine: the range is not used; give the cluster pod ranges that no machine's subnet overlaps (--cluster-cidr of kube-controller-manager), kubectl delete node %s, and restart the service kubelet on the machine",
			p.node.Name, cidr, own, a.Adapter, p.node.Name))
	}
	return cond{}
}

// withhold takes a range that must not be used out of the facts, so that no network is made of it. One that the machine has already stays: of a
// Node that is Ready, or in the plan on record, whose digest this would be.
func (p *pass) withhold(n facts.Node, digest string) (facts.Node, bool) {
	if !p.rangeMatters() || !n.Registered || n.Ready || n.PodCIDR == "" || p.rangeRefused() == (cond{}) {
		return n, false
	}
	if s := p.host.Status.Plan; s != nil && s.Digest == digest {
		return n, false
	}
	n.PodCIDR, n.PodCIDRs = "", nil
	return n, true
}

// build makes the plan, with the Node's range where it may be used.
func (p *pass) build(o planner.Options) (plan.Plan, error) {
	n := p.nodeFacts()
	built, err := planner.Build(p.cluster.Cluster, *p.snap.Facts, n, o)
	if err != nil {
		return plan.Plan{}, err
	}
	if without, held := p.withhold(n, built.Digest()); held {
		return planner.Build(p.cluster.Cluster, *p.snap.Facts, without, o)
	}
	return built, nil
}
