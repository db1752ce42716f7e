package fake

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// endpoint is an endpoint of HNS.
type endpoint struct {
	plan.HostEndpoint
	// network is the folded name of its network.
	network  string
	attached bool
}

func (v networks) Endpoint(network, name string) (plan.HostEndpoint, bool, error) {
	if err := v.lock(); err != nil {
		return plan.HostEndpoint{}, false, err
	}
	defer v.unlock()
	if err := v.hns("query endpoint", name); err != nil {
		return plan.HostEndpoint{}, false, err
	}
	e, ok := v.m.endpoints[fold(name)]
	if !ok || e.network != fold(network) {
		return plan.HostEndpoint{}, false, refuse("query endpoint", name, codeHCNNoEndpoint, system.ErrEndpointNotFound)
	}
	return e.HostEndpoint, e.attached, nil
}

// CreateEndpoint answers 0x803b0001 for an unknown network, 5010 "the object already exists" for an address that another endpoint has
// (kubernetes/kubernetes#72696, microsoft/SDN#333), and 0x803b002f HCN_E_ADDR_INVALID_OR_RESERVED for the gateway's and for one outside of the subnet.
func (v networks) CreateEndpoint(ctx context.Context, network string, e plan.HostEndpoint) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := v.lockAdmin("create endpoint", e.Name); err != nil {
		return err
	}
	defer v.unlock()
	n, err := v.known("create endpoint", network)
	if err != nil {
		return err
	}
	prefix, _ := netip.ParsePrefix(n.Prefix)
	address, err := netip.ParseAddr(e.Address)
	if err != nil || !prefix.Contains(address) || e.Address == n.Gateway {
		return refuse("create endpoint", e.Name, codeHCNAddrReserved, nil)
	}
	for _, other := range v.m.endpoints {
		if other.network == fold(network) && (other.Address == e.Address || fold(other.Name) == fold(e.Name)) {
			return refuse("create endpoint", e.Name, codeObjectExists, system.ErrExist)
		}
	}
	v.m.endpoints[fold(e.Name)] = endpoint{HostEndpoint: e, network: fold(network)}
	return nil
}

// known finds a network. It must be called with the machine's lock held.
func (v networks) known(op, network string) (plan.Network, error) {
	if err := v.hns(op, network); err != nil {
		return plan.Network{}, err
	}
	n, ok := v.m.networks[fold(network)]
	if !ok {
		return plan.Network{}, refuse(op, network, codeHCNNetworkNotFound, system.ErrNetworkNotFound)
	}
	return n, nil
}

// AttachEndpoint: the host's side is an adapter of its own, with the endpoint's address, which is not usable at once.
func (v networks) AttachEndpoint(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := v.lockAdmin("attach endpoint", name); err != nil {
		return err
	}
	defer v.unlock()
	e, ok := v.m.endpoints[fold(name)]
	if !ok {
		return refuse("attach endpoint", name, codeHCNNoEndpoint, system.ErrEndpointNotFound)
	}
	if e.attached {
		return nil
	}
	e.attached = true
	v.m.endpoints[fold(name)] = e
	prefix, _ := netip.ParsePrefix(v.m.networks[e.network].Prefix)
	a := &adapter{Adapter: Adapter{
		Name: "vEthernet (" + e.Name + ")", Prefix: fmt.Sprintf("%s/%d", e.Address, prefix.Bits()),
	}, endpoint: fold(name)}
	v.m.adapters = append(v.m.adapters, a)
	v.m.dropLink(a)
	return nil
}

func (v networks) DeleteEndpoint(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := v.lockAdmin("delete endpoint", name); err != nil {
		return err
	}
	defer v.unlock()
	if err := v.hns("delete endpoint", name); err != nil {
		return err
	}
	if _, ok := v.m.endpoints[fold(name)]; !ok {
		return refuse("delete endpoint", name, codeHCNNoEndpoint, system.ErrEndpointNotFound)
	}
	v.m.dropEndpoint(fold(name))
	return nil
}

// dropEndpoint takes the host's adapter along. It must be called with m.mu held.
func (m *Machine) dropEndpoint(name string) {
	delete(m.endpoints, name)
	m.adapters = slices.DeleteFunc(m.adapters, func(a *adapter) bool { return a.endpoint == name })
}

// dropInside drops what lies in a network. It must be called with m.mu held.
func (m *Machine) dropInside(network string) {
	for name, e := range m.endpoints {
		if e.network == network {
			m.dropEndpoint(name)
		}
	}
	delete(m.remotes, network)
}

func (v networks) Remotes(network string) ([]plan.RemoteSubnet, error) {
	if err := v.lock(); err != nil {
		return nil, err
	}
	defer v.unlock()
	if _, err := v.known("list remote subnets of", network); err != nil {
		return nil, err
	}
	return slices.Clone(v.m.remotes[fold(network)]), nil
}

// AddRemotes answers 0x803b000e HCN_E_INVALID_POLICY_TYPE for a network that is no overlay, 87 for a virtual subnet that is not the network's or below 4096
// and for what is no address, and 5010 for a prefix that has a route already. What came before the one that is refused stays.
func (v networks) AddRemotes(ctx context.Context, network string, list []plan.RemoteSubnet) error {
	return v.changeRemotes(ctx, "add remote subnet to", network, list, func(n plan.Network, r plan.RemoteSubnet) error {
		if _, err := netip.ParsePrefix(r.Prefix); err != nil || r.VSID != n.VSID || r.VSID < 4096 {
			return refuse("add remote subnet to", network, codeInvalidParameter, nil)
		}
		if slices.ContainsFunc(v.m.remotes[fold(network)], func(o plan.RemoteSubnet) bool { return o.Prefix == r.Prefix }) {
			return refuse("add remote subnet to", network, codeObjectExists, system.ErrExist)
		}
		v.m.remotes[fold(network)] = append(v.m.remotes[fold(network)], r)
		slices.SortFunc(v.m.remotes[fold(network)], func(a, b plan.RemoteSubnet) int { return strings.Compare(a.Prefix, b.Prefix) })
		return nil
	})
}

func (v networks) DeleteRemotes(ctx context.Context, network string, list []plan.RemoteSubnet) error {
	return v.changeRemotes(ctx, "remove remote subnet from", network, list, func(_ plan.Network, r plan.RemoteSubnet) error {
		before := len(v.m.remotes[fold(network)])
		v.m.remotes[fold(network)] = slices.DeleteFunc(v.m.remotes[fold(network)], func(o plan.RemoteSubnet) bool { return o == r })
		if len(v.m.remotes[fold(network)]) == before {
			return refuse("remove remote subnet from", network, codeNotFound, system.ErrNotExist)
		}
		return nil
	})
}

func (v networks) changeRemotes(ctx context.Context, op, network string, list []plan.RemoteSubnet, f func(plan.Network, plan.RemoteSubnet) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := v.lockAdmin(op, network); err != nil {
		return err
	}
	defer v.unlock()
	n, err := v.known(op, network)
	if err != nil {
		return err
	}
	if n.Type != plan.NetworkOverlay {
		return refuse(op, network, codeHCNInvalidPolicy, nil)
	}
	for _, r := range list {
		if err := f(n, r); err != nil {
			return err
		}
	}
	return nil
}

// DRMAC: HNS gives the router of each Overlay network an address out of Hyper-V's range.
func (v networks) DRMAC(network string) (string, error) {
	if err := v.lock(); err != nil {
		return "", err
	}
	defer v.unlock()
	n, err := v.known("query network", network)
	if err != nil || n.Type != plan.NetworkOverlay {
		return "", err
	}
	ip, err := netip.ParseAddr(n.ManagementIP)
	if err != nil {
		return "", nil
	}
	b := ip.As16()
	return fmt.Sprintf("00:15:5d:%02x:%02x:%02x", b[13], b[14], b[15]), nil
}

// Forwarding answers for the adapter that holds a usable address.
func (v routes) Forwarding(address string) (bool, error) {
	if err := v.lock(); err != nil {
		return false, err
	}
	defer v.unlock()
	a := v.m.adapterOf(address)
	if a == nil {
		return false, refuse("query interface of", address, codeNotFound, system.ErrAdapterNotFound)
	}
	return a.forwarding, nil
}

func (v routes) SetForwarding(address string, on bool) error {
	if err := v.lockAdmin("set forwarding of", address); err != nil {
		return err
	}
	defer v.unlock()
	a := v.m.adapterOf(address)
	if a == nil {
		return refuse("set forwarding of", address, codeNotFound, system.ErrAdapterNotFound)
	}
	a.forwarding = on
	return nil
}
