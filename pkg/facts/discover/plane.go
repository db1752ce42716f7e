package discover

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
)

// plane is a pod network that shows in the cluster, and what it means for Windows nodes.
type plane struct {
	facts.Plane
	// mode is the one that makes Windows nodes part of it; "" when none does.
	mode v1alpha1.NetworkMode
	// refusal says why Windows nodes cannot be part of it as it is, and the way out; "" when they can.
	refusal string
	// doubts do not stop anything.
	doubts []string
}

// planes are the pod networks that show in the cluster, the one that counts first: flannel comes before Calico, which is beside it for
// network policies only (Canal), and both before those that are recognised by a ConfigMap, which may be left over.
func planes(s sources) []plane {
	if s.infra != nil {
		return []plane{openshiftPlane(s)}
	}
	var out []plane
	for _, find := range []func(sources) *plane{flannelPlane, calicoPlane} {
		if p := find(s); p != nil {
			out = append(out, *p)
		}
	}
	for _, o := range otherPlanes() {
		if _, found := s.configMaps[kubeSystem+"/"+o.configMap]; found {
			p := o.plane
			p.From = "ConfigMap " + kubeSystem + "/" + o.configMap
			out = append(out, p)
		}
	}
	return out
}

// openshiftPlane: whatever OpenShift's network operator runs, it brings the CNI configuration of Windows nodes too.
func openshiftPlane(s sources) plane {
	p := plane{mode: v1alpha1.NetworkNone, Plane: facts.Plane{Kind: facts.PlaneOther, From: "Infrastructure cluster"}}
	if s.network != nil && s.network.Status.NetworkType != "" {
		p.From, p.Backend = "Network cluster .status.networkType", s.network.Status.NetworkType
		if p.Backend == facts.PlaneOVNKubernetes {
			p.Kind, p.Backend = facts.PlaneOVNKubernetes, ""
		}
	}
	return p
}

// otherPlane is one that is recognised by a ConfigMap in kube-system.
type otherPlane struct {
	configMap string
	plane     plane
}

func otherPlanes() []otherPlane {
	const noWindows = " has no Windows nodes. Give the cluster a pod network that has, flannel (vxlan with VNI 4096 and port 4789, or host-gw) or Calico"
	return []otherPlane{
		{"cilium-config", plane{Plane: facts.Plane{Kind: facts.PlaneCilium}, refusal: "Cilium" + noWindows}},
		{"kube-router-cfg", plane{Plane: facts.Plane{Kind: facts.PlaneKubeRouter}, refusal: "kube-router" + noWindows}},
		{"antrea-config", plane{Plane: facts.Plane{Kind: facts.PlaneOther, Name: "Antrea"}, mode: v1alpha1.NetworkNone}},
		{"amazon-vpc-cni", plane{Plane: facts.Plane{Kind: facts.PlaneOther, Name: "Amazon VPC CNI"}, mode: v1alpha1.NetworkNone}},
	}
}

// Names of flannel's manifest and of the annotations by which its nodes find each other.
const (
	flannelKey     = "net-conf.json"
	flannelBackend = "flannel.alpha.coreos.com/backend-type"
	flannelData    = "flannel.alpha.coreos.com/backend-data"
	// flannelPublicIP is the address at which flannel on the node takes packets of others.
	flannelPublicIP = "flannel.alpha.coreos.com/public-ip"

	backendVXLAN  = "vxlan"
	backendHostGW = "host-gw"

	// What flannel takes on Linux when its configuration does not say: VNI 1, and the kernel's port.
	flannelVNI  = 1
	flannelPort = 8472
	// What HNS takes: a VSID of at least 4096 (lower ones are VLANs), and port 4789, which Windows Server 2019 cannot change.
	firstVNI  = 4096
	lastVNI   = 16777214
	vxlanPort = 4789
)

// flannelConfigMaps are where flannel keeps its configuration: its own manifest of today and of before, and Canal's.
func flannelConfigMaps() []client.ObjectKey {
	return []client.ObjectKey{
		{Namespace: "kube-flannel", Name: "kube-flannel-cfg"}, {Namespace: kubeSystem, Name: "kube-flannel-cfg"}, {Namespace: kubeSystem, Name: "canal-config"},
	}
}

// flannelConfig is net-conf.json.
type flannelConfig struct {
	Network     string
	EnableIPv4  *bool
	EnableIPv6  bool
	IPv6Network string
	Backend     struct {
		Type, Name         string
		VNI, Port          int
		DirectRouting, GBP bool
	}
}

func (c *flannelConfig) networks() []string {
	var out []string
	if c.EnableIPv4 == nil || *c.EnableIPv4 {
		out = append(out, c.Network)
	}
	if c.EnableIPv6 {
		out = append(out, c.IPv6Network)
	}
	return out
}

// flannelOf is flannel's configuration, nil when there is none that can be read.
func flannelOf(s sources) (from string, _ *flannelConfig) {
	for _, key := range flannelConfigMaps() {
		text := s.configMaps[key.String()][flannelKey]
		c := &flannelConfig{}
		if text != "" && len(text) <= maxText && json.Unmarshal([]byte(text), c) == nil {
			return "ConfigMap " + key.String(), c
		}
	}
	return "", nil
}

// flannelPlane is flannel by its ConfigMap, else by what its nodes say of themselves: k3s and others run it without one.
func flannelPlane(s sources) *plane {
	said := flannelNodes(s)
	from, c := flannelOf(s)
	switch {
	case c != nil:
		return flannelByConfig(from, c, said).elsewhere(s.nodes)
	case len(said) > 0:
		return flannelByNodes(said).elsewhere(s.nodes)
	}
	return nil
}

// elsewhere adds the doubt about nodes whose flannel took another interface than the one with the Node's address, mostly the first one of
// several (flannel#1742): Windows nodes would send there what nobody takes.
func (p *plane) elsewhere(nodes []nodeView) *plane {
	var out []string
	for _, n := range nodes {
		if n.backend != "" && n.publicIP != "" && len(n.addresses) > 0 && !slices.Contains(n.addresses, n.publicIP) {
			out = append(out, n.name+" ("+bounded(n.publicIP, maxWord)+")")
		}
	}
	if len(out) > 0 {
		p.doubts = append(p.doubts, fmt.Sprintf("annotation %s is no address of its Node on %s: start flannel there with --iface of the interface that has the Node's InternalIP, or with --public-ip",
			flannelPublicIP, bounded(strings.Join(out, ", "), maxNames)))
	}
	return p
}

func flannelByConfig(from string, c *flannelConfig, said []flannelNode) *plane {
	p := &plane{Plane: facts.Plane{
		Kind: facts.PlaneFlannel, From: from + " key " + flannelKey, Name: c.Backend.Name, Backend: cmp.Or(strings.ToLower(c.Backend.Type), "udp"),
	}}
	if p.Backend == backendVXLAN {
		p.VNI, p.Port = cmp.Or(c.Backend.VNI, flannelVNI), cmp.Or(c.Backend.Port, flannelPort)
	}
	p.suit(vxlanLines(c), restart(from))
	if stale := p.stale(said); len(stale) > 0 {
		p.doubts = append(p.doubts, fmt.Sprintf("%s is not yet what Nodes %s say in annotation %s: restart flannel: %s",
			p.From, bounded(strings.Join(stale, ", "), maxNames), flannelData, restart(from)))
	}
	return p
}

// vxlanLines are the lines of Backend that have to be other than they are.
func vxlanLines(c *flannelConfig) []string {
	var out []string
	if vni := cmp.Or(c.Backend.VNI, flannelVNI); vni < firstVNI || vni > lastVNI {
		out = append(out, fmt.Sprintf(`"VNI": %d`, firstVNI))
	}
	if cmp.Or(c.Backend.Port, flannelPort) != vxlanPort {
		out = append(out, fmt.Sprintf(`"Port": %d`, vxlanPort))
	}
	if c.Backend.DirectRouting {
		out = append(out, `"DirectRouting": false`)
	}
	if c.Backend.GBP {
		out = append(out, `"GBP": false`)
	}
	return out
}

// suit says what mode goes with the backend and what has to be changed before it does.
func (p *plane) suit(lines []string, restart string) {
	switch {
	case p.Backend == backendHostGW:
		p.mode = v1alpha1.NetworkFlannelHostGW
	case p.Backend != backendVXLAN:
		p.refusal = fmt.Sprintf("%s: flannel's backend %s has no Windows nodes: change it to vxlan (with VNI %d and Port %d) or host-gw", p.From, bounded(p.Backend, maxWord), firstVNI, vxlanPort)
	default:
		p.mode = v1alpha1.NetworkFlannelVXLAN
		if len(lines) > 0 {
			p.refusal = fmt.Sprintf("%s: flannel uses VNI %d and UDP port %d, and Windows needs a VNI of %d to %d, port %d and neither DirectRouting nor GBP. Set in its Backend %s; then restart flannel on all nodes: %s",
				p.From, p.VNI, p.Port, firstVNI, lastVNI, vxlanPort, strings.Join(lines, " and "), restart)
		}
	}
}

// restart is the command that makes flannel read its configuration again.
func restart(from string) string {
	if strings.Contains(from, "canal") {
		return "kubectl -n kube-system rollout restart daemonset canal"
	}
	namespace, _, _ := strings.Cut(strings.TrimPrefix(from, "ConfigMap "), "/")
	return "kubectl -n " + namespace + " rollout restart daemonset kube-flannel-ds"
}

// flannelNode is what flannel on one Linux node says of itself.
type flannelNode struct {
	name, backend string
	// vni is 0 where it does not say.
	vni int
}

func flannelNodes(s sources) []flannelNode {
	var out []flannelNode
	for _, n := range s.nodes {
		if n.backend == "" {
			continue
		}
		var data struct{ VNI int }
		if len(n.data) > maxWord || json.Unmarshal([]byte(n.data), &data) != nil {
			data.VNI = 0
		}
		out = append(out, flannelNode{name: n.name, backend: strings.ToLower(n.backend), vni: data.VNI})
	}
	return out
}

// stale are the nodes whose flannel runs with another configuration.
func (p *plane) stale(said []flannelNode) []string {
	var out []string
	for _, n := range said {
		if n.backend != p.Backend || p.Backend == backendVXLAN && n.vni != 0 && n.vni != p.VNI {
			out = append(out, n.name)
		}
	}
	return out
}

// flannelByNodes takes the first node's word. The port is nowhere to be seen.
func flannelByNodes(said []flannelNode) *plane {
	p := &plane{Plane: facts.Plane{Kind: facts.PlaneFlannel, From: "Node " + said[0].name + " annotation " + flannelBackend, Backend: said[0].backend}}
	var c flannelConfig
	if p.Backend == backendVXLAN {
		p.VNI = cmp.Or(said[0].vni, flannelVNI)
		c.Backend.VNI, c.Backend.Port = p.VNI, vxlanPort
	}
	if p.suit(vxlanLines(&c), "the configuration that flannel was started with holds it"); p.Backend == backendVXLAN && p.refusal != "" {
		p.refusal = fmt.Sprintf(`%s: flannel uses VNI %d, and Windows needs one of %d to %d and UDP port %d: set "VNI": %d and "Port": %d in the Backend of the net-conf.json that flannel is started with, and restart it on all nodes`,
			p.From, p.VNI, firstVNI, lastVNI, vxlanPort, firstVNI, vxlanPort)
	}
	if p.mode == v1alpha1.NetworkFlannelVXLAN && p.refusal == "" {
		p.Port = vxlanPort
		p.doubts = append(p.doubts, fmt.Sprintf("no ConfigMap kube-flannel-cfg shows the UDP port of flannel: it must be %d", vxlanPort))
	}
	if stale := p.stale(said); len(stale) > 0 {
		p.doubts = append(p.doubts, fmt.Sprintf("%s says %s with VNI %d, Nodes %s say otherwise: restart flannel there",
			p.From, bounded(p.Backend, maxWord), p.VNI, bounded(strings.Join(stale, ", "), maxNames)))
	}
	return p
}

// Bounds of text that came from elsewhere within a sentence.
const (
	maxNames = 256
	maxWord  = 256
)

// calicoObjects are Calico's, nil or empty where there are none.
type calicoObjects struct {
	pools        []calicoPool
	installation *calicoInstallation
	felix        *calicoFelix
	ipam         *calicoIPAM
}

type named struct {
	Name string `json:"name"`
}

type calicoPool struct {
	Metadata named `json:"metadata"`
	Spec     struct {
		CIDR        string   `json:"cidr"`
		VXLANMode   string   `json:"vxlanMode"`
		IPIPMode    string   `json:"ipipMode"`
		Disabled    bool     `json:"disabled"`
		AllowedUses []string `json:"allowedUses"`
	} `json:"spec"`
}

// forPods says whether pods get addresses from the pool.
func (p calicoPool) forPods() bool {
	return !p.Spec.Disabled && (len(p.Spec.AllowedUses) == 0 || slices.Contains(p.Spec.AllowedUses, "Workload"))
}

func (p calicoPool) encapsulation() string {
	switch {
	case p.Spec.VXLANMode != "" && p.Spec.VXLANMode != "Never":
		return "VXLAN"
	case p.Spec.IPIPMode != "" && p.Spec.IPIPMode != "Never":
		return "IPIP"
	}
	return "None"
}

// calicoInstallation is the Installation that Calico's operator works from.
type calicoInstallation struct {
	Metadata named `json:"metadata"`
	Spec     struct {
		CNI struct {
			Type string `json:"type"`
		} `json:"cni"`
		CalicoNetwork struct {
			WindowsDataplane string `json:"windowsDataplane"`
			IPPools          []struct {
				CIDR string `json:"cidr"`
			} `json:"ipPools"`
		} `json:"calicoNetwork"`
	} `json:"spec"`
}

func (i *calicoInstallation) ranges() []string {
	var out []string
	for _, p := range i.Spec.CalicoNetwork.IPPools {
		out = append(out, p.CIDR)
	}
	return out
}

type calicoFelix struct {
	Spec struct {
		VXLANVNI  int `json:"vxlanVNI"`
		VXLANPort int `json:"vxlanPort"`
	} `json:"spec"`
}

type calicoIPAM struct {
	Spec struct {
		StrictAffinity bool `json:"strictAffinity"`
	} `json:"spec"`
}

// podPools are the pools for pods, sorted by name.
func (c calicoObjects) podPools() []calicoPool {
	out := slices.DeleteFunc(slices.Clone(c.pools), func(p calicoPool) bool { return !p.forPods() })
	slices.SortFunc(out, func(a, b calicoPool) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	return out
}

// ranges are those of the pools; none where the pods get their addresses from another CNI.
func (c calicoObjects) ranges() []string {
	var out []string
	for _, p := range c.podPools() {
		out = append(out, p.Spec.CIDR)
	}
	return out
}

// calicoPlane is Calico where it gives pods their addresses: kinds that are there without a pool are left over, or do network policies only.
func calicoPlane(s sources) *plane {
	i := s.calico.installation
	if i != nil && i.Spec.CNI.Type != "" && i.Spec.CNI.Type != "Calico" {
		return &plane{mode: v1alpha1.NetworkNone, Plane: facts.Plane{
			Kind: facts.PlaneOther, Name: bounded(i.Spec.CNI.Type, maxWord), From: "Installation " + i.Metadata.Name + " .spec.cni.type",
		}}
	}
	pools := s.calico.podPools()
	if len(pools) == 0 && i == nil {
		return nil
	}
	p := &plane{mode: v1alpha1.NetworkCalico, Plane: facts.Plane{Kind: facts.PlaneCalico}}
	if i != nil {
		p.From = "Installation " + i.Metadata.Name
	}
	if len(pools) > 0 {
		p.From, p.Backend = "IPPool "+pools[0].Metadata.Name, backendOf(pools)
	}
	if p.Backend == "VXLAN" {
		p.VNI, p.Port = firstVNI, vxlanPort // Calico's own defaults
		if f := s.calico.felix; f != nil {
			p.VNI, p.Port = cmp.Or(f.Spec.VXLANVNI, p.VNI), cmp.Or(f.Spec.VXLANPort, p.Port)
		}
	}
	p.doubts = calicoDoubts(s.calico, *p, pools)
	return p
}

func backendOf(pools []calicoPool) string {
	for _, want := range []string{"VXLAN", "IPIP"} {
		if slices.ContainsFunc(pools, func(p calicoPool) bool { return p.encapsulation() == want }) {
			return want
		}
	}
	return "None"
}

// calicoDoubts are the settings that keep Calico for Windows from working; Calico brings the network, so that they are told only.
func calicoDoubts(c calicoObjects, p plane, pools []calicoPool) []string {
	var out []string
	for _, pool := range pools {
		if pool.encapsulation() == "IPIP" {
			out = append(out, fmt.Sprintf("IPPool %s has ipipMode %s, which Windows nodes do not have: set vxlanMode Always and ipipMode Never, or no encapsulation with BGP",
				pool.Metadata.Name, bounded(pool.Spec.IPIPMode, maxWord)))
		}
	}
	if p.Backend == "VXLAN" && (p.VNI < firstVNI || p.Port != vxlanPort) {
		out = append(out, fmt.Sprintf("FelixConfiguration default has VNI %d and port %d, and Windows needs %d or more and %d: kubectl patch felixconfigurations default --type merge -p '{\"spec\":{\"vxlanVNI\":%d,\"vxlanPort\":%d}}'",
			p.VNI, p.Port, firstVNI, vxlanPort, firstVNI, vxlanPort))
	}
	if i := c.installation; i != nil && i.Spec.CalicoNetwork.WindowsDataplane != "HNS" {
		out = append(out, fmt.Sprintf("Calico's operator does not serve Windows nodes yet: kubectl patch installation %s --type merge -p '{\"spec\":{\"calicoNetwork\":{\"windowsDataplane\":\"HNS\"}}}', with spec.serviceCIDRs and ConfigMap kubernetes-services-endpoint beside it",
			i.Metadata.Name))
	}
	if c.installation == nil && (c.ipam == nil || !c.ipam.Spec.StrictAffinity) {
		out = append(out, "Calico may lend addresses of one node's blocks to another, which Windows nodes cannot serve: calicoctl ipam configure --strictaffinity=true")
	}
	return out
}

// convert reads fields out of an object that has no Go type here.
func convert(object map[string]any, into any) error {
	b, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encoding it: %w", err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("reading its fields: %w", err)
	}
	return nil
}
