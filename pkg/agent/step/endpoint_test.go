package step_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// bridge is a network with a host endpoint.
func bridge(edits ...func(*plan.Network)) plan.Network {
	n := plan.Network{
		Name: "cbr0", Type: plan.NetworkL2Bridge, ManagementIP: "192.0.2.10", Prefix: "10.244.1.0/24", Gateway: "10.244.1.1",
		HostEndpoint: &plan.HostEndpoint{Name: "cbr0_ep", Address: "10.244.1.2"},
	}
	for _, e := range edits {
		e(&n)
	}
	return n
}

// bothForward fails unless the host forwards between the node's adapter and the endpoint's.
func (r *rig) bothForward() {
	r.t.Helper()
	want := []string{"vEthernet (Ethernet)", "vEthernet (cbr0_ep)"}
	if diff := cmp.Diff(want, r.m.Dump().Forwarding); diff != "" {
		r.t.Errorf("forwarding: %s", diff)
	}
}

func TestHostEndpoint(t *testing.T) {
	withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
		before := r.m.Dump()
		r.apply(networks(bridge()))
		if diff := cmp.Diff(map[string]plan.HostEndpoint{"cbr0_ep": *bridge().HostEndpoint}, r.m.Dump().Endpoints); diff != "" {
			t.Error(diff)
		}
		r.bothForward()
		// A second run changes nothing.
		r.inSync(r.one(networks(bridge())))
		for _, s := range step.Stale(plan.Plan{}, r.ledger, r.sys, r.opts) {
			r.must(s.Remove(t.Context()))
		}
		r.same(before, r.m.Dump())
		if inv := r.ledger.Inventory(); len(inv) > 0 {
			t.Errorf("still owned: %v", inv)
		}
	})
}

// TestHostEndpointDrift: whatever is taken away, a run puts it back.
func TestHostEndpointDrift(t *testing.T) {
	for name, take := range map[string]func(*rig){
		"the endpoint":           func(r *rig) { r.must(r.sys.Networks.DeleteEndpoint(r.t.Context(), "cbr0_ep")) },
		"forwarding of the node": func(r *rig) { r.must(r.sys.Routes.SetForwarding("192.0.2.10", false)) },
		"forwarding of the pods": func(r *rig) { r.must(r.sys.Routes.SetForwarding("10.244.1.2", false)) },
		"the network":            func(r *rig) { r.must(r.sys.Networks.Delete(r.t.Context(), "cbr0")) },
		"its address": func(r *rig) {
			r.must(r.sys.Networks.DeleteEndpoint(r.t.Context(), "cbr0_ep"))
			r.must(r.sys.Networks.CreateEndpoint(r.t.Context(), "cbr0", plan.HostEndpoint{Name: "cbr0_ep", Address: "10.244.1.9"}))
		},
		"the host's side": func(r *rig) {
			r.must(r.sys.Networks.DeleteEndpoint(r.t.Context(), "cbr0_ep"))
			r.must(r.sys.Networks.CreateEndpoint(r.t.Context(), "cbr0", *bridge().HostEndpoint))
		},
	} {
		t.Run(name, func(t *testing.T) {
			withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
				r.apply(networks(bridge()))
				take(r)
				r.drifted(r.one(networks(bridge())))
				r.apply(networks(bridge()))
				r.bothForward()
			})
		})
	}
}

// TestNetworkIsReplacedWithWhatLiesInIt: a network that is made anew takes its endpoint along, although that was in order when the step began.
func TestNetworkIsReplacedWithWhatLiesInIt(t *testing.T) {
	withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
		r.apply(networks(bridge()))
		other := bridge(func(n *plan.Network) { n.Gateway = "10.244.1.250" })
		r.apply(networks(other))
		r.bothForward()
	})
}

// TestNodeThatForwardedBefore: what the machine did before it goes on doing.
func TestNodeThatForwardedBefore(t *testing.T) {
	withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
		r.must(r.sys.Routes.SetForwarding("192.0.2.10", true))
		r.apply(networks(bridge()))
		for _, s := range step.Stale(plan.Plan{}, r.ledger, r.sys, r.opts) {
			r.must(s.Remove(t.Context()))
		}
		if got := r.m.Dump().Forwarding; !slices.Equal(got, []string{"Ethernet"}) {
			t.Errorf("forwarding %v", got)
		}
	})
}

// TestAddressOfTheEndpointIsTaken (microsoft/SDN#333): the pod that has it is named.
func TestAddressOfTheEndpointIsTaken(t *testing.T) {
	withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
		r.apply(networks(bridge(func(n *plan.Network) { n.HostEndpoint = nil })))
		r.must(r.sys.Networks.CreateEndpoint(t.Context(), "cbr0", plan.HostEndpoint{Name: "pod", Address: "10.244.1.2"}))
		_, err := r.one(networks(bridge())).Apply(t.Context())
		r.wants(err, system.ErrExist)
	})
}

func remote(i byte, mac string) plan.RemoteSubnet {
	return plan.RemoteSubnet{
		Prefix: "10.244." + string('0'+i) + ".0/24", ProviderAddress: "192.0.2.2" + string('0'+i), MAC: mac, VSID: 4096,
	}
}

func overlayWith(remotes ...plan.RemoteSubnet) plan.Plan {
	return networks(plan.Network{
		Name: "flannel.4096", Type: plan.NetworkOverlay, ManagementIP: "192.0.2.10", Prefix: "10.244.1.0/24", Gateway: "10.244.1.1", VSID: 4096, Remotes: remotes,
	})
}

// counted counts how often networks are made.
type counted struct {
	system.Networks
	made *int
}

func (c counted) Create(ctx context.Context, n plan.Network) error {
	*c.made++
	return c.Networks.Create(ctx, n)
}

// TestRemotesFollowTheNodes: remote subnets come and go, and the network stays.
func TestRemotesFollowTheNodes(t *testing.T) {
	const mac, other = "0a:00:00:00:00:01", "0a:00:00:00:00:02"
	withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
		made := 0
		r.sys.Networks = counted{r.sys.Networks, &made}
		for _, want := range [][]plan.RemoteSubnet{
			{remote(2, mac), remote(3, mac)},
			{remote(2, mac), remote(3, mac), remote(4, mac)},
			{remote(3, mac), remote(4, mac)},
			{remote(3, other), remote(4, mac)},
			nil,
			{remote(5, mac)},
		} {
			p := overlayWith(want...)
			for _, s := range step.Stale(p, r.ledger, r.sys, r.opts) {
				r.must(s.Remove(t.Context()))
			}
			r.apply(p)
			have, err := r.sys.Networks.Remotes("flannel.4096")
			r.must(err)
			if diff := cmp.Diff(want, have); diff != "" && len(want)+len(have) > 0 {
				t.Error(diff)
			}
		}
		if made != 1 {
			t.Errorf("the network was made %d times", made)
		}
		// What somebody else adds does not stay.
		r.must(r.sys.Networks.AddRemotes(t.Context(), "flannel.4096", []plan.RemoteSubnet{remote(7, mac)}))
		r.drifted(r.one(overlayWith(remote(5, mac))))
	})
}

// TestRemotesGoWithTheirNetwork: there is nothing to take away from a network that is gone.
func TestRemotesGoWithTheirNetwork(t *testing.T) {
	withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
		before := r.m.Dump()
		r.apply(overlayWith(remote(2, "0a:00:00:00:00:01")))
		r.must(r.sys.Networks.Delete(t.Context(), "flannel.4096"))
		for _, s := range step.Stale(plan.Plan{}, r.ledger, r.sys, r.opts) {
			r.must(s.Remove(t.Context()))
		}
		got := r.m.Dump()
		got.Addresses, before.Addresses = nil, nil // The link is still down.
		r.same(before, got)
	})
}

// TestNetworksAfterABoot (sig-windows-tools#89 and others): HNS keeps the bridge and nothing in it, and no overlay; the first run after the boot
// makes it whole before it comes to a service.
func TestNetworksAfterABoot(t *testing.T) {
	overlay := overlayWith(remote(2, "0a:00:00:00:00:01"))
	for name, p := range map[string]plan.Plan{"bridge": networks(bridge()), "overlay": overlay} {
		t.Run(name, func(t *testing.T) {
			withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
				p.Services = nil
				r.apply(p)
				before := r.m.Dump()
				r.must(r.m.Reboot(t.Context()))
				r.sys = r.m.System()
				r.drifted(r.one(p))
				r.apply(p)
				r.same(before, r.m.Dump())
			})
		})
	}
}

func TestNoHostNetworkingService(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		_, err := r.one(networks(bridge())).Check(t.Context())
		if !errors.Is(err, system.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
	})
}
