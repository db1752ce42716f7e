package windows

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// nic returns an adapter that is up with usable addresses.
func nic(name string, index uint32, prefixes ...string) adapter {
	a := adapter{name: name, index: index, up: true}
	for _, p := range prefixes {
		a.addrs = append(a.addrs, adapterAddr{prefix: netip.MustParsePrefix(p), usable: true})
	}
	return a
}

func (a adapter) with(change func(*adapter)) adapter {
	change(&a)
	return a
}

func tentative(a *adapter) { a.addrs[0].usable = false }

// serverNICs is a machine with a management, a data and a remote-control adapter, and a NAT switch.
func serverNICs() []adapter {
	return []adapter{
		nic("Ethernet", 4, "169.254.7.7/16"),
		nic("Ethernet [LAN] 2", 7, "192.0.2.10/24", "fe80::1/64", "2001:db8::10/64").with(func(a *adapter) { a.gateway = true }),
		nic("Ethernet 3", 9, "198.51.100.10/25"),
		nic("vEthernet (nat)", 12, "172.20.0.1/20"),
		nic("Loopback Pseudo-Interface 1", 1, "127.0.0.1/8").with(func(a *adapter) { a.loopback = true }),
	}
}

// TestW56AdapterByAddress: the adapter is the one that holds the address, in a usable state, and nothing else decides.
func TestW56AdapterByAddress(t *testing.T) {
	for _, tt := range []struct {
		name, ip string
		adapters []adapter
		want     string
	}{
		{"management address", "192.0.2.10", serverNICs(), "Ethernet [LAN] 2"},
		{"IPv6", "2001:db8::10", serverNICs(), "Ethernet [LAN] 2"},
		{"data address", "198.51.100.10", serverNICs(), "Ethernet 3"},
		{"tentative", "192.0.2.10", []adapter{nic("Ethernet 2", 7, "192.0.2.10/24").with(tentative)}, ""},
		{"adapter down", "192.0.2.10", []adapter{nic("Ethernet 2", 7, "192.0.2.10/24").with(func(a *adapter) { a.up = false })}, ""},
		{"held by nobody", "192.0.2.11", serverNICs(), ""},
		{
			"moved to the switch's port", "192.0.2.10",
			[]adapter{nic("Ethernet [LAN] 2", 7), nic("vEthernet (Ethernet [LAN] 2)", 20, "192.0.2.10/24")},
			"Ethernet [LAN] 2",
		},
		{
			"a switch of another name", "192.0.2.10",
			[]adapter{nic("Ethernet 2", 7), nic("vEthernet (External)", 20, "192.0.2.10/24")},
			"vEthernet (External)",
		},
	} {
		got, err := networkAdapter(tt.ip, tt.adapters)
		if got != tt.want || (tt.want == "") != errors.Is(err, system.ErrAdapterNotFound) {
			t.Errorf("%s: %q %v, want %q", tt.name, got, err, tt.want)
		}
	}
	if _, err := networkAdapter("nonsense", serverNICs()); err == nil {
		t.Error("a management address that is none finds an adapter")
	}
}

func TestAddresses(t *testing.T) {
	adapters := append(serverNICs()[1:3], serverNICs()[4], nic("Ethernet 4", 30, "203.0.113.4/24").with(tentative),
		nic("Ethernet 5", 31, "203.0.113.5/24").with(func(a *adapter) { a.up = false }))
	want := []plan.AdapterAddress{
		{Adapter: "Ethernet [LAN] 2", Prefix: "192.0.2.10/24", Default: true, Usable: true},
		{Adapter: "Ethernet [LAN] 2", Prefix: "fe80::1/64", Default: true, Usable: true},
		{Adapter: "Ethernet [LAN] 2", Prefix: "2001:db8::10/64", Default: true, Usable: true},
		{Adapter: "Ethernet 3", Prefix: "198.51.100.10/25", Usable: true},
		{Adapter: "Ethernet 4", Prefix: "203.0.113.4/24"},
	}
	if diff := cmp.Diff(want, addresses(adapters)); diff != "" {
		t.Error(diff)
	}
}

func TestRouteInterface(t *testing.T) {
	adapters := append(serverNICs(), nic("Ethernet 6", 40, "198.51.100.1/26"))
	for _, tt := range []struct {
		hop  string
		want uint32
	}{
		{"192.0.2.1", 7}, {"198.51.100.100", 9}, {"198.51.100.20", 40}, {"0.0.0.0", 7}, {"2001:db8::1", 7}, {"203.0.113.1", 0}, {"127.0.0.2", 0},
	} {
		got, err := routeInterface(netip.MustParseAddr(tt.hop), adapters)
		if got != tt.want || (tt.want == 0) != errors.Is(err, system.ErrAdapterNotFound) {
			t.Errorf("%s: interface %d %v, want %d", tt.hop, got, err, tt.want)
		}
	}
}
