package podcidr

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

// Decide judges the ranges of all Nodes.
func Decide(e Evidence) Result {
	if !Needs(e.Mode) {
		return Result{}
	}
	ms := e.mismatches()
	r := Result{Needed: true, Hosts: e.Hosts, Wait: e.wait(ms), Missing: e.missing(), Mismatches: e.sentences(ms), Nodes: map[string]Judgement{}}
	for i := range e.Nodes {
		if n := &e.Nodes[i]; n.Ours && len(n.Ranges) > 0 {
			r.Nodes[n.Name] = Judgement{UID: n.UID, Range: n.Ranges[0].String(), Refused: e.judge(n)}
		}
	}
	return r
}

func operatorGives(e *Evidence) bool { return e.Allocation == v1alpha1.AllocationOperator }

// wait is why no further machine is begun: what it would be given may be another's, or nothing.
func (e *Evidence) wait(ms []mismatch) Finding {
	supply := e.controllerGives
	if operatorGives(e) {
		supply = e.operatorCan
	}
	for _, look := range []func() Finding{e.clusterOverlap, supply, func() Finding { return e.unrouted(ms) }} {
		if f := look(); f != (Finding{}) {
			return f
		}
	}
	return Finding{}
}

// missing is what to say of a Node of ours that has no range for long.
func (e *Evidence) missing() Finding {
	if !operatorGives(e) {
		return e.diagnose(nil)
	}
	if f := e.operatorCan(); f != (Finding{}) {
		return f
	}
	return Finding{v1alpha1.ReasonNodeCIDRsIncomplete, "this operator has not given the Node its range yet; it looks again every few seconds"}
}

// clusterOverlap finds pod ranges of the cluster that are those of Services, or in which Nodes are. Once ranges are given each is judged by
// itself, since the cluster's may be no more than what covers them.
func (e *Evidence) clusterOverlap() Finding {
	if operatorGives(e) || len(e.with()) > 0 {
		return Finding{}
	}
	for _, c := range e.Cluster {
		if with := e.foreign(c); with != "" {
			return Finding{v1alpha1.ReasonPodCIDROverlap, fmt.Sprintf(
				"the cluster's pod range %s holds %s: no range out of it can be told apart from those addresses; give kube-controller-manager another --cluster-cidr, or correct spec.cluster of WindowsNodeProfile %s if that is not the range",
				c, with, e.Profile)}
		}
	}
	return Finding{}
}

// foreign names the range of Services or the Node that a range overlaps, "" when there is none.
func (e *Evidence) foreign(p netip.Prefix) string {
	for _, s := range e.Services {
		if s.Overlaps(p) {
			return "the service range " + s.String()
		}
	}
	for i := range e.Nodes {
		for _, a := range e.Nodes[i].Addresses {
			if p.Contains(a) {
				return fmt.Sprintf("the address %s of Node %s itself", a, e.Nodes[i].Name)
			}
		}
	}
	return ""
}

// judge compares the range of one of our Nodes with what all others have.
func (e *Evidence) judge(n *Node) Finding {
	for _, p := range n.Ranges {
		if with := e.foreign(p); with != "" {
			return e.refuse(n, p, with)
		}
		for i := range e.Nodes {
			if o := &e.Nodes[i]; o.Name != n.Name {
				if with := e.heldBy(o, p); with != "" {
					return e.refuse(n, p, with)
				}
			}
		}
	}
	return Finding{}
}

// heldBy says what another Node has in the range, "" for nothing.
func (e *Evidence) heldBy(o *Node, p netip.Prefix) string {
	for _, q := range e.effective(o) {
		if q.Overlaps(p) {
			return fmt.Sprintf("%s of Node %s", q, o.Name)
		}
	}
	if i := slices.IndexFunc(o.Pods, p.Contains); i >= 0 {
		return fmt.Sprintf("the address %s of a running pod of Node %s", o.Pods[i], o.Name)
	}
	return ""
}

func (e *Evidence) refuse(n *Node, p netip.Prefix, with string) Finding {
	return Finding{v1alpha1.ReasonPodCIDROverlap, fmt.Sprintf(
		"Node %s was given %s, which holds %s: the range is not used. A Node's range cannot be changed: once every other Node has its own, kubectl delete node %s and restart the service kubelet on the machine, so that it is given another",
		n.Name, p, with, n.Name)}
}

// unrouted are mismatches where the operator would make routes by them.
func (e *Evidence) unrouted(ms []mismatch) Finding {
	if len(ms) == 0 || !routed(e.Mode) {
		return Finding{}
	}
	shown := ms[:min(len(ms), maxShown)]
	text := fmt.Sprintf("the pods of %d Nodes are not in the range that their spec says, and routes would lead to other Nodes: ", len(ms))
	for i := range shown {
		text += e.sentence(&shown[i]) + "; "
	}
	if c := e.command(shown); c != "" {
		text += c
	}
	if len(ms) > len(shown) {
		text += fmt.Sprintf(" (all of them: status.network.mismatches of WindowsNodeProfile %s)", e.Profile)
	}
	return Finding{v1alpha1.ReasonPodCIDRMismatch, text}
}

// operatorCan is what keeps this operator from giving one more range.
func (e *Evidence) operatorCan() Finding {
	if f := e.allocating(); f != (Finding{}) {
		return f
	}
	if _, err := Allocate(e.Cluster, e.MaskSize, e.taken()...); err != nil {
		return e.noBlock(err)
	}
	return Finding{}
}

// allocating is why this operator must not give ranges: somebody else does, or a Node's range is not known.
func (e *Evidence) allocating() Finding {
	back := Patch(e.Profile, "merge", allocation(v1alpha1.AllocationControllerManager))
	a := e.Controller.Args
	switch {
	case a != nil && a.Allocate:
		return Finding{v1alpha1.ReasonPodCIDRTwoWriters, fmt.Sprintf(
			"spec.network.podCIDRs.allocation of WindowsNodeProfile %s is Operator, and %s runs with --allocate-node-cidrs=true: one of the two must give ranges, not both; %s", e.Profile, a.From, back)}
	case a == nil:
		if n, p := e.givenByOthers(); n != "" {
			return Finding{v1alpha1.ReasonPodCIDRTwoWriters, fmt.Sprintf(
				"spec.network.podCIDRs.allocation of WindowsNodeProfile %s is Operator, and Node %s has %s, which this operator did not give: a controller manager gives ranges already; %s", e.Profile, n, p, back)}
		}
	}
	if unknown := e.unknown(); len(unknown) > 0 {
		return Finding{v1alpha1.ReasonNodeCIDRsIncomplete, fmt.Sprintf(
			"the pod ranges of %s are not known, and the operator gives none that could be theirs: set each in spec.network.nodes of WindowsNodeProfile %s (what their CNI configuration says); %s",
			named(unknown), e.Profile, e.example(unknown))}
	}
	return Finding{}
}

// example is the command that sets the ranges of nodes, as far as their pods tell them.
func (e *Evidence) example(unknown []string) string {
	if c := e.command(e.mismatches()); c != "" {
		return c
	}
	return Patch(e.Profile, "merge", map[string]any{"spec": map[string]any{"network": map[string]any{
		"nodes": []any{map[string]any{"name": unknown[0], "podCIDRs": []string{"<its range>"}}},
	}}}) + " (with the entries that are there already)"
}

// givenByOthers is a Node whose range somebody else gave.
func (e *Evidence) givenByOthers() (string, netip.Prefix) {
	for i := range e.Nodes {
		n := &e.Nodes[i]
		if len(n.Ranges) > 0 && n.Ranges[0] != n.Given {
			return n.Name, n.Ranges[0]
		}
	}
	return "", netip.Prefix{}
}

// unknown are the Nodes, not ours, that have neither a range nor an override.
func (e *Evidence) unknown() []string {
	var out []string
	for i := range e.Nodes {
		if n := &e.Nodes[i]; !n.Ours && len(e.effective(n)) == 0 {
			out = append(out, n.Name)
		}
	}
	return out
}

// noBlock says why there is no range to give.
func (e *Evidence) noBlock(err error) Finding {
	if errors.Is(err, ErrMask) {
		return Finding{v1alpha1.ReasonNodeCIDRsNotAllocated, fmt.Sprintf(
			"the operator can give no Node a range: %v; set spec.cluster.podCIDRs or spec.network.podCIDRs.maskSize of WindowsNodeProfile %s", err, e.Profile)}
	}
	return Finding{v1alpha1.ReasonPodCIDRRangeExhausted, fmt.Sprintf(
		"the operator can give no Node a range: %v; add a range to spec.cluster.podCIDRs of WindowsNodeProfile %s, or take a larger spec.network.podCIDRs.maskSize", err, e.Profile)}
}

func allocation(a v1alpha1.PodCIDRAllocation) map[string]any {
	return map[string]any{"spec": map[string]any{"network": map[string]any{"podCIDRs": map[string]any{"allocation": a}}}}
}

func named(nodes []string) string {
	if len(nodes) == 1 {
		return "Node " + nodes[0]
	}
	return fmt.Sprintf("%d Nodes (%s)", len(nodes), list(nodes))
}
