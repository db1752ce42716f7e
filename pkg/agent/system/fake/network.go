package fake

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Adapter is a network adapter with one address.
type Adapter struct {
	// Name is the interface's alias, Prefix its address/bits.
	Name, Prefix string
	// Default is whether it has the default route.
	Default bool
	// Tentative is whether its address is not usable yet.
	Tentative bool
}

// adapter is an Adapter and its link. It is guarded by its machine.
type adapter struct {
	Adapter
	// networks that use it; with the first a virtual switch is made and the address moves to "vEthernet (name)".
	networks map[string]bool
	link     linkState
	// epoch counts changes of the link, so that a late timer does not undo a newer one.
	epoch int
	// endpoint is the endpoint of HNS that it is the host's side of, "" for a real one.
	endpoint string
	// forwarding is that of the interface that holds the address now, below that of the real one while a virtual switch has taken its address.
	forwarding, below bool
}

type linkState int

const (
	linkUp linkState = iota
	linkDown
	linkTentative
)

func (a *adapter) address() netip.Addr {
	p, err := netip.ParsePrefix(a.Prefix)
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr()
}

// shown is what GetAdaptersAddresses lists. While the link is down an adapter has only an automatic private address (RFC 3927),
// which a search for "any usable address" would fall for; then its own, tentative until duplicate detection ends.
func (a *adapter) shown() plan.AdapterAddress {
	out := plan.AdapterAddress{Adapter: a.Name, Prefix: a.Prefix, Default: a.Default, Usable: !a.Tentative && a.link == linkUp}
	if len(a.networks) > 0 {
		out.Adapter = "vEthernet (" + a.Name + ")"
	}
	if a.link == linkDown {
		b := a.address().As16()
		out.Prefix = netip.AddrFrom4([4]byte{169, 254, b[14] | 1, b[15]}).String() + "/16"
		out.Default, out.Usable = false, true
	}
	return out
}

// adapterOf finds the adapter that holds a usable address.
func (m *Machine) adapterOf(ip string) *adapter {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return nil
	}
	for _, a := range m.adapters {
		if a.address() == addr && a.link == linkUp && !a.Tentative {
			return a
		}
	}
	return nil
}

func (v machine) Addresses() ([]plan.AdapterAddress, error) {
	if err := v.lock(); err != nil {
		return nil, err
	}
	defer v.unlock()
	out := make([]plan.AdapterAddress, 0, len(v.m.adapters))
	for _, a := range v.m.adapters {
		out = append(out, a.shown())
	}
	return out, nil
}

// Dial answers 1231 ERROR_NETWORK_UNREACHABLE while no link is up.
func (v machine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := v.lock(); err != nil {
		return nil, err
	}
	up := v.m.power == powerUp && slices.ContainsFunc(v.m.adapters, func(a *adapter) bool { return a.link == linkUp && !a.Tentative })
	v.unlock()
	if !up {
		return nil, refuse("dial", address, codeNetworkUnreachable, nil)
	}
	return v.m.opts.Dial(ctx, network, address)
}

// SetAdapter replaces or adds an adapter by its name.
func (m *Machine) SetAdapter(a Adapter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, old := range m.adapters {
		if old.Name == a.Name {
			old.Adapter = a
			return
		}
	}
	m.adapters = append(m.adapters, &adapter{Adapter: a})
}

type networks struct{ view }

// hns answers whether there is a Host Networking Service: it comes with the Containers feature.
func (v networks) hns(op, name string) error {
	key, ok := v.m.feature("Containers")
	if !ok || !v.m.features[key].Enabled {
		return refuse(op, name, codeNoService, system.ErrUnsupported)
	}
	return nil
}

func (v networks) Get(name string) (plan.Network, error) {
	if err := v.lock(); err != nil {
		return plan.Network{}, err
	}
	defer v.unlock()
	if err := v.hns("query network", name); err != nil {
		return plan.Network{}, err
	}
	n, ok := v.m.networks[fold(name)]
	if !ok {
		return plan.Network{}, refuse("query network", name, codeHCNNetworkNotFound, system.ErrNetworkNotFound)
	}
	return n, nil
}

// Create answers as HcnCreateNetwork does: 0x803b0010 for a name that is taken, 0x803b0006 when no adapter holds the address,
// 87 for a document that HNS refuses (a VSID below 4096 on an overlay, a gateway outside the prefix). It returns while the link is down: the first
// network of an adapter makes a virtual switch, and the address moves to it.
func (v networks) Create(ctx context.Context, n plan.Network) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := v.lockAdmin("create network", n.Name); err != nil {
		return err
	}
	defer v.unlock()
	if err := v.hns("create network", n.Name); err != nil {
		return err
	}
	if _, ok := v.m.networks[fold(n.Name)]; ok {
		return refuse("create network", n.Name, codeHCNNetworkExists, system.ErrNetworkExists)
	}
	if !validNetwork(n) {
		return refuse("create network", n.Name, codeInvalidParameter, nil)
	}
	a := v.m.adapterOf(n.ManagementIP)
	if a == nil {
		return refuse("create network", n.Name, codeHCNAdapterNotFound, system.ErrAdapterNotFound)
	}
	n.HostEndpoint, n.Remotes = nil, nil // Objects of their own to HNS.
	v.m.networks[fold(n.Name)] = n
	v.m.useAdapter(a, n.Name, true)
	return nil
}

func validNetwork(n plan.Network) bool {
	prefix, err := netip.ParsePrefix(n.Prefix)
	if err != nil {
		return false
	}
	gateway, err := netip.ParseAddr(n.Gateway)
	if err != nil || !prefix.Contains(gateway) {
		return false
	}
	switch n.Type {
	case plan.NetworkOverlay:
		return n.VSID >= 4096
	case plan.NetworkL2Bridge:
		return n.VSID == 0
	}
	return false
}

// Delete removes the network; with the last one of an adapter the virtual switch goes, and the link drops again.
func (v networks) Delete(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := v.lockAdmin("delete network", name); err != nil {
		return err
	}
	defer v.unlock()
	if err := v.hns("delete network", name); err != nil {
		return err
	}
	if _, ok := v.m.networks[fold(name)]; !ok {
		return refuse("delete network", name, codeHCNNetworkNotFound, system.ErrNetworkNotFound)
	}
	delete(v.m.networks, fold(name))
	v.m.dropInside(fold(name))
	for _, a := range v.m.adapters {
		if a.networks[fold(name)] {
			v.m.useAdapter(a, name, false)
		}
	}
	return nil
}

// useAdapter notes that a network uses an adapter or does no more, and drops the link when a virtual switch comes or goes.
func (m *Machine) useAdapter(a *adapter, network string, on bool) {
	before := len(a.networks) > 0
	if a.networks == nil {
		a.networks = map[string]bool{}
	}
	if on {
		a.networks[fold(network)] = true
	} else {
		delete(a.networks, fold(network))
	}
	if before != (len(a.networks) > 0) {
		// Forwarding is a setting of the interface, and does not move with the address.
		if before {
			a.forwarding = a.below
		} else {
			a.below, a.forwarding = a.forwarding, false
		}
		m.dropLink(a)
		m.dropRoutes(a)
	}
}

// dropLink takes an adapter's address away for Timing.LinkDown.
func (m *Machine) dropLink(a *adapter) {
	a.epoch++
	epoch, ctx, half := a.epoch, m.bootCtx, m.opts.Timing.LinkDown/2
	a.link = linkDown
	m.tell(EventLinkDown)
	m.goWork(func() {
		for _, next := range []linkState{linkTentative, linkUp} {
			if m.opts.Clock.Sleep(ctx, half) != nil {
				return
			}
			m.mu.Lock()
			if a.epoch == epoch {
				if a.link = next; next == linkUp {
					m.tell(EventLinkUp)
				}
			}
			m.mu.Unlock()
		}
	})
}

// bootNetworks restores what persists: HNS keeps L2Bridge networks over a reboot; Overlay networks are made with
// EnableNonPersistent (flag 8 of HostComputeNetwork.Flags) and are gone, and so are all endpoints, and forwarding, which is set in the active store.
// Windows waits for the network before services start.
func (m *Machine) bootNetworks() {
	for name := range m.networks {
		m.dropInside(name)
	}
	for name, n := range m.networks {
		if n.Type != plan.NetworkOverlay {
			continue
		}
		delete(m.networks, name)
		for _, a := range m.adapters {
			delete(a.networks, name)
		}
	}
	for _, a := range m.adapters {
		a.epoch++
		a.link = linkUp
		a.forwarding, a.below = false, false
	}
}

type routes struct{ view }

func (v routes) List() ([]plan.Route, error) {
	if err := v.lock(); err != nil {
		return nil, err
	}
	defer v.unlock()
	return slices.Clone(v.m.routes), nil
}

// Add answers 87 ERROR_INVALID_PARAMETER for what is no route and ErrExist for one that is there (ERROR_OBJECT_ALREADY_EXISTS of
// CreateIpForwardEntry2).
func (v routes) Add(r plan.Route) error {
	if err := v.lockAdmin("add route", r.Destination); err != nil {
		return err
	}
	defer v.unlock()
	dst, err := netip.ParsePrefix(r.Destination)
	if err != nil || dst != dst.Masked() {
		return refuse("add route", r.Destination, codeInvalidParameter, nil)
	}
	if _, err := netip.ParseAddr(r.NextHop); err != nil {
		return refuse("add route", r.Destination, codeInvalidParameter, nil)
	}
	if slices.Contains(v.m.routes, r) {
		return refuse("add route", r.Destination, 5010, system.ErrExist)
	}
	v.m.routes = append(v.m.routes, r)
	slices.SortFunc(v.m.routes, func(a, b plan.Route) int {
		return cmp.Or(strings.Compare(a.Destination, b.Destination), strings.Compare(a.NextHop, b.NextHop))
	})
	return nil
}

// Delete answers 1168 ERROR_NOT_FOUND for a route that is not there.
func (v routes) Delete(r plan.Route) error {
	if err := v.lockAdmin("delete route", r.Destination); err != nil {
		return err
	}
	defer v.unlock()
	i := slices.Index(v.m.routes, r)
	if i < 0 {
		return refuse("delete route", r.Destination, codeNotFound, system.ErrNotExist)
	}
	v.m.routes = slices.Delete(v.m.routes, i, i+1)
	return nil
}
