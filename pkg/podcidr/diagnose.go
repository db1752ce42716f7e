package podcidr

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

// Diagnose says why Nodes have no range: the evidence, and each cause that fits it with what mends it. It is zero where nothing is missing, or
// nothing can be told yet, since no Node has been there for long enough. That a flag is missing is said as a fact only where the arguments
// could be read.
func Diagnose(e Evidence) Finding { return e.controllerGives() }

// controllerGives is what keeps kube-controller-manager from giving one more range.
func (e *Evidence) controllerGives() Finding {
	if without := e.unknown(); len(without) > 0 {
		return e.diagnose(without)
	}
	if len(e.with()) > 0 || !slices.ContainsFunc(e.Nodes, func(n Node) bool { return !n.Ours || e.Now.Sub(n.Created) >= Patience }) {
		return Finding{}
	}
	return e.diagnose(nil)
}

// with are the Nodes that were given a range.
func (e *Evidence) with() []string {
	var out []string
	for i := range e.Nodes {
		if len(e.Nodes[i].Ranges) > 0 {
			out = append(out, e.Nodes[i].Name)
		}
	}
	return out
}

// diagnose is Diagnose for nodes that have none, or for one more that would have none.
func (e *Evidence) diagnose(without []string) Finding {
	with := len(e.with())
	reason := v1alpha1.ReasonNodeCIDRsIncomplete
	switch {
	case e.silent():
		reason = v1alpha1.ReasonControllerManagerSilent
	case with == 0:
		reason = v1alpha1.ReasonNodeCIDRsNotAllocated
	case e.event(EventNotAvailable) != nil:
		reason = v1alpha1.ReasonPodCIDRRangeExhausted
	}
	facts := append([]string{e.count(with, without)}, e.seen()...)
	return Finding{reason, strings.Join(facts, "; ") + ". " + e.causes(reason)}
}

// count is how many Nodes have a range.
func (e *Evidence) count(with int, without []string) string {
	need := fmt.Sprintf("network mode %s needs spec.podCIDR on every Node, and ", e.Mode)
	switch {
	case with == 0:
		return need + fmt.Sprintf("none of %d has one", len(e.Nodes))
	case len(without) == 0:
		return need + fmt.Sprintf("%d of %d have one", with, len(e.Nodes))
	}
	return need + fmt.Sprintf("%s has none while %d others have: what it is given may be what their pods use", named(without), with)
}

// seen is what is known of the controller manager. Its words stay the same while nothing changes.
func (e *Evidence) seen() []string {
	var out []string
	c := e.Controller
	switch l := c.Lease; {
	case l == nil:
		out = append(out, "there is no lease kube-system/kube-controller-manager")
	case e.silent():
		out = append(out, fmt.Sprintf("lease kube-system/kube-controller-manager of %s was last renewed at %s", l.Holder, l.Renewed.UTC().Format(time.RFC3339)))
	default:
		out = append(out, fmt.Sprintf("lease kube-system/kube-controller-manager is being renewed by %s", l.Holder))
	}
	for _, reason := range []string{EventNotAvailable, EventAssignmentFailed} {
		if ev := e.event(reason); ev != nil {
			out = append(out, fmt.Sprintf("Event %s on Node %s: %s", ev.Reason, ev.Node, v1alpha1.Clip(ev.Note, 160)))
		}
	}
	if len(c.Events) == 0 {
		out = append(out, "no Events "+EventNotAvailable+" or "+EventAssignmentFailed)
	}
	if a := c.Args; a != nil {
		out = append(out, a.From+" has "+a.text())
	}
	if len(c.Forbidden) > 0 {
		out = append(out, "not permitted: "+strings.Join(c.Forbidden, ", "))
	}
	return out
}

// silent reports whether there is a lease that nobody renews.
func (e *Evidence) silent() bool {
	l := e.Controller.Lease
	return l != nil && e.Now.Sub(l.Renewed) > leaseStale
}

// event is the first Event of a reason about a Node that still has no range.
func (e *Evidence) event(reason string) *Event {
	with := e.with()
	for i := range e.Controller.Events {
		if ev := &e.Controller.Events[i]; ev.Reason == reason && !slices.Contains(with, ev.Node) {
			return ev
		}
	}
	return nil
}

// causes are the candidates with what mends each.
func (e *Evidence) causes(reason string) string {
	switch reason {
	case v1alpha1.ReasonControllerManagerSilent:
		return "kube-controller-manager does not run or does not reach the API server: look at systemctl status kube-controller-manager on the control plane, or kubectl -n kube-system get pods -l component=kube-controller-manager"
	case v1alpha1.ReasonPodCIDRRangeExhausted:
		return fmt.Sprintf("The range is used up%s: start kube-controller-manager with a larger --cluster-cidr, or with a longer --node-cidr-mask-size and Nodes made anew; delete Nodes that are no more", e.usage())
	case v1alpha1.ReasonNodeCIDRsNotAllocated:
		return e.flags()
	}
	return "Either kube-controller-manager has not come to it yet, which takes seconds, or it gave ranges earlier and does no more (--allocate-node-cidrs=true was taken away), or its log says why: systemctl status kube-controller-manager, or kubectl -n kube-system logs -l component=kube-controller-manager"
}

// flags are the causes of nobody having a range.
func (e *Evidence) flags() string {
	cidr := "<range>"
	if len(e.Cluster) > 0 {
		cidr = list(e.Cluster[:1])
	}
	add := "--allocate-node-cidrs=true and --cluster-cidr=" + cidr
	self := "or let this operator give ranges to its own Nodes: " + Patch(e.Profile, "merge", allocation(v1alpha1.AllocationOperator))
	if a := e.Controller.Args; a != nil {
		return a.cause(add) + "; " + self
	}
	return "Its arguments cannot be read from here; the causes that fit: " +
		"(1) kube-controller-manager runs without the flags: on the control plane, ps -ww -o args -C kube-controller-manager shows them; add " + add + " to its unit file or manifest and restart it; " +
		"(2) its controller nodeipam is turned off: take -nodeipam out of --controllers; " +
		"(3) a cloud's controller manager is to give ranges and does not run; " + self
}

// usage is how much of the range is used, in words, "" when it is not known.
func (e *Evidence) usage() string {
	bits := e.commonBits()
	var cluster []netip.Prefix
	for _, c := range e.clusterRanges() {
		if c.Addr().Is4() && bits >= c.Bits() {
			cluster = append(cluster, c)
		}
	}
	if len(cluster) == 0 {
		return ""
	}
	total, used := 0, 0
	for _, c := range cluster {
		total += 1 << (bits - c.Bits())
	}
	for i := range e.Nodes {
		for _, p := range e.Nodes[i].Ranges {
			if slices.ContainsFunc(cluster, p.Overlaps) {
				used++
			}
		}
	}
	return fmt.Sprintf(" (%d of the %d ranges of /%d in %s)", used, total, bits, list(cluster))
}

// clusterRanges are the controller manager's own word, else the cluster's.
func (e *Evidence) clusterRanges() []netip.Prefix {
	if a := e.Controller.Args; a != nil && len(a.Cluster) > 0 {
		return a.Cluster
	}
	return e.Cluster
}
