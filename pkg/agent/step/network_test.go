package step_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

func networks(n plan.Network) plan.Plan { return plan.Plan{Networks: []plan.Network{n}} }

// w56Adapters are a board controller with an automatic address, the management adapter and a data adapter.
func w56Adapters(tentative bool) []fake.Adapter {
	return []fake.Adapter{
		{Name: "Ethernet", Prefix: "169.254.7.7/16"},
		{Name: "Ethernet [LAN] 2", Prefix: "192.0.2.10/24", Default: true, Tentative: tentative},
		{Name: "Ethernet 3", Prefix: "198.51.100.10/24"},
		{Name: "vEthernet (nat)", Prefix: "172.20.0.1/20"},
	}
}

// TestW56AdapterByAddress: the network goes to the adapter that holds the management address, once that address is usable.
func TestW56AdapterByAddress(t *testing.T) {
	withRig(t, fake.Options{Features: containers(), Adapters: w56Adapters(true)}, func(t *testing.T, r *rig) {
		made := time.Time{}
		time.AfterFunc(20*time.Second, func() {
			made = r.sys.Clock.Now()
			r.m.SetAdapter(w56Adapters(false)[1])
		})
		started := r.sys.Clock.Now()
		r.apply(networks(network()))
		if made.Sub(started) < 20*time.Second {
			t.Error("the network was made before the address was usable")
		}
		list, err := r.sys.Machine.Addresses()
		r.must(err)
		i := slices.IndexFunc(list, func(a plan.AdapterAddress) bool { return a.Prefix == "192.0.2.10/24" })
		if i < 0 || list[i].Adapter != "vEthernet (Ethernet [LAN] 2)" || !list[i].Default {
			t.Errorf("addresses %v", list)
		}
	})
}

func TestW56NoAdapter(t *testing.T) {
	for name, ip := range map[string]string{"nobody holds it": "203.0.113.9", "link-local": "169.254.7.7", "always tentative": "192.0.2.10"} {
		t.Run(name, func(t *testing.T) {
			withRig(t, fake.Options{Features: containers(), Adapters: w56Adapters(true)}, func(t *testing.T, r *rig) {
				n := network()
				n.ManagementIP = ip
				_, err := r.one(networks(n)).Apply(t.Context())
				r.wants(err, system.ErrAdapterNotFound)
				_, err = r.sys.Networks.Get(n.Name)
				r.wants(err, system.ErrNetworkNotFound)
			})
		})
	}
}

func TestW56ManagementIP(t *testing.T) {
	list := []plan.AdapterAddress{
		{Adapter: "Ethernet", Prefix: "169.254.7.7/16", Usable: true, Default: true},
		{Adapter: "Ethernet", Prefix: "fe80::1/64", Usable: true, Default: true},
		{Adapter: "Ethernet 2", Prefix: "192.0.2.10/24", Usable: true, Default: true},
		{Adapter: "Ethernet 2", Prefix: "2001:db8::10/64", Usable: true, Default: true},
		{Adapter: "Ethernet 3", Prefix: "10.0.0.1/24", Usable: true},
		{Adapter: "Ethernet 4", Prefix: "1.2.3.4/24", Default: true},
		{Adapter: "broken", Prefix: "x", Usable: true, Default: true},
	}
	for n := range list {
		rotated := append(slices.Clone(list[n:]), list[:n]...)
		if got, err := step.ManagementIP(rotated); err != nil || got != "192.0.2.10" {
			t.Errorf("rotated by %d: %q, %v", n, got, err)
		}
	}
	if got, err := step.ManagementIP(list[3:5]); err != nil || got != "2001:db8::10" {
		t.Errorf("IPv6 with the default route: %q, %v", got, err)
	}
	if _, err := step.ManagementIP(list[:2]); !errors.Is(err, system.ErrAdapterNotFound) {
		t.Errorf("link-local only: %v", err)
	}
}

// TestW55NetworkGoneAfterReboot: an overlay network does not outlive a reboot; the next look makes it again, and services that were
// running stay.
func TestW55NetworkGoneAfterReboot(t *testing.T) {
	withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
		n := network()
		n.Type, n.VSID = plan.NetworkOverlay, 4096
		r.apply(networks(n))
		r.must(r.m.Reboot(t.Context()))
		drift := r.drifted(r.one(networks(n)))
		if drift[0] != "network wmo: missing" {
			t.Errorf("drift %v", drift)
		}
		r.apply(networks(n))
	})
}

func TestNetworkIsReplaced(t *testing.T) {
	withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
		r.apply(networks(network()))
		n := network()
		n.Prefix, n.Gateway = "10.244.9.0/24", "10.244.9.1"
		r.apply(networks(n))
		have, err := r.sys.Networks.Get(n.Name)
		r.must(err)
		if have.Prefix != n.Prefix {
			t.Errorf("prefix %s", have.Prefix)
		}
	})
}

// TestNetworkAdopted: one that is there and equal is left alone, and outlives the plan.
func TestNetworkAdopted(t *testing.T) {
	withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
		r.must(r.sys.Networks.Create(t.Context(), network()))
		r.apply(networks(network()))
		r.apply(plan.Empty())
		_, err := r.sys.Networks.Get("wmo")
		r.must(err)
	})
}

// stickyNetworks lists a network for some time after its deletion, or for ever.
type stickyNetworks struct {
	system.Networks
	deleted bool
}

func (s *stickyNetworks) Delete(context.Context, string) error {
	s.deleted = true
	return nil
}

func TestNetworkStuck(t *testing.T) {
	withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
		r.apply(networks(network()))
		sticky := &stickyNetworks{Networks: r.sys.Networks}
		r.sys.Networks = sticky
		n := network()
		n.Prefix, n.Gateway = "10.244.9.0/24", "10.244.9.1"
		_, err := r.one(networks(n)).Apply(t.Context())
		r.wants(err, step.ErrNetworkStuck)
		if !sticky.deleted {
			t.Error("not deleted")
		}
	})
}

// TestFirstNetworkIsUndone: when the API server cannot be reached behind a first network, the network goes again and the machine is as
// it was; when it can, it stays.
func TestFirstNetworkIsUndone(t *testing.T) {
	for _, reachable := range []bool{true, false} {
		dial := func(_ context.Context, _, address string) (net.Conn, error) {
			if !reachable || address != "api.example.test:6443" {
				return nil, errors.New("no route")
			}
			here, there := net.Pipe()
			_ = there.Close()
			return here, nil
		}
		withRig(t, fake.Options{Features: containers(), Dial: dial}, func(t *testing.T, r *rig) {
			before := r.m.Dump()
			n := network()
			n.Reach = "api.example.test:6443"
			started := r.sys.Clock.Now()
			_, err := r.one(networks(n)).Apply(t.Context())
			if reachable {
				r.must(err)
				r.inSync(r.one(networks(n)))
				return
			}
			r.wants(err, step.ErrNetworkLost)
			if waited := r.sys.Clock.Now().Sub(started); waited < 2*time.Minute || waited > 4*time.Minute {
				t.Errorf("waited %s", waited)
			}
			r.must(r.sys.Clock.Sleep(t.Context(), time.Minute))
			r.same(before, r.m.Dump())
		})
	}
}

func TestAddressDoesNotComeBack(t *testing.T) {
	withRig(t, fake.Options{Features: containers(), Timing: fake.Timing{LinkDown: time.Hour}}, func(t *testing.T, r *rig) {
		_, err := r.one(networks(network())).Apply(t.Context())
		r.wants(err, step.ErrNetworkLost)
	})
}

func TestGenerated(t *testing.T) {
	withRig(t, fake.Options{Hostname: "WIN-Node7", Adapters: w56Adapters(false)}, func(t *testing.T, r *rig) {
		r.write(`C:\k\kubelet.exe`, "MZ")
		s := service("kubelet")
		s.Args = []string{"--node-ip=${managementIP}", "--hostname-override=${hostname}"}
		r.apply(plan.Plan{
			Files: []plan.File{
				{Path: `C:\k\a`, Access: plan.AccessPublic, Inline: []byte("${hostname} ${managementIP} ${other}"), Generated: true},
				{Path: `C:\k\b`, Access: plan.AccessPublic, Inline: []byte("${hostname}")},
			},
			Services: []plan.Service{s},
		})
		if got := r.read(`C:\k\a`); got != "win-node7 192.0.2.10 ${other}" {
			t.Errorf("generated %q", got)
		}
		if got := r.read(`C:\k\b`); got != "${hostname}" {
			t.Errorf("not generated %q", got)
		}
		have, err := r.sys.Services.Config("kubelet")
		r.must(err)
		if want := []string{"--node-ip=192.0.2.10", "--hostname-override=win-node7"}; !slices.Equal(have.Args, want) {
			t.Errorf("arguments %v", have.Args)
		}
	})
}
