package step

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// resolve fills in the values of the closed set plan.Resolver* that text asks for.
func (b *bench) resolve(text string) (string, error) {
	for _, r := range []struct {
		name  string
		value func() (string, error)
	}{
		{plan.ResolverHostname, b.hostname},
		{plan.ResolverManagementIP, b.managementIP},
	} {
		mark := "${" + r.name + "}"
		if !strings.Contains(text, mark) {
			continue
		}
		v, err := r.value()
		if err != nil {
			return "", fmt.Errorf("finding %s: %w", mark, err)
		}
		text = strings.ReplaceAll(text, mark, v)
	}
	return text, nil
}

func (b *bench) hostname() (string, error) {
	name, err := b.sys.Machine.Hostname()
	// Node names are DNS labels, which have no upper case.
	return strings.ToLower(name), err
}

func (b *bench) managementIP() (string, error) {
	if len(b.plan.Networks) > 0 {
		return b.plan.Networks[0].ManagementIP, nil
	}
	list, err := b.sys.Machine.Addresses()
	if err != nil {
		return "", err
	}
	return ManagementIP(list)
}

// ManagementIP picks the address by which other machines reach this one: usable, not link-local, on the adapter with the
// default route if one has it, IPv4 before IPv6, the lowest where several are equal. The order of the list does not matter.
func ManagementIP(list []plan.AdapterAddress) (string, error) {
	type candidate struct {
		ip   netip.Addr
		rank int
	}
	var all []candidate
	for _, a := range list {
		p, err := netip.ParsePrefix(a.Prefix)
		// An adapter of 127.0.0.0/8 with the default route is a simulated machine's; the real loopback interface has no route.
		if err != nil || !a.Usable || !reachable(p.Addr()) && (!a.Default || !p.Addr().IsLoopback()) {
			continue
		}
		c := candidate{ip: p.Addr().Unmap()}
		if !a.Default {
			c.rank += 2
		}
		if c.ip.Is6() {
			c.rank++
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return "", fmt.Errorf("no usable address: %w", system.ErrAdapterNotFound)
	}
	best := slices.MinFunc(all, func(a, b candidate) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		return a.ip.Compare(b.ip)
	})
	return best.ip.String(), nil
}

// reachable is false for addresses that no other machine can use: 169.254.0.0/16 and fe80::/10, which Windows gives itself when
// DHCP does not answer, loopback and the like.
func reachable(ip netip.Addr) bool {
	return ip.IsValid() && !ip.IsLinkLocalUnicast() && !ip.IsLoopback() && !ip.IsUnspecified() && !ip.IsMulticast()
}

// adapterState is where the adapter of a management address stands.
type adapterState int

const (
	// adapterAbsent: no adapter holds the address.
	adapterAbsent adapterState = iota
	// adapterTentative: one holds it, but the address is not usable yet.
	adapterTentative
	// adapterReady: one holds it and it is usable.
	adapterReady
)

// holder finds the adapter that holds ip. It goes by the address alone: neither the adapter's name nor its metric says which one
// the cluster knows.
func holder(list []plan.AdapterAddress, ip string) (plan.AdapterAddress, adapterState) {
	want, err := netip.ParseAddr(ip)
	// 169.254.0.0/16 is what Windows invents when no DHCP server answers; never bind to it, even if somebody says so.
	if err != nil || want.IsUnspecified() || want.IsLinkLocalUnicast() {
		return plan.AdapterAddress{}, adapterAbsent
	}
	var found plan.AdapterAddress
	state := adapterAbsent
	for _, a := range list {
		p, err := netip.ParsePrefix(a.Prefix)
		if err != nil || p.Addr().Unmap() != want.Unmap() {
			continue
		}
		if a.Usable {
			return a, adapterReady
		}
		found, state = a, adapterTentative
	}
	return found, state
}
