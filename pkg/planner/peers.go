package planner

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Codes of findings about other nodes.
const (
	// CodePeerRange surfaces when nodes have pod ranges that overlap; no route leads to either.
	CodePeerRange Code = "PeerRangesOverlap"
	// CodePeerElsewhere surfaces when nodes are not on the link of this one, so that a route of this machine cannot lead to them.
	CodePeerElsewhere Code = "PeersOnOtherLinks"
	// CodePeerUnknown surfaces when it is not known where the packets for nodes' pods shall go.
	CodePeerUnknown Code = "PeersUnknown"
	// CodePeerVNI surfaces when nodes say that they are in another virtual network.
	CodePeerVNI Code = "PeersInOtherNetwork"
)

// reached is how the pods of the other nodes are reached.
type reached struct {
	routes  []plan.Route
	remotes []plan.RemoteSubnet
}

// peers decides how the other nodes' pods are reached. A range of theirs that overlaps this node's own is an error: one of the two is wrong, and this
// machine would take its neighbour's packets.
func (b *builder) peers() (reached, []Finding, error) {
	own, err := netip.ParsePrefix(b.node.PodCIDR)
	if err != nil {
		return reached{}, nil, fmt.Errorf("node's pod CIDR: %w", err)
	}
	ranges, findings, err := peerRanges(own, b.node.Peers)
	if err != nil {
		return reached{}, nil, err
	}
	if bridges(b.o.Network.Mode) {
		routes, more := Routes(b.subnet, ranges)
		return reached{routes: routes}, slices.Concat(findings, more), nil
	}
	remotes, more := Remotes(vsid(b.c, b.o.Network), b.o.NodeIP, ranges)
	return reached{remotes: remotes}, slices.Concat(findings, more), nil
}

// PeerFindings says what of the other nodes' pods this machine cannot reach by itself, and what would help. There is nothing to say before the machine
// has its network, and in modes that do not depend on other nodes.
func PeerFindings(c facts.Cluster, h plan.HostFacts, n facts.Node, o Options) []Finding {
	b, err := newBuilder(c, h, n, o)
	if err != nil || !b.joined || !ownNetwork(o.Network) {
		return nil
	}
	_, findings, err := b.peers()
	if err != nil {
		return nil
	}
	return findings
}

// PeerRange is one pod range of another node.
type PeerRange struct {
	facts.Peer
	Prefix netip.Prefix
}

// peerRanges returns the IPv4 pod ranges of the peers, ordered by address, without those that overlap each other.
func peerRanges(own netip.Prefix, peers []facts.Peer) ([]PeerRange, []Finding, error) {
	var all []PeerRange
	var without []string
	for _, p := range peers {
		ranges := ipv4Ranges(p)
		if len(ranges) == 0 {
			without = append(without, p.Name)
		}
		for _, r := range ranges {
			if r.Overlaps(own) {
				return nil, nil, fmt.Errorf("%w: this node's pod range %s and that of Node %s, %s; if Node %s really has another one, set it in "+
					"spec.network.nodes of the WindowsNodeProfile, else give one of the two nodes another range", ErrRanges, own, bounded(p.Name), r, bounded(p.Name))
			}
			all = append(all, PeerRange{p, r})
		}
	}
	slices.SortStableFunc(all, func(a, b PeerRange) int {
		if c := a.Prefix.Addr().Compare(b.Prefix.Addr()); c != 0 {
			return c
		}
		return a.Prefix.Bits() - b.Prefix.Bits()
	})
	apart, overlapping := apartOnly(all)
	var findings []Finding
	if len(without) > 0 {
		findings = append(findings, warn(CodePeerUnknown, "%s: no pod range is known, so their pods cannot be reached from this machine; it is in spec.podCIDR of "+
			"the Node, or is set in spec.network.nodes of the WindowsNodeProfile", nodeList(without))...)
	}
	if len(overlapping) > 0 {
		findings = append(findings, warn(CodePeerRange, "%s: their pod ranges overlap, so no route leads to them; set the right ones in spec.network.nodes of the "+
			"WindowsNodeProfile", nodeList(overlapping))...)
	}
	return apart, findings, nil
}

func ipv4Ranges(p facts.Peer) []netip.Prefix {
	var out []netip.Prefix
	for _, c := range p.PodCIDRs {
		if r, err := netip.ParsePrefix(c); err == nil && r.Addr().Is4() {
			out = append(out, r.Masked())
		}
	}
	return out
}

// apartOnly takes ranges in order of address and returns those that overlap no other, and the nodes of the others. Prefixes either hold each other or are
// apart, so that it is enough to compare each with the widest one before it.
func apartOnly(all []PeerRange) (apart []PeerRange, overlapping []string) {
	bad := make([]bool, len(all))
	widest := 0
	for i := 1; i < len(all); i++ {
		switch {
		case all[widest].Prefix.Overlaps(all[i].Prefix):
			bad[widest], bad[i] = true, true
		default:
			widest = i
		}
	}
	for i, r := range all {
		if bad[i] {
			overlapping = append(overlapping, r.Name)
			continue
		}
		apart = append(apart, r)
	}
	return apart, overlapping
}

// Routes returns the routes to the pods of the nodes on this node's own link; subnet is that of its adapter. A router or the cloud's table has to carry
// what goes to the others.
func Routes(subnet string, ranges []PeerRange) ([]plan.Route, []Finding) {
	var out []plan.Route
	var elsewhere []string
	link, err := netip.ParsePrefix(subnet)
	for _, r := range ranges {
		hop, hopErr := netip.ParseAddr(r.InternalIP)
		if err != nil || hopErr != nil || !link.Contains(hop) {
			elsewhere = append(elsewhere, r.Name)
			continue
		}
		out = append(out, plan.Route{Destination: r.Prefix.String(), NextHop: hop.String()})
	}
	if len(elsewhere) == 0 {
		return out, nil
	}
	return out, warn(CodePeerElsewhere, "%s: not on this node's link %s, so that a route of this machine cannot lead to their pods; the router between the "+
		"links, or the cloud's route table, needs a route for each node's pod range by the node's InternalIP (and IP forwarding on its interface)",
		nodeList(elsewhere), subnet)
}

// Remotes returns where an overlay sends what goes to the other nodes' pods; nodeIP is this node's own address, which is nobody else's.
func Remotes(vni int, nodeIP string, ranges []PeerRange) ([]plan.RemoteSubnet, []Finding) {
	var out []plan.RemoteSubnet
	var unknown, other []string
	for _, r := range ranges {
		switch {
		case r.VTEPMAC == "" || r.ProviderAddress == "" || r.ProviderAddress == nodeIP:
			unknown = append(unknown, r.Name)
		case r.VNI != 0 && r.VNI != vni:
			other = append(other, fmt.Sprintf("%s (%d)", r.Name, r.VNI))
		default:
			out = append(out, plan.RemoteSubnet{Prefix: r.Prefix.String(), ProviderAddress: r.ProviderAddress, MAC: r.VTEPMAC, VSID: vni})
		}
	}
	var findings []Finding
	if len(unknown) > 0 {
		findings = append(findings, warn(CodePeerUnknown, "%s: nothing says where they receive VXLAN, so that their pods cannot be reached; flannel says it in "+
			"annotations of the Node once it runs there, and without flannel it is set in spec.network.nodes of the WindowsNodeProfile", nodeList(unknown))...)
	}
	if len(other) > 0 {
		findings = append(findings, warn(CodePeerVNI, "%s: they are in another virtual network than %d; restart flannel there after a change of its "+
			"net-conf.json", nodeList(other), vni)...)
	}
	return out, findings
}

// nodeList names some nodes and how many more there are.
func nodeList(names []string) string {
	const most = 5
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	shown := names[:min(len(names), most)]
	for i, n := range shown {
		shown[i] = bounded(n)
	}
	text := "nodes " + strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// LinuxRoutes returns the commands, one for each pod range of a Windows node among the peers, that give a Linux node on the same link the route to its
// pods. Nothing on a Linux node knows of them in mode L2Bridge.
func LinuxRoutes(peers []facts.Peer) []string {
	var out []string
	for _, p := range peers {
		hop, err := netip.ParseAddr(p.InternalIP)
		if err != nil || p.OS != "windows" {
			continue
		}
		for _, r := range ipv4Ranges(p) {
			out = append(out, fmt.Sprintf("ip route replace %s via %s", r, hop))
		}
	}
	slices.Sort(out)
	return out
}
