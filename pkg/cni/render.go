package cni

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// renderVersion is the specification version that is written; containerd 1.6 and newer speak it, and so do the plugins.
const renderVersion = "1.0.0"

// Params are what a rendered configuration depends on.
type Params struct {
	// Name of the CNI network, which must be the name of the HNS network: the plugins look for it.
	Name string
	// PodCIDR of the node, IPv4.
	PodCIDR string
	// NodeIP of the node, and the subnet of the adapter that holds it, both IPv4. RenderOverlay needs no NodeSubnet.
	NodeIP, NodeSubnet string
	// ClusterCIDRs of all pods and ServiceCIDRs, IPv4; others are left out, since the plugins do IPv4 only.
	ClusterCIDRs, ServiceCIDRs []string
	// DNS addresses and Domain of the cluster, used where the runtime does not pass them for a pod.
	DNS    []string
	Domain string
	// DataDir is where host-local keeps its leases.
	DataDir string
	// DSR is whether kube-proxy uses direct server return: packets to Services are then no longer routed to the host, and a pod that reaches
	// itself through a Service needs loopbackDSR.
	DSR bool
}

type conf struct {
	CNIVersion string   `json:"cniVersion"`
	Name       string   `json:"name"`
	Plugins    []plugin `json:"plugins"`
}

type plugin struct {
	Type string `json:"type"`
	// APIVersion 2 is HCN; containerd has no pods with network on HNS v1 policies.
	APIVersion   int             `json:"apiVersion,omitempty"`
	Capabilities map[string]bool `json:"capabilities"`
	IPMasq       bool            `json:"ipMasq,omitempty"`
	LoopbackDSR  bool            `json:"loopbackDSR,omitempty"`
	IPAM         ipam            `json:"ipam"`
	DNS          dns             `json:"dns"`
	Policies     []policy        `json:"policies,omitempty"`
	// AdditionalArgs and OptionalFlags are sdnbridge's.
	AdditionalArgs []policy        `json:"AdditionalArgs,omitempty"`
	OptionalFlags  map[string]bool `json:"optionalFlags,omitempty"`
}

type ipam struct {
	Type       string `json:"type"`
	Subnet     string `json:"subnet"`
	RangeStart string `json:"rangeStart"`
	// Gateway is an address that is never given to a pod, nothing more: the plugins have their own rule for the gateway.
	Gateway string `json:"gateway"`
	DataDir string `json:"dataDir"`
}

type dns struct {
	Nameservers []string `json:"nameservers,omitempty"`
	Search      []string `json:"search,omitempty"`
}

type policy struct {
	Name  string `json:"name"`
	Value value  `json:"value"`
}

// value is an HCN endpoint policy: { "Type": …, "Settings": … }.
type value struct {
	Type     string         `json:"Type"`
	Settings map[string]any `json:"Settings"`
}

// RenderL2Bridge returns a .conflist for win-bridge on an HNS network of type L2Bridge. Pods get addresses from the fourth of
// the pod CIDR on: the first is the gateway of the HNS network, the second the host's endpoint, which win-bridge takes as
// the pods' gateway.
func RenderL2Bridge(p Params) ([]byte, error) {
	r, policies, err := p.bridge()
	if err != nil {
		return nil, err
	}
	return p.encode(plugin{Type: "win-bridge", APIVersion: 2, LoopbackDSR: p.DSR, IPAM: p.ipam(r, HostEndpoint), Policies: policies})
}

// RenderSDNBridge is RenderL2Bridge for sdnbridge of microsoft/windows-container-networking. forceBridgeGateway makes it take the host's endpoint
// for the pods' gateway, as win-bridge always does; without it that depends on the plugin's version.
func RenderSDNBridge(p Params) ([]byte, error) {
	r, policies, err := p.bridge()
	if err != nil {
		return nil, err
	}
	flags := map[string]bool{"forceBridgeGateway": true}
	if p.DSR {
		flags["loopbackDSR"] = true
	}
	return p.encode(plugin{Type: "sdnbridge", IPAM: p.ipam(r, HostEndpoint), AdditionalArgs: policies, OptionalFlags: flags})
}

// bridge returns the policies of an endpoint on an L2Bridge network: what goes to pods, Services and nodes keeps its address, and what goes to
// Services or to this node is routed to the host, where kube-proxy's balancers and the node's own address are.
func (p Params) bridge() (resolved, []policy, error) {
	r, err := p.resolve()
	nodeSubnet, subnetErr := ipv4(p.NodeSubnet)
	if subnetErr != nil {
		err = errors.Join(err, fmt.Errorf("%w: node subnet: %w", ErrInvalid, subnetErr))
	}
	if err != nil {
		return resolved{}, nil, err
	}
	policies := append([]policy{outBoundNAT(slices.Concat(r.cluster, r.service, []string{nodeSubnet.String()}))}, p.serviceRoutes(r)...)
	return r, append(policies, sdnRoute(netip.PrefixFrom(r.nodeIP, r.nodeIP.BitLen()).String())), nil
}

// serviceRoutes are none with direct server return, where the pod's own port of the switch does the balancing.
func (p Params) serviceRoutes(r resolved) []policy {
	if p.DSR {
		return nil
	}
	var out []policy
	for _, s := range r.service {
		out = append(out, sdnRoute(s))
	}
	return out
}

// RenderOverlay returns a .conflist for win-overlay on an HNS network of type Overlay. The plugin itself takes the gateway
// from the HNS network and adds the provider address. The second address of the pod CIDR stays free for kube-proxy's
// source address.
func RenderOverlay(p Params) ([]byte, error) {
	r, err := p.resolve()
	if err != nil {
		return nil, err
	}
	policies := append([]policy{outBoundNAT(slices.Concat(r.cluster, r.service))}, p.serviceRoutes(r)...)
	return p.encode(plugin{Type: "win-overlay", APIVersion: 2, IPMasq: true, LoopbackDSR: p.DSR, IPAM: p.ipam(r, Gateway), Policies: policies})
}

// Places within a pod CIDR, counted from its network address.
const (
	// Gateway is the HNS network's gateway.
	Gateway = 1
	// HostEndpoint is the host's own endpoint of an L2Bridge network, and the source address of kube-proxy on an Overlay.
	HostEndpoint = 2
	// FirstPod is the first address for pods.
	FirstPod = 3
)

// Address returns the n-th address of a prefix, counted from its network address.
func Address(prefix string, n int) (netip.Addr, error) {
	p, err := netip.ParsePrefix(prefix)
	if err != nil || p.Masked() != p {
		return netip.Addr{}, fmt.Errorf("%w: %.50q is not a network such as 10.244.1.0/24", ErrInvalid, prefix)
	}
	a := p.Addr()
	for range n {
		a = a.Next()
	}
	// Pods need a few addresses, so a prefix that only holds the fixed ones and the broadcast address will not do.
	if !p.Contains(a) || !p.Contains(a.Next()) {
		return netip.Addr{}, fmt.Errorf("%w: %s is too small", ErrInvalid, p)
	}
	return a, nil
}

// resolved are parameters after checking.
type resolved struct {
	pod              netip.Prefix
	nodeIP           netip.Addr
	cluster, service []string
}

func (p Params) resolve() (resolved, error) {
	var r resolved
	var errs []error
	note := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: %s: %w", ErrInvalid, what, err))
		}
	}
	if !networkName.MatchString(p.Name) {
		errs = append(errs, fmt.Errorf("%w: name %.40q must match %s", ErrInvalid, p.Name, networkName))
	}
	var err error
	r.pod, err = ipv4(p.PodCIDR)
	note("pod CIDR", err)
	r.nodeIP, err = netip.ParseAddr(p.NodeIP)
	note("node IP", err)
	r.cluster, err = onlyIPv4(p.ClusterCIDRs)
	note("cluster CIDRs", err)
	r.service, err = onlyIPv4(p.ServiceCIDRs)
	note("service CIDRs", err)
	if err == nil && len(r.service) == 0 {
		errs = append(errs, fmt.Errorf("%w: service CIDRs: none is IPv4", ErrInvalid))
	}
	if _, err := Address(p.PodCIDR, FirstPod); err != nil {
		errs = append(errs, err)
	}
	return r, errors.Join(errs...)
}

func ipv4(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return p, fmt.Errorf("%.50q is not a network", s)
	case !p.Addr().Is4():
		return p, fmt.Errorf("%s is not IPv4, which is all that the plugins do", p)
	}
	return p.Masked(), nil
}

// widest is the shortest prefix of the ranges of pods and of services.
const widest = 8

func onlyIPv4(list []string) ([]string, error) {
	var out []string
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("%.50q is not a network", s)
		}
		switch {
		case !p.Addr().Is4():
		case p.Bits() < widest:
			// What is in these ranges is reached without address translation, and so not at all when it is outside (microsoft/SDN#170).
			return nil, fmt.Errorf("%s covers more than a /%d: pods would reach nothing outside of the cluster", p, widest)
		default:
			out = append(out, p.Masked().String())
		}
	}
	return out, nil
}

func (p Params) ipam(r resolved, gateway int) ipam {
	// resolve has made sure that these are within the prefix.
	start, _ := Address(r.pod.String(), FirstPod)
	gw, _ := Address(r.pod.String(), gateway)
	return ipam{
		Type: "host-local", Subnet: r.pod.String(), RangeStart: start.String(), Gateway: gw.String(), DataDir: p.DataDir,
	}
}

func outBoundNAT(exceptions []string) policy {
	return policy{Name: "EndpointPolicy", Value: value{Type: "OutBoundNAT", Settings: map[string]any{"Exceptions": exceptions}}}
}

func sdnRoute(destination string) policy {
	return policy{Name: "EndpointPolicy", Value: value{
		Type:     "SDNRoute",
		Settings: map[string]any{"DestinationPrefix": destination, "NeedEncap": true},
	}}
}

func (p Params) encode(pl plugin) ([]byte, error) {
	pl.Capabilities = map[string]bool{"dns": true, "portMappings": true}
	pl.DNS = dns{Nameservers: p.DNS}
	if p.Domain != "" {
		pl.DNS.Search = []string{"svc." + p.Domain}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(conf{CNIVersion: renderVersion, Name: p.Name, Plugins: []plugin{pl}}); err != nil {
		return nil, fmt.Errorf("encoding CNI configuration: %w", err)
	}
	return b.Bytes(), nil
}
