package fake_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

func code(err error) uint32 {
	var e *fake.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

func TestEndpointRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, withContainers)
		n := m.System().Networks
		if err := n.Create(t.Context(), bridge("cbr0")); err != nil {
			t.Fatal(err)
		}
		if err := n.CreateEndpoint(t.Context(), "cbr0", plan.HostEndpoint{Name: "pod", Address: "10.244.1.3"}); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			network, address string
			code             uint32
			err              error
		}{
			"unknown network":   {"nat", "10.244.1.2", 0x803b0001, system.ErrNetworkNotFound},
			"address of a pod":  {"cbr0", "10.244.1.3", 5010, system.ErrExist},
			"the gateway":       {"cbr0", "10.244.1.1", 0x803b002f, nil},
			"another subnet":    {"cbr0", "10.244.2.2", 0x803b002f, nil},
			"no address at all": {"cbr0", "", 0x803b002f, nil},
		} {
			err := n.CreateEndpoint(t.Context(), c.network, plan.HostEndpoint{Name: "ep", Address: c.address})
			if code(err) != c.code || c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, err := range map[string]error{
			"attach":      n.AttachEndpoint(t.Context(), "ep"),
			"delete":      n.DeleteEndpoint(t.Context(), "ep"),
			"twice":       errors.Join(n.DeleteEndpoint(t.Context(), "pod"), n.DeleteEndpoint(t.Context(), "pod")),
			"its network": errors.Join(n.Delete(t.Context(), "cbr0"), errors.Unwrap(n.DeleteEndpoint(t.Context(), "pod"))),
		} {
			if !errors.Is(err, system.ErrEndpointNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestAttachedEndpointIsAnAdapter: it appears some time after the call, and goes with the endpoint.
func TestAttachedEndpointIsAnAdapter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, withContainers)
		s := m.System()
		e := plan.HostEndpoint{Name: "cbr0_ep", Address: "10.244.1.2"}
		if err := errors.Join(s.Networks.Create(t.Context(), bridge("cbr0")), s.Networks.CreateEndpoint(t.Context(), "cbr0", e)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.Networks.AttachEndpoint(t.Context(), "cbr0_ep"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Routes.Forwarding(e.Address); !errors.Is(err, system.ErrAdapterNotFound) {
			t.Errorf("at once: %v", err)
		}
		if err := s.Clock.Sleep(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if on, err := s.Routes.Forwarding(e.Address); on || err != nil {
			t.Errorf("later: %t, %v", on, err)
		}
		got, attached, err := s.Networks.Endpoint("cbr0", "CBR0_ep")
		if err != nil || !attached || got != e {
			t.Errorf("got %+v, %t, %v", got, attached, err)
		}
		if err := s.Networks.DeleteEndpoint(t.Context(), "cbr0_ep"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Routes.Forwarding(e.Address); !errors.Is(err, system.ErrAdapterNotFound) {
			t.Errorf("in the end: %v", err)
		}
	})
}

func TestRemoteRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, withContainers)
		n := m.System().Networks
		if err := errors.Join(n.Create(t.Context(), overlay("vxlan0"))); err != nil {
			t.Fatal(err)
		}
		first := plan.RemoteSubnet{Prefix: "10.244.2.0/24", ProviderAddress: "192.0.2.20", MAC: "0a:00:00:00:00:01", VSID: 4096}
		if err := n.AddRemotes(t.Context(), "vxlan0", []plan.RemoteSubnet{first}); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			edit func(*plan.RemoteSubnet)
			code uint32
		}{
			"the same prefix":     {func(r *plan.RemoteSubnet) { r.ProviderAddress = "192.0.2.21" }, 5010},
			"VNI 1":               {func(r *plan.RemoteSubnet) { r.Prefix, r.VSID = "10.244.3.0/24", 1 }, 87},
			"another VNI":         {func(r *plan.RemoteSubnet) { r.Prefix, r.VSID = "10.244.3.0/24", 4097 }, 87},
			"no prefix":           {func(r *plan.RemoteSubnet) { r.Prefix = "10.244.3.0" }, 87},
			"one that is deleted": {nil, 1168},
		} {
			r, change := first, n.AddRemotes
			if c.edit != nil {
				c.edit(&r)
			} else {
				r.MAC, change = "0a:00:00:00:00:02", n.DeleteRemotes
			}
			if err := change(t.Context(), "vxlan0", []plan.RemoteSubnet{r}); code(err) != c.code {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := n.AddRemotes(t.Context(), "nat", nil); !errors.Is(err, system.ErrNetworkNotFound) {
			t.Errorf("unknown network: %v", err)
		}
		have, err := n.Remotes("vxlan0")
		if diff := cmp.Diff([]plan.RemoteSubnet{first}, have); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		if mac, err := n.DRMAC("vxlan0"); err != nil || mac != "00:15:5d:00:02:0a" {
			t.Errorf("got %s, %v", mac, err)
		}
	})
}
