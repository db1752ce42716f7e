package step_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// cloudRoutes are what clouds put on a machine; the last two are nobody's business here.
func cloudRoutes() (cloud, others []plan.Route) {
	cloud = []plan.Route{
		{Destination: "168.63.129.16/32", NextHop: "192.0.2.1"},
		{Destination: "169.254.169.254/32", NextHop: "0.0.0.0"},
		{Destination: "169.254.169.253/32", NextHop: "192.0.2.1"},
	}
	others = []plan.Route{
		{Destination: "203.0.113.7/32", NextHop: "192.0.2.1"},
		{Destination: "169.254.0.0/16", NextHop: "192.0.2.1"},
	}
	return cloud, others
}

func (r *rig) destinations() []string {
	r.t.Helper()
	list, err := r.sys.Routes.List()
	r.must(err)
	var out []string
	for _, route := range list {
		out = append(out, route.Destination)
	}
	slices.Sort(out)
	return out
}

func withCloudRoutes(t *testing.T, o fake.Options, f func(*testing.T, *rig, []string)) {
	t.Helper()
	o.Features = containers()
	withRig(t, o, func(t *testing.T, r *rig) {
		cloud, others := cloudRoutes()
		for _, route := range append(slices.Clone(others), cloud...) {
			r.must(r.sys.Routes.Add(route))
		}
		var want []string
		for _, route := range cloud {
			want = append(want, route.Destination)
		}
		slices.Sort(want)
		f(t, r, want)
	})
}

// TestFailure38MetadataRoute: sig-windows-tools#36, hcsshim#299, ovn-kubernetes#3119, CAPZ#2132: the routes to a cloud's services outlive the making, the
// replacing and the end of a network, a run that was cut off in between, and a reboot that loses them.
func TestFailure38MetadataRoute(t *testing.T) {
	t.Run("while networks come and go", func(t *testing.T) {
		withCloudRoutes(t, fake.Options{}, func(t *testing.T, r *rig, want []string) {
			for _, prefix := range []string{"10.244.1", "10.244.9"} {
				n := network()
				n.Prefix, n.Gateway = prefix+".0/24", prefix+".1"
				r.apply(networks(n))
				if diff := cmp.Diff(want, r.destinations()); diff != "" {
					t.Errorf("%s: %s", prefix, diff)
				}
			}
			r.apply(plan.Empty())
			if diff := cmp.Diff(want, r.destinations()); diff != "" {
				t.Errorf("after the network: %s", diff)
			}
		})
	})
	t.Run("lost behind the agent's back", func(t *testing.T) {
		withCloudRoutes(t, fake.Options{}, func(t *testing.T, r *rig, want []string) {
			r.apply(networks(network()))
			cloud, _ := cloudRoutes()
			r.must(r.sys.Routes.Delete(cloud[1]))
			if drift := r.drifted(r.one(networks(network()))); drift[0] != "network wmo: the route to 169.254.169.254/32 was lost" {
				t.Errorf("drift %v", drift)
			}
			r.apply(networks(network()))
			if diff := cmp.Diff(want, r.destinations()); diff != "" {
				t.Error(diff)
			}
			have, err := r.sys.Networks.Get("wmo")
			if err != nil || have.Name != "wmo" {
				t.Errorf("%+v, %v", have, err)
			}
		})
	})
	t.Run("somebody gave it another next hop", func(t *testing.T) {
		withCloudRoutes(t, fake.Options{}, func(t *testing.T, r *rig, want []string) {
			r.apply(networks(network()))
			cloud, _ := cloudRoutes()
			r.must(r.sys.Routes.Delete(cloud[1]))
			r.must(r.sys.Routes.Add(plan.Route{Destination: cloud[1].Destination, NextHop: "192.0.2.9"}))
			r.inSync(r.one(networks(network())))
			if diff := cmp.Diff(want, r.destinations()); diff != "" {
				t.Error(diff)
			}
		})
	})
	t.Run("a first network that is undone", func(t *testing.T) {
		dial := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no answer") }
		withCloudRoutes(t, fake.Options{Dial: dial}, func(t *testing.T, r *rig, want []string) {
			n := network()
			n.Reach = "192.0.2.200:6443"
			_, err := r.one(networks(n)).Apply(t.Context())
			r.wants(err, step.ErrNetworkLost)
			if diff := cmp.Diff(want, r.destinations()); diff != "" {
				t.Error(diff)
			}
		})
	})
	t.Run("a route that cannot be put back is told", func(t *testing.T) {
		withCloudRoutes(t, fake.Options{}, func(t *testing.T, r *rig, _ []string) {
			r.sys.Routes = noRoutes{r.sys.Routes}
			_, err := r.one(networks(network())).Apply(t.Context())
			r.wants(err, system.ErrDenied)
		})
	})
	t.Run("a machine without them", func(t *testing.T) {
		withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
			r.sys.Routes = noRoutes{r.sys.Routes}
			r.apply(networks(network()))
		})
	})
}

// noRoutes takes no route.
type noRoutes struct{ system.Routes }

func (noRoutes) Add(plan.Route) error { return system.ErrDenied }
