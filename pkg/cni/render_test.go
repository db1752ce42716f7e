package cni

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windowsmachine/operator/test/golden"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the files in testdata")
	os.Exit(m.Run())
}

func params(edits ...func(*Params)) Params {
	p := Params{
		Name: "windowsmachine", PodCIDR: "10.244.1.0/24", NodeIP: "192.0.2.10", NodeSubnet: "192.0.2.0/24",
		ClusterCIDRs: []string{"10.244.0.0/16", "fd00:10:244::/56"}, ServiceCIDRs: []string{"fd00:10:96::/112", "10.96.0.0/12"},
		DNS: []string{"10.96.0.10"}, Domain: "cluster.local", DataDir: `C:\var\lib\cni\networks`,
	}
	for _, e := range edits {
		e(&p)
	}
	return p
}

func TestRenderGoldens(t *testing.T) {
	for name, render := range map[string]func(Params) ([]byte, error){"l2bridge": RenderL2Bridge, "overlay": RenderOverlay} {
		got, err := render(params())
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name+".conflist")
		golden.Equal(t, path, got)
		c, err := Parse(got)
		if err != nil || c.Name != "windowsmachine" || !c.List {
			t.Errorf("%s: %+v %v", name, c, err)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Params)
		want string
	}{
		{"name", func(p *Params) { p.Name = "" }, "name"},
		{"pod CIDR", func(p *Params) { p.PodCIDR = "" }, "pod CIDR"},
		{"IPv6 pods", func(p *Params) { p.PodCIDR = "fd00::/64" }, "not IPv4"},
		{"node IP", func(p *Params) { p.NodeIP = "x" }, "node IP"},
		{"cluster", func(p *Params) { p.ClusterCIDRs = []string{"10.0.0.1"} }, "cluster CIDRs"},
		{"no IPv4 service", func(p *Params) { p.ServiceCIDRs = []string{"fd00::/112"} }, "service CIDRs: none is IPv4"},
		{"too small", func(p *Params) { p.PodCIDR = "10.244.1.0/30" }, "too small"},
	} {
		for _, render := range []func(Params) ([]byte, error){RenderL2Bridge, RenderOverlay} {
			_, err := render(params(c.edit))
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v", c.name, err)
			}
		}
	}
}

func TestRenderNodeSubnetIsForBridgesOnly(t *testing.T) {
	for _, subnet := range []string{"", "192.0.2.10", "fd00::/64"} {
		p := params(func(p *Params) { p.NodeSubnet = subnet })
		if _, err := RenderL2Bridge(p); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "node subnet") {
			t.Errorf("%q: got %v", subnet, err)
		}
		if _, err := RenderOverlay(p); err != nil {
			t.Errorf("%q: %v", subnet, err)
		}
	}
}

func TestRenderDoesNotMixUpItsInput(t *testing.T) {
	cluster := append(make([]string, 0, 8), "10.244.0.0/16")
	p := params(func(p *Params) { p.ClusterCIDRs = cluster })
	first, err := RenderL2Bridge(p)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		again, err := RenderL2Bridge(p)
		if err != nil || string(again) != string(first) {
			t.Fatalf("differs: %v", err)
		}
	}
}

func TestAddress(t *testing.T) {
	for _, c := range []struct {
		prefix string
		n      int
		want   string
	}{
		{"10.244.1.0/24", Gateway, "10.244.1.1"},
		{"10.244.1.0/24", HostEndpoint, "10.244.1.2"},
		{"10.244.1.128/25", FirstPod, "10.244.1.131"},
		{"fd00::/64", 1, "fd00::1"},
		{"10.0.0.0/29", FirstPod, "10.0.0.3"},
	} {
		got, err := Address(c.prefix, c.n)
		if err != nil || got.String() != c.want {
			t.Errorf("%s + %d: got %v, %v", c.prefix, c.n, got, err)
		}
	}
	for _, p := range []string{"", "10.244.1.1/24", "10.244.1.0/31", "10.244.1.0/32", "255.255.255.252/30"} {
		if _, err := Address(p, FirstPod); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: got %v", p, err)
		}
	}
}
