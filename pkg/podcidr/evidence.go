package podcidr

import (
	"net/netip"
	"slices"
	"time"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

// Evidence is all that a decision rests on.
type Evidence struct {
	Now time.Time
	// Mode is the network mode in effect.
	Mode v1alpha1.NetworkMode
	// Profile is the name of the WindowsNodeProfile, for commands.
	Profile string
	// Allocation says who gives ranges, MaskSize the prefix length of those that the operator gives.
	Allocation v1alpha1.PodCIDRAllocation
	MaskSize   int
	// Cluster are the cluster's pod ranges, Services those of its Services.
	Cluster, Services []netip.Prefix
	// Hosts are the UIDs of the hosts that have not been begun, sorted.
	Hosts []string
	// Nodes are all Nodes, sorted by name.
	Nodes []Node
	// Overrides are spec.network.nodes of the profile in their order, those without ranges too.
	Overrides  []Override
	Controller Controller
}

// Node is what the cluster says of one Node.
type Node struct {
	Name, UID string
	// Ours is whether it is the Node of one of our hosts.
	Ours bool
	// Given is the range that this operator gave it, by its own mark; invalid when it gave none.
	Given   netip.Prefix
	Created time.Time
	// Ranges are spec.podCIDRs.
	Ranges []netip.Prefix
	// Addresses of the Node itself.
	Addresses []netip.Addr
	// Pods are the live addresses of its pods, without those that have the Node's own.
	Pods []netip.Addr
}

// Override is an entry of spec.network.nodes.
type Override struct {
	Name   string
	Ranges []netip.Prefix
}

// Controller is what is known of kube-controller-manager.
type Controller struct {
	// Lease is kube-system/kube-controller-manager, nil when there is none: one that runs without leader election has none.
	Lease *Lease
	// Args are read from a mirror pod, nil where there is none: the control plane is then no pods of this cluster.
	Args *Args
	// Events about Nodes that got no range.
	Events []Event
	// Forbidden are the reads that were refused, in words.
	Forbidden []string
}

// Lease of the controller manager.
type Lease struct {
	Holder  string
	Renewed time.Time
}

// Event reasons of the allocator (kubernetes/pkg/controller/nodeipam/ipam).
const (
	EventNotAvailable     = "CIDRNotAvailable"
	EventAssignmentFailed = "CIDRAssignmentFailed"
)

// Event about a Node.
type Event struct{ Node, Reason, Note string }

// Finding is something that is wrong, and the way out; the zero value is nothing.
type Finding struct {
	// Reason is one of pkg/apis/v1alpha1.
	Reason, Message string
}

// Result is what is known of the ranges for a profile.
type Result struct {
	// Needed is whether the mode needs ranges at all; nothing else is set when it does not.
	Needed bool
	// Hosts are the UIDs of the hosts that have not been begun and that this was made for, sorted.
	Hosts []string
	// Wait is why no further machine is begun, zero when nothing stands in the way.
	Wait Finding
	// Missing is what to say of a Node that has been there for Patience and has no range.
	Missing Finding
	// Nodes are the ranges of our Nodes that have been judged, by the Node's name.
	Nodes map[string]Judgement
	// Mismatches are sentences about nodes whose pods are elsewhere than their spec says, and at the end the command that sets all that the
	// operator can tell; at most MaxMismatches.
	Mismatches []string
}

// Judgement of one Node's range.
type Judgement struct {
	// UID of the Node and Range, in case it is another one since.
	UID, Range string
	// Refused is why the range is not used, zero when it may be.
	Refused Finding
}

// MaxMismatches is how many Result.Mismatches there are at the most, as status.network takes them.
const MaxMismatches = 64

// Patience is how long a Node may be there without a range before somebody is told.
const Patience = 30 * time.Second

// leaseStale is how old a lease may be; kube-controller-manager renews it every 2 s and loses it after 15 s.
const leaseStale = time.Minute

// Needs reports whether each Node needs a pod range in this mode.
func Needs(mode v1alpha1.NetworkMode) bool {
	switch mode {
	case v1alpha1.NetworkL2Bridge, v1alpha1.NetworkOverlay, v1alpha1.NetworkFlannelVXLAN, v1alpha1.NetworkFlannelHostGW:
		return true
	}
	return false
}

// routed reports whether the operator itself makes routes to the pods of other Nodes, by what their spec says.
func routed(mode v1alpha1.NetworkMode) bool {
	return mode == v1alpha1.NetworkL2Bridge || mode == v1alpha1.NetworkOverlay
}

// override returns the ranges that the profile says the Node has, nil when it says nothing.
func (e *Evidence) override(name string) []netip.Prefix {
	if i := slices.IndexFunc(e.Overrides, func(o Override) bool { return o.Name == name }); i >= 0 {
		return e.Overrides[i].Ranges
	}
	return nil
}

// effective are the ranges that the Node has: the profile's word before its spec's.
func (e *Evidence) effective(n *Node) []netip.Prefix {
	if o := e.override(n.Name); len(o) > 0 {
		return o
	}
	return n.Ranges
}

// inAny reports whether one of the ranges holds the address.
func inAny(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
}
