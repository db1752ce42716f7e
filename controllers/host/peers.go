package host

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/planner"
)

// Changes of other nodes are collected before they go into plans, until there was none for settlePeers, and for peersLimit at most: a hundred nodes that
// join one after the other are a few plans for each machine and not a hundred. A new node's pods are reached so much later.
const (
	settlePeers = 5 * time.Second
	peersLimit  = 30 * time.Second
)

// needsPeers reports whether the plan of a host in that mode depends on the other nodes.
func needsPeers(mode string) bool {
	return slices.Contains([]string{planner.ModeL2Bridge, planner.ModeFlannelHostGW, planner.ModeOverlay, planner.ModeFlannelVXLAN}, mode)
}

// neighborhood is what all Nodes say of the pod network, as of some seconds ago. All hosts share one copy, so that a burst of new nodes is one change
// for each of them. The zero neighborhood is ready.
type neighborhood struct {
	mu sync.Mutex
	// read is whether known has been read; changed is since when it is out of date, zero while it is not, and last when Nodes changed again.
	read          bool
	known         []facts.Peer
	changed, last time.Time
}

// change notes that Nodes have changed and reports whether that is news: then every host that depends on them is due once they have settled.
func (n *neighborhood) change(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = now
	if !n.changed.IsZero() {
		return false
	}
	n.changed = now
	return true
}

// peers returns what is known, read anew when changes have settled, and how long that will take otherwise.
func (n *neighborhood) peers(now time.Time, list func() ([]facts.Peer, error)) ([]facts.Peer, time.Duration, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.read {
		if n.changed.IsZero() {
			return n.known, 0, nil
		}
		if left := min(settlePeers-now.Sub(n.last), peersLimit-now.Sub(n.changed)); left > 0 {
			return n.known, left, nil
		}
	}
	known, err := list()
	if err != nil {
		return nil, 0, err
	}
	n.read, n.known, n.changed = true, known, time.Time{}
	return known, 0, nil
}

// gatherPeers reads the other nodes, where the plan depends on them and there is a Node to route from.
func (r *Reconciler) gatherPeers(ctx context.Context, p *pass) error {
	if p.cluster == nil || p.profile == nil || p.node == nil || !needsPeers(p.cluster.Cluster.Mode) {
		return nil
	}
	known, wait, err := r.Notifier.neighbors.peers(p.now, func() ([]facts.Peer, error) { return r.listPeers(ctx) })
	if err != nil {
		return err
	}
	p.peers, p.peersIn = peersOf(p.node.Name, known, p.profile.Spec.Network.Nodes), wait
	return nil
}

func (r *Reconciler) listPeers(ctx context.Context) ([]facts.Peer, error) {
	var nodes corev1.NodeList
	// The objects are only read, and there may be thousands.
	if err := r.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	out := make([]facts.Peer, 0, len(nodes.Items))
	for i := range nodes.Items {
		out = append(out, peerOf(&nodes.Items[i]))
	}
	slices.SortFunc(out, func(a, b facts.Peer) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// peersOf are the other nodes with what the profile says of them. known stays as it is, since others have it too.
func peersOf(self string, known []facts.Peer, overrides []v1alpha1.NetworkNode) []facts.Peer {
	said := make(map[string]v1alpha1.NetworkNode, len(overrides))
	for _, o := range overrides {
		said[o.Name] = o
	}
	out := make([]facts.Peer, 0, len(known))
	for _, p := range known {
		if p.Name == self {
			continue
		}
		if o, ok := said[p.Name]; ok {
			p = overridden(p, o)
		}
		out = append(out, p)
	}
	return out
}

func overridden(p facts.Peer, o v1alpha1.NetworkNode) facts.Peer {
	if len(o.PodCIDRs) > 0 {
		p.PodCIDRs = o.PodCIDRs
	}
	p.ProviderAddress = cmp.Or(o.ProviderAddress, p.ProviderAddress)
	if mac := hardwareAddress(o.VTEPMAC); mac != "" {
		// Whoever names the endpoint by hand does not mean the network that flannel is in.
		p.VTEPMAC, p.VNI = mac, 0
	}
	return p
}

// Annotations by which the nodes of a flannel network know each other (flannel-io/flannel pkg/subnet/kube).
const (
	flannelPrefix      = "flannel.alpha.coreos.com/"
	flannelBackendType = flannelPrefix + "backend-type"
	flannelBackendData = flannelPrefix + "backend-data"
	flannelPublicIP    = flannelPrefix + "public-ip"
	flannelManager     = flannelPrefix + "kube-subnet-manager"
)

// flannelData is flannelBackendData of backend vxlan.
type flannelData struct {
	VNI     int    `json:"VNI"`
	VtepMAC string `json:"VtepMAC"`
}

// peerOf is what a Node says. A node writes its own annotations, so that what is none of what it should be counts as not said.
func peerOf(n *corev1.Node) facts.Peer {
	p := facts.Peer{Name: n.Name, OS: cmp.Or(n.Labels[corev1.LabelOSStable], n.Status.NodeInfo.OperatingSystem), InternalIP: internalIPv4(n), PodCIDRs: n.Spec.PodCIDRs}
	if len(p.PodCIDRs) == 0 && n.Spec.PodCIDR != "" {
		p.PodCIDRs = []string{n.Spec.PodCIDR}
	}
	p.ProviderAddress = p.InternalIP
	if n.Annotations[flannelBackendType] != "vxlan" {
		return p
	}
	if ip, err := netip.ParseAddr(n.Annotations[flannelPublicIP]); err == nil && ip.Is4() && !ip.IsUnspecified() {
		p.ProviderAddress = ip.String()
	}
	var d flannelData
	if json.Unmarshal([]byte(n.Annotations[flannelBackendData]), &d) == nil {
		p.VTEPMAC, p.VNI = hardwareAddress(d.VtepMAC), d.VNI
	}
	return p
}

func internalIPv4(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP && ip.Unmap().Is4() && !ip.IsUnspecified() {
			return ip.Unmap().String()
		}
	}
	return ""
}

// hardwareAddress writes an address as plans do, "" for what is none.
func hardwareAddress(s string) string {
	a, err := net.ParseMAC(s)
	if err != nil || len(a) != 6 {
		return ""
	}
	return a.String()
}

// tellPeers adds to the host's status which nodes' pods its machine cannot reach by itself, and comes back when changes of other nodes have settled.
func (p *pass) tellPeers(o planner.Options) {
	if p.peersIn > 0 {
		p.lookAgain(p.peersIn)
	}
	for _, f := range planner.PeerFindings(p.cluster.Cluster, *p.snap.Facts, p.nodeFacts(), o) {
		p.preflight.message += "; " + f.Message
	}
}

// flannelLease are the annotations that make flannel on the Linux nodes send packets for this node's pods here. nil where there is no flannel, and before
// the machine has said what belongs into them; what the Node has stays then.
func (p *pass) flannelLease() map[string]string {
	if p.cluster == nil || p.managementIP == "" {
		return nil
	}
	lease := map[string]string{flannelManager: "true", flannelPublicIP: p.managementIP}
	switch p.cluster.Cluster.Mode {
	case planner.ModeFlannelHostGW:
		lease[flannelBackendType], lease[flannelBackendData] = "host-gw", "null"
	case planner.ModeFlannelVXLAN:
		mac := p.routerMAC()
		if mac == "" {
			return nil
		}
		data, err := json.Marshal(flannelData{VNI: p.cluster.Cluster.Plane.VNI, VtepMAC: mac})
		if err != nil {
			return nil
		}
		lease[flannelBackendType], lease[flannelBackendData] = "vxlan", string(data)
	default:
		return nil
	}
	return lease
}

// routerMAC is what the machine said last of its overlay's router; what the Node has after a restart of the operator, until the machine is heard of.
func (p *pass) routerMAC() string {
	if r := p.reported(); r.Host == string(p.host.UID) && r.DRMAC != "" {
		return hardwareAddress(r.DRMAC)
	}
	if p.node == nil {
		return ""
	}
	return peerOf(p.node).VTEPMAC
}

// hasLease reports whether the Node has what flannel shall know of it.
func (p *pass) hasLease() bool {
	for k, v := range p.flannelLease() {
		if p.node.Annotations[k] != v {
			return false
		}
	}
	return true
}

// peersChanged brings hosts whose plan depends on other nodes to the queue when what those say of the pod network changes. The first change brings them
// all, after the time in which others are collected; those others bring nobody.
func (r *Reconciler) peersChanged() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	changed := func(ctx context.Context, q queue) {
		if !r.Notifier.neighbors.change(r.Clock.Now()) {
			return
		}
		for _, req := range r.list(ctx, r.dependsOnPeers) {
			q.AddAfter(req, settlePeers)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, _ event.CreateEvent, q queue) { changed(ctx, q) },
		DeleteFunc: func(ctx context.Context, _ event.DeleteEvent, q queue) { changed(ctx, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, ok := e.ObjectOld.(*corev1.Node)
			after, also := e.ObjectNew.(*corev1.Node)
			if ok && also && !reflect.DeepEqual(peerOf(before), peerOf(after)) {
				changed(ctx, q)
			}
		},
	}
}

func (r *Reconciler) dependsOnPeers(h *v1alpha1.WindowsHost) bool {
	d, ok := r.Facts.Get(h.Spec.ProfileRef.Name)
	return ok && needsPeers(d.Cluster.Mode)
}
