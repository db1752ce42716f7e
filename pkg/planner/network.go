package planner

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"

	"github.com/windowsmachine/operator/pkg/cni"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Network modes, the same words as in a WindowsNodeProfile; its Auto is no mode here, since discovery has made one of it.
const (
	// ModeNone and ModeCalico leave HNS network and CNI configuration to something else.
	ModeNone   = "None"
	ModeCalico = "Calico"
	// ModeCustom places a given CNI configuration.
	ModeCustom = "Custom"
	// ModeL2Bridge and ModeFlannelHostGW bridge pods to the node's own link; nodes route to each other.
	ModeL2Bridge      = "L2Bridge"
	ModeFlannelHostGW = "FlannelHostGW"
	// ModeOverlay and ModeFlannelVXLAN send what goes to other nodes' pods by VXLAN.
	ModeOverlay      = "Overlay"
	ModeFlannelVXLAN = "FlannelVXLAN"
)

// CNI plugins of mode L2Bridge, the same words as in a WindowsNodeProfile.
const (
	PluginWinBridge = "WinBridge"
	PluginSDNBridge = "SDNBridge"
)

// Network is how pods get a network.
type Network struct {
	// Mode is one of Mode*; "" is ModeNone.
	Mode string
	// Name of the HNS network, of the CNI network and for kube-proxy; "" for NetworkName's.
	Name string
	// VSID of mode Overlay; flannel's is a fact of the cluster.
	VSID int
	// Plugin of mode L2Bridge is one of Plugin*; "" is PluginWinBridge.
	Plugin string
	// CNIConfig of ModeCustom, a .conf or .conflist.
	CNIConfig []byte
	// KubeProxy is whether kube-proxy is a service of the plan, see ManagesProxy; Build decides it by itself.
	KubeProxy bool
}

// NetworkName is the one name of a pod network: of the HNS network, of the CNI network and for kube-proxy. name is the profile's, "" for the
// one that goes with the mode; vni is flannel's, 0 where there is none. flannel itself names its networks so (flannel-io/flannel
// pkg/backend/{vxlan,hostgw} for Windows, kube-flannel-cfg's Backend.Name when it is not set), and Calico its own.
func NetworkName(mode, name string, vni int) string {
	derived := "windowsmachine"
	switch mode {
	case ModeFlannelVXLAN:
		derived = fmt.Sprintf("flannel.%d", vni)
	case ModeFlannelHostGW:
		derived = "cbr0"
	case ModeCalico:
		derived = "Calico"
	}
	return cmp.Or(name, derived)
}

// HostEndpointName is the name of the host's own endpoint in a bridged network; kube-proxy looks for it (rootHnsEndpointName).
func HostEndpointName(network string) string { return network + "_ep" }

// bridges reports whether a mode makes an HNS network of type L2Bridge.
func bridges(mode string) bool { return mode == ModeL2Bridge || mode == ModeFlannelHostGW }

// ownNetwork reports whether the plan makes the HNS network, which takes the node's pod CIDR.
func ownNetwork(n Network) bool { return bridges(n.Mode) || usesVXLAN(n.Mode) }

// hasCNI reports whether the plan brings CNI plugins.
func hasCNI(n Network) bool { return ownNetwork(n) || n.Mode == ModeCustom }

func knownMode(mode string) bool {
	return slices.Contains([]string{
		"", ModeNone, ModeCalico, ModeCustom, ModeL2Bridge, ModeFlannelHostGW, ModeOverlay, ModeFlannelVXLAN,
	}, mode)
}

// Flannel's defaults for Linux, 1 and 8472, cannot be used on Windows: HNS takes virtual subnets from 4096 on, and Windows Server 2019 one UDP port
// only (kubernetes.io, flannel's documentation of its backends).
const (
	minVNI    = 4096
	vxlanPort = 4789
)

// ErrFlannel: flannel's network, as it is configured, takes no Windows nodes.
var ErrFlannel = errors.New("flannel's network takes no Windows nodes")

// checkFlannel names what has to be changed in flannel's own configuration.
func checkFlannel(mode string, p facts.Plane) error {
	if mode != ModeFlannelVXLAN || p.VNI >= minVNI && p.Port == vxlanPort {
		return nil
	}
	return fmt.Errorf("%w: VNI %d and port %d in %s; set \"VNI\": %d and \"Port\": %d in the Backend of its net-conf.json, and restart flannel on all nodes",
		ErrFlannel, p.VNI, p.Port, cmp.Or(bounded(p.From), "ConfigMap kube-flannel-cfg"), minVNI, vxlanPort)
}

// networkNeeds returns the names of the facts without which the network cannot be planned.
func networkNeeds(c facts.Cluster, n Network, subnet string) []string {
	var out []string
	for _, f := range []struct {
		name    string
		missing bool
	}{
		{facts.PodCIDRs, ownNetwork(n) && len(c.PodCIDRs) == 0},
		{facts.ServiceCIDRs, ownNetwork(n) && len(c.ServiceCIDRs) == 0},
		{facts.PodNetwork, n.Mode == ModeFlannelVXLAN && c.Plane.VNI == 0},
		{"nodeSubnet", bridges(n.Mode) && subnet == ""},
	} {
		if f.missing {
			out = append(out, f.name)
		}
	}
	return out
}

// vsid is the virtual subnet of an overlay, 0 where there is none.
func vsid(c facts.Cluster, n Network) int {
	switch n.Mode {
	case ModeOverlay:
		return n.VSID
	case ModeFlannelVXLAN:
		return c.Plane.VNI
	}
	return 0
}

// networkParts are what a network adds to a plan.
type networkParts struct {
	networks []plan.Network
	routes   []plan.Route
	files    []plan.File
}

// network returns the HNS network, the routes and the CNI configuration, as far as the facts allow.
func (b *builder) network() (networkParts, error) {
	switch {
	case b.o.Network.Mode == ModeCustom:
		f, err := customCNI(b.o.Network.CNIConfig)
		return networkParts{files: f}, err
	case ownNetwork(b.o.Network) && b.joined:
		return b.joinedNetwork()
	}
	return networkParts{}, nil
}

// customCNI takes a given configuration as it is, under a name that says whether it is a list.
func customCNI(config []byte) ([]plan.File, error) {
	c, err := cni.Parse(config)
	if err != nil {
		return nil, fmt.Errorf("%w: network.cniConfig: %w", ErrOptions, err)
	}
	if c.List {
		return []plan.File{inline(cniConflist, config)}, nil
	}
	return []plan.File{inline(cniConf, config)}, nil
}

func (b *builder) joinedNetwork() (networkParts, error) {
	gateway, err := cni.Address(b.node.PodCIDR, cni.Gateway)
	if err != nil {
		return networkParts{}, fmt.Errorf("node's pod CIDR: %w", err)
	}
	conflist, err := b.conflist()
	if err != nil {
		return networkParts{}, err
	}
	if err := checkRanges(b.c, b.node.PodCIDR, b.subnet); err != nil {
		return networkParts{}, err
	}
	n := plan.Network{
		Name: b.o.Network.Name, Type: plan.NetworkL2Bridge, ManagementIP: b.o.NodeIP,
		Prefix: b.node.PodCIDR, Gateway: gateway.String(), Reach: reach(b.c.APIServer), VSID: vsid(b.c, b.o.Network),
	}
	out := networkParts{files: []plan.File{inline(cniConflist, conflist)}}
	reached, _, err := b.peers()
	if err != nil {
		return networkParts{}, err
	}
	if bridges(b.o.Network.Mode) {
		// conflist has made sure that the range is large enough.
		ep, _ := cni.Address(b.node.PodCIDR, cni.HostEndpoint)
		n.HostEndpoint = &plan.HostEndpoint{Name: HostEndpointName(n.Name), Address: ep.String()}
		out.routes = reached.routes
	} else {
		n.Type, n.Remotes = plan.NetworkOverlay, reached.remotes
	}
	out.networks = []plan.Network{n}
	return out, nil
}

func (b *builder) conflist() ([]byte, error) {
	render := cni.RenderL2Bridge
	switch {
	case usesVXLAN(b.o.Network.Mode):
		render = cni.RenderOverlay
	case b.o.Network.Plugin == PluginSDNBridge:
		render = cni.RenderSDNBridge
	}
	return render(cni.Params{
		Name: b.o.Network.Name, PodCIDR: b.node.PodCIDR, NodeIP: b.o.NodeIP, NodeSubnet: b.subnet, ClusterCIDRs: b.c.PodCIDRs,
		ServiceCIDRs: b.c.ServiceCIDRs, DNS: b.c.ClusterDNS, Domain: b.c.ClusterDomain, DataDir: cniState, DSR: b.dsr(),
	})
}

// ErrRanges: ranges of addresses overlap that must not.
var ErrRanges = errors.New("address ranges overlap")

// checkRanges refuses ranges with which packets would go to the wrong place: pods among Services, pods on the link of the nodes. What is no range is
// somebody else's to refuse.
func checkRanges(c facts.Cluster, podCIDR, subnet string) error {
	pods := named("the node's pod range", []string{podCIDR})
	others := named("the service range", c.ServiceCIDRs)
	if subnet != "" {
		others = append(others, named("the subnet of the node's adapter", []string{subnet})...)
	}
	for _, p := range pods {
		for _, o := range others {
			if p.prefix.Overlaps(o.prefix) {
				return fmt.Errorf("%w: %s %s and %s %s; the ranges of pods, Services and nodes must be apart: correct the one that is wrong "+
					"(spec.cluster of the WindowsNodeProfile where a range was discovered wrongly)", ErrRanges, p.name, p.prefix, o.name, o.prefix)
			}
		}
	}
	return nil
}

type namedPrefix struct {
	name   string
	prefix netip.Prefix
}

func named(name string, ranges []string) []namedPrefix {
	var out []namedPrefix
	for _, r := range ranges {
		if p, err := netip.ParsePrefix(r); err == nil {
			out = append(out, namedPrefix{name, p.Masked()})
		}
	}
	return out
}

// requires returns the capabilities that an agent needs for a network.
func requires(n Network) []string {
	switch {
	case bridges(n.Mode):
		return []string{plan.CapabilityBase, plan.CapabilityNetwork, plan.CapabilityHostEndpoint}
	case usesVXLAN(n.Mode):
		return []string{plan.CapabilityBase, plan.CapabilityNetwork, plan.CapabilityPeers}
	}
	return []string{plan.CapabilityBase}
}

// capabilities returns those that the plan itself uses, so that a plan that needs nothing new stays what it was for older agents.
func capabilities(n Network, parts networkParts) []string {
	out := []string{plan.CapabilityBase}
	if ownNetwork(n) {
		out = append(out, plan.CapabilityNetwork)
	}
	var endpoint, remotes bool
	for _, hns := range parts.networks {
		endpoint, remotes = endpoint || hns.HostEndpoint != nil, remotes || len(hns.Remotes) > 0
	}
	if endpoint {
		out = append(out, plan.CapabilityHostEndpoint)
	}
	if remotes || len(parts.routes) > plan.MaxItems {
		out = append(out, plan.CapabilityPeers)
	}
	return out
}

// reach is the host:port of an https URL, "" when it is none.
func reach(apiServer string) string {
	u, err := url.Parse(apiServer)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}
