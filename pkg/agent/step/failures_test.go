package step_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// The tests named TestFailure and a number are the rows of docs/failures.md.

// SDN#371: "Waiting for the Network to be created" for ever, behind an address that is none of the machine's, or a name in its place.
func TestFailure02EveryWaitEnds(t *testing.T) {
	for name, c := range map[string]struct {
		ip      string
		options fake.Options
		want    error
	}{
		"no adapter has the address": {"203.0.113.9", fake.Options{}, system.ErrAdapterNotFound},
		"a name in its place":        {"Ethernet", fake.Options{}, system.ErrAdapterNotFound},
		"it does not come back":      {"192.0.2.10", fake.Options{Timing: fake.Timing{LinkDown: 24 * time.Hour}}, step.ErrNetworkLost},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Features = containers()
			withRig(t, c.options, func(t *testing.T, r *rig) {
				n := network()
				n.ManagementIP = c.ip
				began := r.sys.Clock.Now()
				_, err := r.one(networks(n)).Apply(t.Context())
				r.wants(err, c.want)
				if took := r.sys.Clock.Now().Sub(began); took > 2*time.Minute {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// SDN#234: what was changed was not applied by another run.
func TestFailure06ChangesAreApplied(t *testing.T) {
	for name, edit := range map[string]func(*plan.Network){
		"prefix":          func(n *plan.Network) { n.Prefix, n.Gateway = "10.244.9.0/24", "10.244.9.1" },
		"gateway":         func(n *plan.Network) { n.Gateway = "10.244.3.9" },
		"type":            func(n *plan.Network) { n.Type, n.VSID = plan.NetworkOverlay, 4096 },
		"another address": func(n *plan.Network) { n.ManagementIP = "198.51.100.10" },
	} {
		t.Run(name, func(t *testing.T) {
			withRig(t, fake.Options{Features: containers(), Adapters: w56Adapters(false)}, func(t *testing.T, r *rig) {
				r.apply(networks(network()))
				n := network()
				edit(&n)
				r.drifted(r.one(networks(n)))
				r.apply(networks(n))
			})
		})
	}
}

// aks-engine#1322: "a network with this name already exists", 0x803b0010.
func TestFailure07NetworkNameTaken(t *testing.T) {
	withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
		theirs := network()
		theirs.Prefix, theirs.Gateway = "10.1.2.0/24", "10.1.2.1"
		r.must(r.sys.Networks.Create(t.Context(), theirs))
		r.apply(networks(network()))
		have, err := r.sys.Networks.Get(theirs.Name)
		r.must(err)
		if have.Prefix != network().Prefix {
			t.Errorf("prefix %s", have.Prefix)
		}
	})
}

// shakyNetworks refuses to make a network for the first times.
type shakyNetworks struct {
	system.Networks
	left int
	err  error
}

func (s *shakyNetworks) Create(ctx context.Context, n plan.Network) error {
	if s.left > 0 {
		s.left--
		return s.err
	}
	return s.Networks.Create(ctx, n)
}

// SDN#277: "the device is not ready", error 21. A run that fails leaves nothing, and the next one, for which the agent waits longer each time,
// gets there.
func TestFailure08DeviceNotReady(t *testing.T) {
	withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
		notReady := errors.New("create network: error 21")
		r.sys.Networks = &shakyNetworks{Networks: r.sys.Networks, left: 2, err: notReady}
		for range 2 {
			_, err := r.one(networks(network())).Apply(t.Context())
			r.wants(err, notReady)
			_, err = r.sys.Networks.Get(network().Name)
			r.wants(err, system.ErrNetworkNotFound)
		}
		r.apply(networks(network()))
	})
}

// rke2#5335: a network that was just deleted still is there when the new one is made.
func TestFailure30DeleteAndCreateRace(t *testing.T) {
	withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
		r.apply(networks(network()))
		n := network()
		n.Prefix, n.Gateway = "10.244.9.0/24", "10.244.9.1"
		r.sys.Networks = &shakyNetworks{Networks: r.sys.Networks, left: 30, err: system.ErrNetworkExists}
		r.apply(networks(n))
	})
	t.Run("for ever", func(t *testing.T) {
		withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
			r.sys.Networks = &shakyNetworks{Networks: r.sys.Networks, left: 1 << 30, err: system.ErrNetworkExists}
			_, err := r.one(networks(network())).Apply(t.Context())
			r.wants(err, step.ErrNetworkStuck)
		})
	})
}

// moby#38358, Windows-Containers#278: HNS came back from a crash without networks.
func TestFailure32NetworksGoneFromHNS(t *testing.T) {
	withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
		r.apply(networks(network()))
		r.must(r.sys.Networks.Delete(t.Context(), network().Name))
		r.drifted(r.one(networks(network())))
		r.apply(networks(network()))
		_, err := r.sys.Networks.Get(network().Name)
		r.must(err)
	})
}

// flannel#1066, SDN#194: the network was bound to another address than the node's.
func TestFailure36ManagementAddress(t *testing.T) {
	withRig(t, fake.Options{Features: containers(), Adapters: w56Adapters(false)}, func(t *testing.T, r *rig) {
		other := network()
		other.ManagementIP = "198.51.100.10"
		r.must(r.sys.Networks.Create(t.Context(), other))
		r.must(r.sys.Clock.Sleep(t.Context(), time.Minute))
		if drift := r.drifted(r.one(networks(network()))); drift[0] != "network wmo: management address is 198.51.100.10, not 192.0.2.10" {
			t.Errorf("drift %v", drift)
		}
		r.apply(networks(network()))
	})
}
