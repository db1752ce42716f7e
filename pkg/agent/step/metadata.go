package step

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Clouds give their machines routes to the metadata service and its like. They belong to the adapter, so they go when a virtual switch takes
// its address away (kubernetes-sigs/sig-windows-tools#36, microsoft/hcsshim#299, openshift/ovn-kubernetes#3119), and with them
// credentials, host names and time. The agent notes them before it makes a network, and puts back those that are lost.

// metadataRoutes are those of list that lead to a single address of a cloud's own services.
func metadataRoutes(list []plan.Route) []plan.Route {
	var out []plan.Route
	for _, r := range list {
		if p, err := netip.ParsePrefix(r.Destination); err == nil && p.IsSingleIP() && cloudAddress(p.Addr().Unmap()) {
			out = append(out, r)
		}
	}
	return out
}

// cloudAddress: 169.254.0.0/16 holds the metadata services of all clouds, and AWS' DNS, time and licence services; 168.63.129.16 is Azure's
// health and DNS service, fd00:ec2::/32 AWS' services by IPv6.
func cloudAddress(a netip.Addr) bool {
	azure := netip.AddrFrom4([4]byte{168, 63, 129, 16})
	aws := netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 2: 0x0e, 3: 0xc2}), 32)
	return a.Is4() && a.IsLinkLocalUnicast() || a == azure || aws.Contains(a)
}

// lostRoutes are those of want to whose destination have has no route. Whoever has given it another next hop meanwhile knows better.
func lostRoutes(want, have []plan.Route) []plan.Route {
	var out []plan.Route
	for _, r := range want {
		if !slices.ContainsFunc(have, func(h plan.Route) bool { return h.Destination == r.Destination }) {
			out = append(out, r)
		}
	}
	return out
}

// noteRoutes returns the routes that a network must not cost the machine.
func (b *bench) noteRoutes() ([]plan.Route, error) {
	list, err := b.sys.Routes.List()
	if err != nil {
		return nil, fmt.Errorf("noting the routes to the cloud's services: %w", err)
	}
	return metadataRoutes(list), nil
}

// routesLost says which noted route of a network is missing, "" when none is.
func (b *bench) routesLost(network ID) (string, error) {
	o, _ := b.ledger.Find(network)
	if len(o.Routes) == 0 {
		return "", nil
	}
	list, err := b.sys.Routes.List()
	if err != nil {
		return "", err
	}
	lost := lostRoutes(o.Routes, list)
	if len(lost) == 0 {
		return "", nil
	}
	return fmt.Sprintf("the route to %s was lost", lost[0].Destination), nil
}

// keepRoutes puts back the noted routes of a network that are missing.
func (b *bench) keepRoutes(network ID) error {
	o, _ := b.ledger.Find(network)
	return b.restoreRoutes(o.Routes)
}

func (b *bench) restoreRoutes(noted []plan.Route) error {
	if len(noted) == 0 {
		return nil
	}
	list, err := b.sys.Routes.List()
	if err != nil {
		return err
	}
	for _, r := range lostRoutes(noted, list) {
		if err := b.sys.Routes.Add(r); err != nil && !errors.Is(err, system.ErrExist) {
			return fmt.Errorf("putting back the route to %s by %s: %w", r.Destination, r.NextHop, err)
		}
	}
	return nil
}
