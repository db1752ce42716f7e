package fake_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

func withContainers(o *fake.Options) {
	o.Features = map[string]fake.Feature{"Containers": {Enabled: true}}
}

func bridge(name string) plan.Network {
	return plan.Network{Name: name, Type: plan.NetworkL2Bridge, ManagementIP: "192.0.2.10", Prefix: "10.244.1.0/24", Gateway: "10.244.1.1"}
}

func overlay(name string) plan.Network {
	n := bridge(name)
	n.Type, n.VSID = plan.NetworkOverlay, 4096
	return n
}

func address(t *testing.T, m *fake.Machine) plan.AdapterAddress {
	t.Helper()
	a, err := m.System().Machine.Addresses()
	if err != nil {
		t.Fatal(err)
	}
	return a[0]
}

func TestNetworkDropsTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, withContainers, func(o *fake.Options) {
			o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, nil }
		})
		defer m.Close()
		var events []fake.Event
		m.Watch(func(e fake.Event) { events = append(events, e) })
		nets := m.System().Networks
		if err := nets.Create(t.Context(), bridge("n")); err != nil {
			t.Fatal(err)
		}
		down := address(t, m)
		if down.Prefix == "192.0.2.10/24" || down.Default {
			t.Errorf("while the link is down: %+v", down)
		}
		if _, err := m.System().Machine.Dial(t.Context(), "tcp", "192.0.2.1:6443"); err == nil {
			t.Error("dialled while the link was down")
		}
		if err := nets.Create(t.Context(), bridge("other")); !errors.Is(err, system.ErrAdapterNotFound) {
			t.Errorf("Create while the link is down: %v", err)
		}
		pass(t, 3*time.Second)
		tentative := plan.AdapterAddress{Adapter: "vEthernet (Ethernet)", Prefix: "192.0.2.10/24", Default: true}
		if diff := cmp.Diff(tentative, address(t, m)); diff != "" {
			t.Error(diff)
		}
		pass(t, 3*time.Second)
		up := tentative
		up.Usable = true
		if diff := cmp.Diff(up, address(t, m)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]fake.Event{fake.EventLinkDown, fake.EventLinkUp}, events); diff != "" {
			t.Error(diff)
		}
		if err := nets.Create(t.Context(), overlay("second")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(up, address(t, m)); diff != "" {
			t.Errorf("a second network dropped the link: %s", diff)
		}
		for _, name := range []string{"second", "N"} {
			if err := nets.Delete(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		pass(t, 6*time.Second)
		if got := address(t, m).Adapter; got != "Ethernet" {
			t.Errorf("without networks the address is on %s", got)
		}
	})
}

func TestNetworkRefusals(t *testing.T) {
	m := newMachine(t, withContainers, func(o *fake.Options) { o.Timing.LinkDown = 2 })
	nets := m.System().Networks
	low, outside, elsewhere, odd := overlay("v"), bridge("g"), bridge("a"), bridge("t")
	low.VSID, outside.Gateway, elsewhere.ManagementIP, odd.Type = 4095, "10.9.9.9", "192.0.2.99", "NAT"
	for _, n := range []plan.Network{low, outside, odd} {
		if err := nets.Create(t.Context(), n); err == nil {
			t.Errorf("%+v passed", n)
		}
	}
	if err := nets.Create(t.Context(), elsewhere); !errors.Is(err, system.ErrAdapterNotFound) {
		t.Errorf("no adapter: %v", err)
	}
	if _, err := nets.Get("n"); !errors.Is(err, system.ErrNetworkNotFound) {
		t.Errorf("Get: %v", err)
	}
	if err := nets.Delete(t.Context(), "n"); !errors.Is(err, system.ErrNetworkNotFound) {
		t.Errorf("Delete: %v", err)
	}
	if err := nets.Create(t.Context(), bridge("n")); err != nil {
		t.Fatal(err)
	}
	if err := nets.Create(t.Context(), bridge("N")); !errors.Is(err, system.ErrNetworkExists) {
		t.Errorf("a second of the name: %v", err)
	}
	bare := newMachine(t)
	if _, err := bare.System().Networks.Get("n"); !errors.Is(err, system.ErrUnsupported) {
		t.Errorf("without the Containers feature: %v", err)
	}
}

func TestNetworksOverReboot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, withContainers)
		defer m.Close()
		nets := m.System().Networks
		for _, n := range []plan.Network{bridge("kept"), overlay("gone")} {
			if err := nets.Create(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			pass(t, 6*time.Second)
		}
		if err := m.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]plan.Network{bridge("kept")}, m.Dump().Networks); diff != "" {
			t.Error(diff)
		}
	})
}

// Several adapters, an automatic private address first, the wanted one tentative at first.
func TestW56Adapters(t *testing.T) {
	m := newMachine(t, withContainers, func(o *fake.Options) {
		o.Adapters = []fake.Adapter{
			{Name: "Ethernet", Prefix: "169.254.7.7/16"},
			{Name: "Ethernet [LAN] 2", Prefix: "192.0.2.10/24", Default: true, Tentative: true},
			{Name: "Ethernet 3", Prefix: "198.51.100.10/24"},
		}
	})
	want := []plan.AdapterAddress{
		{Adapter: "Ethernet", Prefix: "169.254.7.7/16", Usable: true},
		{Adapter: "Ethernet [LAN] 2", Prefix: "192.0.2.10/24", Default: true},
		{Adapter: "Ethernet 3", Prefix: "198.51.100.10/24", Usable: true},
	}
	got, err := m.System().Machine.Addresses()
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatal(diff, err)
	}
	if err := m.System().Networks.Create(t.Context(), bridge("n")); !errors.Is(err, system.ErrAdapterNotFound) {
		t.Errorf("network over a tentative address: %v", err)
	}
	m.SetAdapter(fake.Adapter{Name: "Ethernet [LAN] 2", Prefix: "192.0.2.10/24", Default: true})
	if err := m.System().Networks.Create(t.Context(), bridge("n")); err != nil {
		t.Error(err)
	}
	if got := m.Dump().Addresses[1].Adapter; got != "vEthernet (Ethernet [LAN] 2)" {
		t.Errorf("the switch was made on %s", got)
	}
}

func TestRoutes(t *testing.T) {
	routes := newMachine(t).System().Routes
	a, b := plan.Route{Destination: "10.244.2.0/24", NextHop: "192.0.2.11"}, plan.Route{Destination: "10.244.1.0/24", NextHop: "192.0.2.12"}
	for _, r := range []plan.Route{a, b} {
		if err := routes.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := routes.Add(a); !errors.Is(err, system.ErrExist) {
		t.Errorf("twice: %v", err)
	}
	for _, bad := range []plan.Route{{Destination: "10.244.1.7/24", NextHop: "192.0.2.1"}, {Destination: "x", NextHop: "192.0.2.1"}, {Destination: "10.0.0.0/8"}} {
		if routes.Add(bad) == nil {
			t.Errorf("%v passed", bad)
		}
	}
	got, err := routes.List()
	if diff := cmp.Diff([]plan.Route{b, a}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if err := routes.Delete(a); err != nil {
		t.Error(err)
	}
	if err := routes.Delete(a); !errors.Is(err, system.ErrNotExist) {
		t.Errorf("Delete twice: %v", err)
	}
}

func certificateDER(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestFirewallCertificatesDefender(t *testing.T) {
	m := newMachine(t, func(o *fake.Options) { o.Defender = true })
	s := m.System()
	rule := plan.FirewallRule{Name: "kubelet", Protocol: "TCP", Port: 10250}
	der := certificateDER(t)
	for name, err := range map[string]error{
		"rule": s.Firewall.Set(rule), "certificate": s.Certificates.Add("root", der),
		"exclusion": s.Defender.Add(plan.DefenderExclusion{Path: `C:\k`}),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, ok, err := s.Firewall.Get("KUBELET"); got != rule || !ok || err != nil {
		t.Errorf("rule %v %v %v", got, ok, err)
	}
	if !m.PortOpen("TCP", 10250) || m.PortOpen("UDP", 10250) {
		t.Error("PortOpen is wrong")
	}
	if ok, err := s.Certificates.Has("ROOT", der); !ok || err != nil {
		t.Errorf("certificate %v %v", ok, err)
	}
	if ok, err := s.Defender.Has(plan.DefenderExclusion{Path: `c:\K`}); !ok || err != nil {
		t.Errorf("exclusion %v %v", ok, err)
	}
	for name, err := range map[string]error{
		"port": s.Firewall.Set(plan.FirewallRule{Name: "x", Protocol: "TCP"}), "store": s.Certificates.Add("MY", der),
		"no certificate": s.Certificates.Add("ROOT", []byte("x")), "both": s.Defender.Add(plan.DefenderExclusion{Path: "a", Process: "b"}),
		"not running": newMachine(t).System().Defender.Add(plan.DefenderExclusion{Path: "a"}),
	} {
		if err == nil {
			t.Errorf("%s passed", name)
		}
	}
	for name, err := range map[string]error{
		"rule": s.Firewall.Delete("kubelet"), "certificate": s.Certificates.Delete("ROOT", der),
		"exclusion": s.Defender.Delete(plan.DefenderExclusion{Path: `C:\k`}),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(newMachine(t).Dump(), m.Dump()); diff != "" {
		t.Errorf("the machine is not as it was: %s", diff)
	}
}
