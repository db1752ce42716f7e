package windows

import (
	"net/netip"

	"github.com/windowsmachine/operator/pkg/plan"
)

// staticRoute reports a route that was made by a program or a person (NL_ROUTE_PROTOCOL: MIB_IPPROTO_NETMGMT,
// NT_AUTOSTATIC, NT_STATIC, NT_STATIC_NON_DOD).
func staticRoute(protocol uint32) bool {
	switch protocol {
	case 3, 10002, 10006, 10007:
		return true
	}
	return false
}

// parseRoute reads a route; destination and next hop must be of one family, and the destination must be no host bits.
func parseRoute(op string, r plan.Route) (netip.Prefix, netip.Addr, error) {
	destination, err := netip.ParsePrefix(r.Destination)
	if err != nil || destination != destination.Masked() {
		return netip.Prefix{}, netip.Addr{}, invalid(op, r.Destination, codeInvalidParameter)
	}
	hop, err := netip.ParseAddr(r.NextHop)
	if err != nil || hop.Zone() != "" || hop.Is4() != destination.Addr().Is4() {
		return netip.Prefix{}, netip.Addr{}, invalid(op, r.Destination+" by "+r.NextHop, codeInvalidParameter)
	}
	return destination, hop, nil
}
