package discover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
)

// choice is the network mode in effect.
type choice struct {
	mode v1alpha1.NetworkMode
	why  string
	// refusals stop hosts from being set up, doubts do not.
	refusals, doubts []string
}

// choose settles the network mode: the profile's, or for Auto the one that makes Windows nodes part of what the cluster has. blind are reads
// that were refused and without which a pod network may stay unseen. It is pure.
func choose(in Input, found []plane, blind []string) choice {
	if wanted := in.Profile.Network.Mode; wanted != "" && wanted != v1alpha1.NetworkAuto {
		c := choice{mode: wanted, why: fmt.Sprintf("spec.network.mode of WindowsNodeProfile %s says so", in.ProfileName)}
		c.suit(in, found)
		return c
	}
	if len(found) == 0 {
		return chooseStatic(in, blind)
	}
	p := found[0]
	c := choice{mode: p.mode, why: "the cluster's pod network is " + describe(p.Plane) + ", by " + p.From, doubts: p.doubts}
	if p.mode == v1alpha1.NetworkNone {
		c.why += ", which brings the CNI configuration of Windows nodes itself"
	}
	if p.refusal != "" {
		c.refusals = []string{p.refusal + "; or set spec.network.mode of WindowsNodeProfile " + in.ProfileName}
	}
	for _, other := range found[1:] {
		c.doubts = append(c.doubts, fmt.Sprintf("there is also %s, by %s; %s is taken for the pod network. If that is wrong, set spec.network.mode of WindowsNodeProfile %s",
			describe(other.Plane), other.From, describe(p.Plane), in.ProfileName))
	}
	return c
}

// chooseStatic is for a cluster in which no pod network shows.
func chooseStatic(in Input, blind []string) choice {
	if len(blind) > 0 {
		return choice{
			why: "it could not be seen whether the cluster has a pod network",
			refusals: []string{fmt.Sprintf("whether the cluster has a pod network cannot be seen: the operator's service account may not %s. Grant these verbs, as the operator's ClusterRole does, or set spec.network.mode of WindowsNodeProfile %s",
				bounded(strings.Join(blind, ", "), maxMessage), in.ProfileName)},
		}
	}
	return choice{
		mode: v1alpha1.NetworkL2Bridge,
		why:  "no pod network shows in the cluster (flannel, Calico, Cilium, kube-router, Antrea, Amazon VPC CNI): each node has its own bridge, and there are static routes between nodes",
	}
}

// describe names a pod network and its backend.
func describe(p facts.Plane) string {
	name := p.Kind
	if p.Kind == facts.PlaneOther && p.Name != "" {
		name = p.Name
	}
	if p.Kind == facts.PlaneOther && p.Name == "" {
		name = strings.TrimSpace("OpenShift's " + p.Backend)
	} else if p.Backend != "" {
		name += " (" + bounded(p.Backend, maxWord) + ")"
	}
	return name
}

// suit checks the mode that the profile names against what the cluster has.
func (c *choice) suit(in Input, found []plane) {
	switch c.mode {
	case v1alpha1.NetworkFlannelVXLAN, v1alpha1.NetworkFlannelHostGW:
		c.suitFlannel(found)
	case v1alpha1.NetworkOverlay:
		c.suitOverlay(in, found)
	case v1alpha1.NetworkL2Bridge:
		c.suitBridge(found)
	case v1alpha1.NetworkCalico:
		if !hasKind(found, facts.PlaneCalico) {
			c.doubts = append(c.doubts, "mode Calico: there is neither an IPPool nor an Installation of Calico; nodes stay NotReady until it brings their network")
		}
	}
}

func hasKind(found []plane, kind string) bool {
	return slices.ContainsFunc(found, func(p plane) bool { return p.Kind == kind })
}

func (c *choice) suitFlannel(found []plane) {
	i := slices.IndexFunc(found, func(p plane) bool { return p.Kind == facts.PlaneFlannel })
	if i < 0 {
		c.refusals = append(c.refusals, fmt.Sprintf("mode %s: there is no flannel in the cluster, neither ConfigMap kube-flannel-cfg in kube-flannel or kube-system nor annotation %s on a Linux node. Install flannel, or set spec.network.mode to Auto",
			c.mode, flannelBackend))
		return
	}
	p := found[i]
	c.doubts = append(c.doubts, p.doubts...)
	switch {
	case p.refusal != "":
		c.refusals = append(c.refusals, p.refusal)
	case p.mode != c.mode:
		c.refusals = append(c.refusals, fmt.Sprintf("mode %s: flannel's backend is %s (%s). Set spec.network.mode to %s or to Auto", c.mode, bounded(p.Backend, maxWord), p.From, p.mode))
	}
}

// suitOverlay: without a VXLAN peer on the Linux nodes, Windows pods would reach neither pods nor the cluster's DNS.
func (c *choice) suitOverlay(in Input, found []plane) {
	if slices.ContainsFunc(in.Profile.Network.Nodes, func(n v1alpha1.NetworkNode) bool { return n.VTEPMAC != "" }) {
		return
	}
	vxlan := slices.IndexFunc(found, func(p plane) bool { return p.mode == v1alpha1.NetworkFlannelVXLAN })
	if vxlan < 0 {
		c.refusals = append(c.refusals, "mode Overlay: no Linux node has a VXLAN peer, so that Windows pods would reach neither other pods nor DNS. List the peers with podCIDRs, providerAddress and vtepMAC in spec.network.nodes, or use flannel with backend vxlan and mode FlannelVXLAN, or mode L2Bridge")
		return
	}
	if r := found[vxlan].refusal; r != "" {
		c.refusals = append(c.refusals, r)
	}
}

// suitBridge: static routes go with no pod network, and with flannel's host-gw, which is nothing else.
func (c *choice) suitBridge(found []plane) {
	if len(found) == 0 || found[0].mode == v1alpha1.NetworkFlannelHostGW {
		return
	}
	c.doubts = append(c.doubts, fmt.Sprintf("mode L2Bridge: the cluster's pod network is %s, by %s; pods of Windows nodes are not part of it and reach others only where the network between nodes routes to them",
		describe(found[0].Plane), found[0].From))
}
