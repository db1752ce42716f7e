package podcidr

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

func at() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

// hardWay is a cluster put together by hand: three Linux nodes with pods on 10.200.{0,1,2}.0/24 and empty spec.podCIDR, no mirror pods.
func hardWay(edits ...func(*Evidence)) Evidence {
	e := Evidence{
		Now: at(), Mode: v1alpha1.NetworkL2Bridge, Profile: "default", Allocation: v1alpha1.AllocationControllerManager, MaskSize: 24,
		Cluster: prefixes("10.200.0.0/16"), Services: prefixes("10.32.0.0/24"),
		Controller: Controller{Lease: &Lease{Holder: "controller-0_4711", Renewed: at().Add(-2 * time.Second)}},
	}
	for i := range 3 {
		e.Nodes = append(e.Nodes, Node{
			Name: fmt.Sprintf("worker-%d", i), UID: fmt.Sprintf("uid-%d", i), Created: at().Add(-time.Hour),
			Addresses: addrs(fmt.Sprintf("10.240.0.2%d", i)),
			Pods:      addrs(fmt.Sprintf("10.200.%d.4", i), fmt.Sprintf("10.200.%d.7", i)),
		})
	}
	for _, edit := range edits {
		edit(&e)
	}
	return e
}

// spec gives the nodes their spec.podCIDR in their order; "" leaves one without.
func spec(ranges ...string) func(*Evidence) {
	return func(e *Evidence) {
		for i, r := range ranges {
			if r != "" {
				e.Nodes[i].Ranges = prefixes(r)
			}
		}
	}
}

// windows adds a Node of ours, with or without a range.
func windows(name string, ranges ...string) func(*Evidence) {
	return func(e *Evidence) {
		e.Nodes = append(e.Nodes, Node{
			Name: name, UID: "uid-" + name, Ours: true, Created: at().Add(-time.Minute), Addresses: addrs("10.240.0.40"), Ranges: prefixes(ranges...),
		})
	}
}

// override sets an entry of spec.network.nodes.
func override(name string, ranges ...string) func(*Evidence) {
	return func(e *Evidence) {
		e.Overrides = append(e.Overrides, Override{Name: name, Ranges: prefixes(ranges...)})
	}
}

func byOperator(e *Evidence) { e.Allocation = v1alpha1.AllocationOperator }

// given marks the ranges of our nodes as the operator's.
func given(e *Evidence) {
	for i := range e.Nodes {
		if n := &e.Nodes[i]; n.Ours && len(n.Ranges) > 0 {
			n.Given = n.Ranges[0]
		}
	}
}

func args(a ...string) func(*Evidence) {
	return func(e *Evidence) {
		parsed := ParseArgs("Pod kube-system/kube-controller-manager-cp1", append([]string{"kube-controller-manager"}, a...))
		e.Controller.Args = &parsed
	}
}

func event(reason, node, note string) func(*Evidence) {
	return func(e *Evidence) {
		e.Controller.Events = append(e.Controller.Events, Event{Node: node, Reason: reason, Note: note})
	}
}
