package host

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/planner"
)

// payloadIndex is the payload by file name.
type payloadIndex map[string]planner.Blob

func (x payloadIndex) digests() []string {
	out := make([]string, 0, len(x))
	for _, b := range x {
		out = append(out, b.SHA256)
	}
	return out
}

// wantedIP is the address that the node shall register with, as far as the spec says.
func (p *pass) wantedIP() string {
	if p.host.Spec.NodeIP != "" {
		return p.host.Spec.NodeIP
	}
	if ip, err := netip.ParseAddr(p.host.Spec.Address); err == nil {
		return ip.String()
	}
	return ""
}

// network is what the profile says of it, with the mode that discovery found to be in effect.
func (p *pass) network() planner.Network {
	n, c := p.profile.Spec.Network, p.cluster.Cluster
	out := planner.Network{
		Mode: c.Mode, Name: planner.NetworkName(c.Mode, n.Name, c.Plane.VNI), VSID: int(n.VSID), Plugin: string(n.Plugin), CNIConfig: []byte(n.CNIConfig),
	}
	out.KubeProxy = planner.ManagesProxy(out, p.kubeProxy(), c.Plane)
	return out
}

// preflighted looks at the machine's own facts, all at once, before anything is changed. A node that runs is not judged by it.
func (p *pass) preflighted() bool {
	fixed := p.host.Spec.NodeName
	if p.host.Status.Node != nil {
		fixed = p.host.Status.Node.Name
	}
	findings := planner.Preflight(planner.PreflightInput{
		Host: *p.snap.Facts, Now: p.snap.FactsAt, APIServer: p.cluster.Cluster.APIServer, APIServerVersion: p.cluster.Cluster.Version,
		NodeName: fixed, NodeNameOwner: p.taken, NodeIP: p.wantedIP(), CheckNodeIP: true,
		Network: p.network(), Payload: p.payload,
	})
	var bad, warnings []string
	for _, f := range findings {
		if f.Fatal {
			bad = append(bad, f.Message)
		} else {
			warnings = append(warnings, f.Message)
		}
	}
	if len(bad) > 0 {
		p.preflight = no(v1alpha1.ReasonPreflightFailed, strings.Join(bad, "; "))
		p.refresh(factsRecheck)
		return false
	}
	p.preflight = yes(v1alpha1.ReasonPreflightPassed, strings.Join(append([]string{"the machine can be a node"}, warnings...), "; "))
	p.judgeRange()
	return p.named(fixed)
}

// named settles the node's name and address; both are frozen before a ticket is issued.
func (p *pass) named(fixed string) bool {
	if n := p.host.Status.Node; n != nil && n.ManagementIP != "" && !p.moved(n.ManagementIP) {
		p.nodeName, p.managementIP = n.Name, n.ManagementIP
		return true
	}
	name, err := fixed, error(nil)
	if name == "" {
		name, err = planner.NodeName(p.snap.Facts.Hostname)
	}
	var ip planner.NodeAddress
	if err == nil {
		ip, err = planner.PickNodeIP(p.wantedIP(), p.snap.Facts.Addresses)
	}
	if err != nil {
		p.preflight = no(v1alpha1.ReasonPreflightFailed, err.Error())
		p.refresh(factsRecheck)
		return false
	}
	p.nodeName, p.managementIP = name, ip.Addr.String()
	if p.taken != "" || p.conflicting() {
		p.registered = no(v1alpha1.ReasonNodeConflict, fmt.Sprintf(
			"Node %s exists and is not this host's: delete it if its machine is gone, or set spec.nodeName to another name", name))
		p.lookAgain(factsRecheck)
		return false
	}
	if p.host.Status.Node == nil {
		// The name goes into the status first, so that the next pass sees who has it.
		p.inSync = wait(v1alpha1.ReasonNotChecked, "the plan is being made")
		p.lookAgain(afterStatus)
		return false
	}
	return true
}

// moved reports whether the spec names another address than the one on record: the admin's word, or the Machine's, is newer than what
// was once frozen. What the machine says of itself never moves it.
func (p *pass) moved(recorded string) bool {
	want := p.wantedIP()
	return want != "" && want != recorded
}

// conflicting reports whether a Node has the name that cannot be ours, since no ticket was ever issued for it.
func (p *pass) conflicting() bool {
	return p.node != nil && p.node.Name == p.nodeName && !p.ours() && !p.mayAdopt()
}

// ours reports whether the Node is this host's: it is the one that registered, or it carries the host's UID.
func (p *pass) ours() bool {
	if p.node == nil {
		return false
	}
	if s := p.host.Status.Node; s != nil && s.UID != "" {
		return s.UID == string(p.node.UID)
	}
	return p.node.Annotations[v1alpha1.HostUIDAnnotation] == string(p.host.UID)
}

// mayAdopt reports whether a Node that carries no host's UID yet can only have come from our machine: a client certificate was
// approved for our ticket or an earlier one, or the host's Node was there before and was deleted, and the Node is younger than the host. Only the holder of
// that certificate, or an administrator, can make a Node of this name.
func (p *pass) mayAdopt() bool {
	if p.node == nil || p.node.Annotations[v1alpha1.HostUIDAnnotation] != "" || p.node.CreationTimestamp.Before(&p.host.CreationTimestamp) {
		return false
	}
	t, n := p.host.Status.Ticket, p.host.Status.Node
	return t != nil && (t.ApprovedCSR != "" || t.EarlierCSR != "") || n != nil && n.UID != ""
}
