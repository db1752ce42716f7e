package fake

import (
	"net/netip"
	"slices"

	"github.com/windowsmachine/operator/pkg/plan"
)

// dropRoutes takes away the static routes by way of an adapter, as Windows does when a virtual switch takes its address or gives it back: they
// belong to the interface, and do not move with the address (kubernetes-sigs/sig-windows-tools#36, microsoft/hcsshim#299). It must be called with m.mu
// held.
func (m *Machine) dropRoutes(a *adapter) {
	link, err := netip.ParsePrefix(a.Prefix)
	if err != nil {
		return
	}
	m.routes = slices.DeleteFunc(m.routes, func(r plan.Route) bool {
		hop, err := netip.ParseAddr(r.NextHop)
		return err == nil && (link.Masked().Contains(hop) || hop.IsUnspecified() && a.Default)
	})
}
