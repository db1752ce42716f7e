package planner

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/cni"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/pkg/plan"
)

// MissingError names every fact without which there is no plan, at once: names of facts (facts.*), "nodeName", "nodeIP",
// "nodeSubnet", "kubeletVersion", and "payload/<file>".
type MissingError struct{ Facts []string }

// Error implements error.
func (e *MissingError) Error() string { return "missing facts: " + strings.Join(e.Facts, ", ") }

// ErrOptions: an option has a value that no plan can be made of.
var ErrOptions = errors.New("options are invalid")

// Build returns the plan of a machine. It is pure and deterministic. Facts grow and the plan grows with them: before the node
// is registered the plan holds the place of the bootstrap kubeconfig; once it is registered, and has its pod CIDR where the
// mode needs one, that place goes and the network comes. In between, registered but without a pod CIDR, the plan stays
// what it was, so that a first configuration takes exactly two plans. The plan has passed Validate.
func Build(c facts.Cluster, h plan.HostFacts, n facts.Node, o Options) (plan.Plan, error) {
	b, err := newBuilder(c, h, n, o)
	if err != nil {
		return plan.Plan{}, fmt.Errorf("building plan: %w", err)
	}
	p, err := b.plan()
	if err != nil {
		return plan.Plan{}, fmt.Errorf("building plan: %w", err)
	}
	if err := p.Validate(); err != nil {
		return plan.Plan{}, fmt.Errorf("building plan: %w", err)
	}
	return p, nil
}

// builder holds what was derived from the input.
type builder struct {
	c          facts.Cluster
	o          Options
	node       facts.Node
	kubelet    kubelet.Version
	containerd kubelet.Version
	subnet     string
	// joined: the node has all that the network needs.
	joined bool
	pause  string
}

func newBuilder(c facts.Cluster, h plan.HostFacts, n facts.Node, o Options) (*builder, error) {
	if o.KubeletVersion == "" {
		o.KubeletVersion = o.Payload[BlobKubelet].Version
	}
	subnet := nodeSubnet(h, o)
	if missing := missingFacts(c, o, subnet); len(missing) > 0 {
		return nil, &MissingError{Facts: missing}
	}
	kv, err := kubelet.ParseVersion(o.KubeletVersion)
	if err != nil {
		return nil, fmt.Errorf("%w: kubelet version: %w", ErrOptions, err)
	}
	cv, err := kubelet.ParseVersion(o.Payload[BlobContainerd].Version)
	if err != nil {
		return nil, fmt.Errorf("%w: containerd version: %w", ErrOptions, err)
	}
	if !slices.Contains([]string{"", ModeNone, ModeCustom, ModeL2Bridge, ModeOverlay}, o.Network.Mode) {
		return nil, fmt.Errorf("%w: network mode %.40q", ErrOptions, o.Network.Mode)
	}
	b := &builder{c: c, o: o, node: n, kubelet: kv, containerd: cv, subnet: subnet, pause: o.PauseImage}
	b.joined = n.Registered && (!ownNetwork(o.Network) || n.PodCIDR != "")
	if b.pause == "" {
		b.pause = PauseImage(kv)
	}
	return b, nil
}

// nodeSubnet is the subnet of the adapter that holds the node's address, for L2Bridge networks only: pods reach it without
// address translation. Other modes do not depend on it, and so not on what the machine's adapters look like today.
func nodeSubnet(h plan.HostFacts, o Options) string {
	if o.Network.Mode != ModeL2Bridge || o.NodeIP == "" {
		return ""
	}
	a, err := PickNodeIP(o.NodeIP, h.Addresses)
	if err != nil {
		return ""
	}
	return a.Prefix.String()
}

func missingFacts(c facts.Cluster, o Options, subnet string) []string {
	var out []string
	need := func(name string, there bool) {
		if !there {
			out = append(out, name)
		}
	}
	dns, domain := kubelet.Says(c.KubeletConfig)
	need(facts.KubeletClientCA, len(c.KubeletClientCA) > 0)
	need(facts.ClusterDNS, len(c.ClusterDNS) > 0 || dns)
	need(facts.ClusterDomain, c.ClusterDomain != "" || domain)
	if ownNetwork(o.Network) {
		need(facts.PodCIDRs, len(c.PodCIDRs) > 0)
		need(facts.ServiceCIDRs, len(c.ServiceCIDRs) > 0)
	}
	need("nodeName", o.NodeName != "")
	need("nodeIP", o.NodeIP != "")
	need("nodeSubnet", subnet != "" || o.Network.Mode != ModeL2Bridge)
	need("kubeletVersion", o.KubeletVersion != "")
	for _, name := range Needs(o.Network) {
		need("payload/"+name, o.Payload[name].SHA256 != "")
	}
	return out
}

func (b *builder) plan() (plan.Plan, error) {
	in, err := b.kubeletInput()
	if err != nil {
		return plan.Plan{}, err
	}
	kubeletFiles, err := b.kubeletFiles(in)
	if err != nil {
		return plan.Plan{}, err
	}
	containerdTOML, err := RenderContainerd(Containerd{
		Version: b.containerd, Pause: b.pause, CNIBin: cniDir, CNIConf: cniConfDir, Registries: registriesDir,
	})
	if err != nil {
		return plan.Plan{}, err
	}
	network, networkFiles, err := b.network()
	if err != nil {
		return plan.Plan{}, err
	}
	services, err := b.services(in)
	if err != nil {
		return plan.Plan{}, err
	}
	p := plan.Empty()
	p.Requires = requires(b.o.Network)
	if !b.joined || b.node.Rejoin {
		p.Secrets = []plan.Secret{{Name: BootstrapSecret, Path: bootstrapFile}}
	}
	for _, f := range features() {
		p.Features = append(p.Features, plan.Feature{Name: f})
	}
	p.Directories = directories(b.o.Network)
	p.Files = slices.Concat(b.programs(), kubeletFiles, []plan.File{inline(containerdConf, containerdTOML)}, networkFiles)
	p.Firewall = firewall(b.o.Network)
	p.Defender = defender(p.Files)
	p.Networks = network
	p.Services = services
	return p, nil
}

func inline(path string, content []byte) plan.File {
	return plan.File{Path: path, Access: plan.AccessPublic, Inline: content}
}

func (b *builder) programs() []plan.File {
	var out []plan.File
	for _, name := range slices.Concat(Needs(b.o.Network), optional()) {
		if blob := b.o.Payload[name]; blob.SHA256 != "" {
			out = append(out, plan.File{Path: places()[name], Access: plan.AccessPublic, Blob: blob.SHA256})
		}
	}
	return out
}

// defender excludes the programs of the plan, whose every start would be scanned, and the image layers.
func defender(files []plan.File) []plan.DefenderExclusion {
	var out []plan.DefenderExclusion
	for _, f := range files {
		if f.Blob != "" {
			out = append(out, plan.DefenderExclusion{Process: f.Path})
		}
	}
	return append(out, plan.DefenderExclusion{Path: containerdRoot})
}

func firewall(n Network) []plan.FirewallRule {
	out := []plan.FirewallRule{{Name: "windowsmachine-kubelet", Protocol: "TCP", Port: 10250}}
	if n.Mode == ModeOverlay {
		// Windows Server 2019 knows this port only.
		out = append(out, plan.FirewallRule{Name: "windowsmachine-vxlan", Protocol: "UDP", Port: 4789})
	}
	return out
}

// network returns the HNS network and the CNI configuration, as far as the facts allow.
func (b *builder) network() ([]plan.Network, []plan.File, error) {
	switch {
	case b.o.Network.Mode == ModeCustom:
		f, err := customCNI(b.o.Network.CNIConfig)
		return nil, f, err
	case ownNetwork(b.o.Network) && b.joined:
		return b.joinedNetwork()
	}
	return nil, nil, nil
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

func (b *builder) joinedNetwork() ([]plan.Network, []plan.File, error) {
	gateway, err := cni.Address(b.node.PodCIDR, cni.Gateway)
	if err != nil {
		return nil, nil, fmt.Errorf("node's pod CIDR: %w", err)
	}
	n := plan.Network{
		Name: b.o.Network.Name, Type: plan.NetworkL2Bridge, ManagementIP: b.o.NodeIP,
		Prefix: b.node.PodCIDR, Gateway: gateway.String(), Reach: reach(b.c.APIServer),
	}
	render := cni.RenderL2Bridge
	if b.o.Network.Mode == ModeOverlay {
		n.Type, n.VSID = plan.NetworkOverlay, b.o.Network.VSID
		render = cni.RenderOverlay
	}
	conflist, err := render(cni.Params{
		Name: n.Name, PodCIDR: b.node.PodCIDR, NodeIP: b.o.NodeIP, NodeSubnet: b.subnet, ClusterCIDRs: b.c.PodCIDRs,
		ServiceCIDRs: b.c.ServiceCIDRs, DNS: b.c.ClusterDNS, Domain: b.c.ClusterDomain, DataDir: cniState,
	})
	if err != nil {
		return nil, nil, err
	}
	return []plan.Network{n}, []plan.File{inline(cniConflist, conflist)}, nil
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
