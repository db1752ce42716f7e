package planner

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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
	host       plan.HostFacts
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
	if err := checkProxy(o.Network, o.KubeProxy, c.Plane); err != nil {
		return nil, err
	}
	o.Network.KubeProxy = ManagesProxy(o.Network, o.KubeProxy, c.Plane)
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
	if !knownMode(o.Network.Mode) {
		return nil, fmt.Errorf("%w: network mode %.40q", ErrOptions, o.Network.Mode)
	}
	if err := checkFlannel(o.Network.Mode, c.Plane); err != nil {
		return nil, err
	}
	o.Network.Name = NetworkName(o.Network.Mode, o.Network.Name, c.Plane.VNI)
	b := &builder{c: c, host: h, o: o, node: n, kubelet: kv, containerd: cv, subnet: subnet, pause: o.PauseImage}
	b.joined = n.Registered && (!ownNetwork(o.Network) || n.PodCIDR != "")
	if b.pause == "" {
		b.pause = PauseImage(kv)
	}
	return b, nil
}

// nodeSubnet is the subnet of the adapter that holds the node's address, for bridged networks only: pods reach it without
// address translation. Other modes do not depend on it, and so not on what the machine's adapters look like today.
func nodeSubnet(h plan.HostFacts, o Options) string {
	if !bridges(o.Network.Mode) || o.NodeIP == "" {
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
	out = append(out, networkNeeds(c, o.Network, subnet)...)
	need("nodeName", o.NodeName != "")
	need("nodeIP", o.NodeIP != "")
	need("kubeletVersion", o.KubeletVersion != "")
	for _, name := range Needs(o.Network) {
		need("payload/"+name, o.Payload[name].SHA256 != "")
	}
	return append(out, missingProxy(c, o.Network)...)
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
		Version: b.containerd, Pause: b.pause, CNIBin: cniBin(b.o.Network), CNIConf: cniConfig(b.o.Network), Registries: registriesDir,
	})
	if err != nil {
		return plan.Plan{}, err
	}
	network, err := b.network()
	if err != nil {
		return plan.Plan{}, err
	}
	services, err := b.services(in)
	if err != nil {
		return plan.Plan{}, err
	}
	p := plan.Empty()
	p.Requires = capabilities(b.o.Network, network)
	if !b.joined || b.node.Rejoin {
		p.Secrets = []plan.Secret{{Name: BootstrapSecret, Path: bootstrapFile}}
	}
	for _, f := range features() {
		p.Features = append(p.Features, plan.Feature{Name: f})
	}
	p.Directories = directories(b.o.Network)
	p.Files = slices.Concat(b.programs(), kubeletFiles, []plan.File{inline(containerdConf, containerdTOML)}, network.files)
	p.Firewall = firewall(b.o.Network)
	p.Defender = defender(p.Files)
	p.Networks, p.Routes = network.networks, network.routes
	p.Services = services
	return p, b.kubeProxy(&p)
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
	if usesVXLAN(n.Mode) {
		out = append(out, plan.FirewallRule{Name: "windowsmachine-vxlan", Protocol: "UDP", Port: vxlanPort})
	}
	return out
}
