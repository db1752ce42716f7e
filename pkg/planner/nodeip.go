package planner

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/plan"
)

// Errors of PickNodeIP.
var (
	// ErrNoAdapter: no adapter holds the address, or there is no address to choose.
	ErrNoAdapter = errors.New("no network adapter holds the node's address")
	// ErrNotUsable: an adapter holds the address, but it is tentative or a duplicate. It may become usable in a while.
	ErrNotUsable = errors.New("the node's address is not usable yet")
	// ErrAmbiguous: several addresses could be the node's.
	ErrAmbiguous = errors.New("more than one address could be the node's")
)

// NodeAddress is the address that a node registers with.
type NodeAddress struct {
	Addr netip.Addr
	// Prefix is the subnet of the adapter that holds Addr.
	Prefix  netip.Prefix
	Adapter string
}

// PickNodeIP chooses the node's address among those that the machine's adapters hold. wanted is the host's nodeIP, or its
// address when that is an IP address; when it is given, exactly that one is taken and nothing else is guessed, whatever
// other adapters there are. When it is empty the adapter with the default route decides, IPv4 before IPv6. Link-local
// addresses are never taken: 169.254.0.0/16 is what Windows invents when no DHCP server answers. The order of the list
// plays no part.
func PickNodeIP(wanted string, addresses []plan.AdapterAddress) (NodeAddress, error) {
	held := usableShape(addresses)
	if wanted == "" {
		return byDefaultRoute(held)
	}
	want, err := netip.ParseAddr(wanted)
	if err != nil {
		return NodeAddress{}, fmt.Errorf("%w: %q is not an IP address", ErrNoAdapter, bounded(wanted))
	}
	want = want.Unmap()
	if want.IsLinkLocalUnicast() {
		return NodeAddress{}, fmt.Errorf("%w: %s is a link-local address", ErrNoAdapter, want)
	}
	pending := false
	for _, c := range held {
		switch {
		case c.Addr != want:
		case c.usable:
			return c.NodeAddress, nil
		default:
			pending = true
		}
	}
	if pending {
		return NodeAddress{}, fmt.Errorf("%w: %s is tentative or a duplicate", ErrNotUsable, want)
	}
	return NodeAddress{}, fmt.Errorf("%w: wanted %s, adapters hold %s", ErrNoAdapter, want, listAddrs(held))
}

type candidate struct {
	NodeAddress
	usable, byDefault bool
}

// usableShape parses what the machine said, in a fixed order, and drops what is not an address.
func usableShape(addresses []plan.AdapterAddress) []candidate {
	var out []candidate
	for _, a := range addresses {
		p, err := netip.ParsePrefix(a.Prefix)
		if err != nil {
			continue
		}
		addr := p.Addr().WithZone("").Unmap()
		out = append(out, candidate{
			NodeAddress: NodeAddress{Addr: addr, Prefix: p.Masked(), Adapter: a.Adapter},
			usable:      a.Usable, byDefault: a.Default,
		})
	}
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(a.Addr.Compare(b.Addr), strings.Compare(a.Adapter, b.Adapter))
	})
	return out
}

func byDefaultRoute(held []candidate) (NodeAddress, error) {
	found, pending := defaultCandidates(held)
	switch {
	case len(found) == 1:
		return found[0].NodeAddress, nil
	case len(found) > 1:
		return NodeAddress{}, fmt.Errorf("%w: %s", ErrAmbiguous, listAddrs(found))
	case pending:
		return NodeAddress{}, fmt.Errorf("%w: the adapter with the default route has no usable address", ErrNotUsable)
	}
	return NodeAddress{}, fmt.Errorf("%w: no adapter with a default route has an address, adapters hold %s",
		ErrNoAdapter, listAddrs(held))
}

// defaultCandidates returns the usable addresses of adapters with a default route, the IPv4 ones if there are any; pending
// is true when one of them is not usable yet.
func defaultCandidates(held []candidate) (found []candidate, pending bool) {
	var v4, v6 []candidate
	for _, c := range held {
		if !c.byDefault || c.Addr.IsLinkLocalUnicast() || c.Addr.IsLoopback() {
			continue
		}
		switch {
		case !c.usable:
			pending = true
		case c.Addr.Is4():
			v4 = append(v4, c)
		default:
			v6 = append(v6, c)
		}
	}
	if len(v4) > 0 {
		return v4, pending
	}
	return v6, pending
}

// listAddrs names up to eight addresses for a message.
func listAddrs(held []candidate) string {
	const limit = 8
	if len(held) == 0 {
		return "none"
	}
	var out []string
	for i, c := range held {
		if i == limit {
			out = append(out, "...")
			break
		}
		out = append(out, fmt.Sprintf("%s (%s)", c.Addr, bounded(c.Adapter)))
	}
	return strings.Join(out, ", ")
}
