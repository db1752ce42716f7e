package windows

import (
	"net/netip"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// adapter is a network adapter that is up or not, with its addresses.
type adapter struct {
	// name is the friendly name, which HNS takes as NetworkAdapterName.
	name  string
	index uint32
	up    bool
	// gateway is whether the adapter has a default gateway.
	gateway  bool
	loopback bool
	addrs    []adapterAddr
}

// adapterAddr is an address with the length of its on-link prefix. usable is IpDadStatePreferred: neither tentative nor
// duplicate (NL_DAD_STATE).
type adapterAddr struct {
	prefix netip.Prefix
	usable bool
}

// addresses returns what Machine.Addresses reports: every address of the adapters that are up, without loopback.
func addresses(adapters []adapter) []plan.AdapterAddress {
	var out []plan.AdapterAddress
	for _, a := range adapters {
		if !a.up || a.loopback {
			continue
		}
		for _, addr := range a.addrs {
			out = append(out, plan.AdapterAddress{
				Adapter: a.name, Prefix: addr.prefix.String(), Default: a.gateway, Usable: addr.usable,
			})
		}
	}
	return out
}

// networkAdapter returns the name of the adapter that a network with this management address binds to: the one that
// holds the address in a usable state. Once a virtual switch exists, Windows moves the address to the host's own port on it,
// which HNS names "vEthernet (<adapter>)" in every language; the network then still binds to <adapter>, provided that
// it exists.
func networkAdapter(managementIP string, adapters []adapter) (string, error) {
	ip, err := netip.ParseAddr(managementIP)
	if err != nil {
		return "", invalid("find adapter", managementIP, codeInvalidParameter)
	}
	if a, ok := holding(ip, adapters); ok {
		return physical(a.name, adapters), nil
	}
	return "", &Error{Op: "find adapter", Object: managementIP, Code: codeNotFound, Err: system.ErrAdapterNotFound}
}

func (a adapter) holds(ip netip.Addr) bool {
	for _, addr := range a.addrs {
		if addr.usable && addr.prefix.Addr() == ip.Unmap() {
			return true
		}
	}
	return false
}

// holding returns the adapter that holds an address in a usable state.
func holding(ip netip.Addr, adapters []adapter) (a adapter, ok bool) {
	for _, a := range adapters {
		if a.up && a.holds(ip) {
			return a, true
		}
	}
	return adapter{}, false
}

func physical(name string, adapters []adapter) string {
	inner, ok := strings.CutPrefix(name, "vEthernet (")
	if !ok || !strings.HasSuffix(inner, ")") {
		return name
	}
	inner = strings.TrimSuffix(inner, ")")
	for _, a := range adapters {
		if a.name == inner {
			return inner
		}
	}
	return name
}

// routeInterface returns the index of the adapter on whose link the next hop lies; with an unspecified next hop (an on-link
// route) the adapter with the default gateway. The longest matching prefix wins.
func routeInterface(nextHop netip.Addr, adapters []adapter) (uint32, error) {
	best, index := -1, uint32(0)
	for _, a := range adapters {
		if !a.up || a.loopback {
			continue
		}
		if bits := a.reach(nextHop); bits > best {
			best, index = bits, a.index
		}
	}
	if best < 0 {
		return 0, &Error{Op: "find interface", Object: nextHop.String(), Code: codeNotFound, Err: system.ErrAdapterNotFound}
	}
	return index, nil
}

// reach returns the length of the prefix through which the adapter reaches ip directly, -1 when it does not.
func (a adapter) reach(ip netip.Addr) int {
	if ip.IsUnspecified() {
		if a.gateway {
			return 0
		}
		return -1
	}
	bits := -1
	for _, addr := range a.addrs {
		if addr.usable && addr.prefix.Masked().Contains(ip) {
			bits = max(bits, addr.prefix.Bits())
		}
	}
	return bits
}
