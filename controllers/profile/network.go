package profile

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/planner"
)

// network is the pod network in use. Name, VNI and port are those that machines get, the backend is the cluster's.
func network(p *v1alpha1.WindowsNodeProfile, c facts.Cluster) *v1alpha1.NetworkStatus {
	n := &v1alpha1.NetworkStatus{
		Mode: v1alpha1.NetworkMode(c.Mode), Why: v1alpha1.Clip(c.Why, whyRoom), Backend: v1alpha1.Clip(c.Plane.Backend, backendRoom),
		VNI: small(c.Plane.VNI), Port: small(c.Plane.Port),
	}
	if c.Mode != "" {
		n.Name = v1alpha1.Clip(planner.NetworkName(c.Mode, p.Spec.Network.Name, c.Plane.VNI), nameRoom)
	}
	if n.Mode == v1alpha1.NetworkOverlay {
		n.VNI, n.Port = p.Spec.Network.VSID, overlayPort
	}
	return n
}

// small is a number that came from an object, in the bounds of the API's fields.
func small(n int) int32 {
	return int32(min(max(n, 0), math.MaxInt32))
}

// Limits of the API's fields, and the UDP port of an Overlay network of HNS.
const (
	whyRoom     = 1024
	backendRoom = 64
	nameRoom    = 63
	overlayPort = 4789
)

// network adds what follows from the Nodes there are.
func (r *Reconciler) network(ctx context.Context, p *v1alpha1.WindowsNodeProfile, c facts.Cluster, n *v1alpha1.NetworkStatus) (err error) {
	if ranges, ok := r.PodCIDRs.Get(p.Name); ok {
		n.Mismatches = ranges.Mismatches
	}
	n.LinuxRoutes, err = r.linuxRoutes(ctx, p, c)
	return err
}

// routeRoom is how many commands the status holds.
const routeRoom = 256

// linuxRoutes are the commands for Linux nodes where nothing but static routes leads to the pods of Windows nodes.
func (r *Reconciler) linuxRoutes(ctx context.Context, p *v1alpha1.WindowsNodeProfile, c facts.Cluster) ([]string, error) {
	if c.Mode != planner.ModeL2Bridge {
		return nil, nil
	}
	var list corev1.NodeList
	if err := r.Client.List(ctx, &list, client.MatchingLabels{corev1.LabelOSStable: "windows"}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Windows nodes: %w", err)
	}
	given := map[string][]string{}
	for _, n := range p.Spec.Network.Nodes {
		given[n.Name] = n.PodCIDRs
	}
	var windows []facts.Peer
	for i := range list.Items {
		windows = append(windows, peer(&list.Items[i], given[list.Items[i].Name]))
	}
	return clip(planner.LinuxRoutes(windows)), nil
}

// peer is a Windows node with the ranges that its pods have.
func peer(n *corev1.Node, given []string) facts.Peer {
	p := facts.Peer{Name: n.Name, OS: n.Labels[corev1.LabelOSStable], PodCIDRs: given}
	if len(given) == 0 {
		p.PodCIDRs = n.Spec.PodCIDRs
	}
	for _, a := range n.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is4() && a.Type == corev1.NodeInternalIP {
			p.InternalIP = cmp.Or(p.InternalIP, a.Address)
		}
	}
	return p
}

// clip keeps what the status has room for and says how much that is.
func clip(commands []string) []string {
	if len(commands) <= routeRoom {
		return commands
	}
	left := len(commands) - routeRoom + 1
	return append(commands[:routeRoom-1:routeRoom-1], fmt.Sprintf("# and %d more: each Windows node's .spec.podCIDR via its InternalIP", left))
}
