package planner

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/golden"
	"github.com/windowsmachine/operator/test/sources"
)

// networkCase is a mode with what it rests on.
type networkCase struct {
	plane facts.Plane
	edit  func(*Options)
}

func flannelPlane(backend string, vni, port int) facts.Plane {
	return facts.Plane{Kind: facts.PlaneFlannel, Backend: backend, VNI: vni, Port: port, From: "ConfigMap kube-flannel/kube-flannel-cfg"}
}

func networkCases() map[string]networkCase {
	mode := func(m string) func(*Options) {
		return func(o *Options) { o.Network = Network{Mode: m, VSID: 4096} }
	}
	return map[string]networkCase{
		"none":     {edit: mode(ModeNone)},
		"calico":   {edit: mode(ModeCalico), plane: facts.Plane{Kind: facts.PlaneCalico, Backend: "VXLAN", VNI: 4096, Port: 4789}},
		"l2bridge": {edit: mode(ModeL2Bridge)},
		"l2bridge-sdnbridge": {edit: func(o *Options) {
			mode(ModeL2Bridge)(o)
			o.Network.Plugin = PluginSDNBridge
		}},
		"l2bridge-dsr": {edit: func(o *Options) {
			mode(ModeL2Bridge)(o)
			on := true
			o.KubeProxy = KubeProxy{Mode: ProxyManaged, EnableDSR: &on}
		}},
		"overlay":       {edit: mode(ModeOverlay)},
		"flannelvxlan":  {edit: mode(ModeFlannelVXLAN), plane: flannelPlane("vxlan", 4096, 4789)},
		"flannelhostgw": {edit: mode(ModeFlannelHostGW), plane: flannelPlane("host-gw", 0, 0)},
	}
}

// testPeers are a Linux node and a Windows node on the link.
func testPeers() []facts.Peer {
	return []facts.Peer{
		{
			Name: "linux-0", OS: "linux", InternalIP: "192.0.2.20", PodCIDRs: []string{"10.244.0.0/24", "fd00:10:244::/64"},
			ProviderAddress: "192.0.2.20", VTEPMAC: "0a:00:00:00:00:01", VNI: 4096,
		},
		{
			Name: "win-b", OS: "windows", InternalIP: "192.0.2.21", PodCIDRs: []string{"10.244.2.0/24"},
			ProviderAddress: "192.0.2.21", VTEPMAC: "00:15:5d:00:00:02", VNI: 4096,
		},
	}
}

// proxied has what kube-proxy needs beside the network.
func proxied(c facts.Cluster, plane facts.Plane) facts.Cluster {
	c.APIServerCA, c.Plane = []byte("-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n"), plane
	return c
}

func joinedNode(peers ...facts.Peer) facts.Node {
	return facts.Node{Registered: true, PodCIDR: "10.244.1.0/24", Peers: peers}
}

// networkDocument is what a plan makes of the pod network: the HNS networks and routes, and the CNI configuration with the places that containerd looks
// for it and for its plugins.
func networkDocument(t *testing.T, p plan.Plan) []byte {
	t.Helper()
	doc := map[string]any{"networks": p.Networks, "routes": p.Routes}
	for _, f := range p.Files {
		switch f.Path {
		case cniConflist, cniConf:
			doc["cniFile"], doc["cni"] = f.Path, json.RawMessage(f.Inline)
		case containerdConf:
			var dirs []string
			for line := range strings.Lines(string(f.Inline)) {
				if strings.Contains(line, "bin_dirs") || strings.Contains(line, "conf_dir") {
					dirs = append(dirs, strings.TrimSpace(line))
				}
			}
			doc["containerd"] = dirs
		}
	}
	b, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

// TestNetworkGoldens compares what each mode makes of the pod network with a file, and has a source for every field of it.
func TestNetworkGoldens(t *testing.T) {
	lines, err := sources.Read(filepath.Join("testdata", "networks", "sources.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for name, c := range networkCases() {
		p, err := Build(proxied(testCluster(), c.plane), testHost(), joinedNode(testPeers()...), testOptions("", c.edit))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := networkDocument(t, p)
		path := filepath.Join("testdata", "networks", name+".json")
		golden.Equal(t, path, got)
		of, err := sources.Fields(got)
		if err != nil {
			t.Fatal(err)
		}
		fields = append(fields, of...)
	}
	missing, unused := sources.Compare(lines, fields)
	if len(missing)+len(unused) > 0 {
		t.Errorf("fields without a source: %q; sources of no field: %q", missing, unused)
	}
}

// TestOneNameForTheNetwork: HNS and CNI have one name for it, however it is derived (two names for one thing were the cause of many a lost day).
func TestOneNameForTheNetwork(t *testing.T) {
	for name, c := range networkCases() {
		p, err := Build(proxied(testCluster(), c.plane), testHost(), joinedNode(), testOptions("", c.edit))
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Networks) == 0 {
			continue
		}
		for _, f := range p.Files {
			if f.Path == cniConflist && !strings.Contains(string(f.Inline), fmt.Sprintf(`"name": %q`, p.Networks[0].Name)) {
				t.Errorf("%s: network %s, CNI\n%s", name, p.Networks[0].Name, f.Inline)
			}
		}
	}
}

func TestNetworkName(t *testing.T) {
	for _, c := range []struct {
		mode, name string
		vni        int
		want       string
	}{
		{ModeFlannelVXLAN, "", 4096, "flannel.4096"},
		{ModeFlannelVXLAN, "", 5000, "flannel.5000"},
		{ModeFlannelHostGW, "", 0, "cbr0"},
		{ModeCalico, "", 0, "Calico"},
		{ModeL2Bridge, "", 0, "windowsmachine"},
		{ModeOverlay, "", 4096, "windowsmachine"},
		{ModeFlannelVXLAN, "vxlan0", 4096, "vxlan0"},
	} {
		if got := NetworkName(c.mode, c.name, c.vni); got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}

func TestBuildRefusesNetworks(t *testing.T) {
	for name, c := range map[string]struct {
		mode    string
		plane   facts.Plane
		peers   []facts.Peer
		cluster func(*facts.Cluster)
		want    error
		text    []string
	}{
		"k3s#9295: flannel's defaults": {
			mode: ModeFlannelVXLAN, plane: flannelPlane("vxlan", 1, 8472), want: ErrFlannel,
			text: []string{"VNI 1 and port 8472", "kube-flannel-cfg", `"VNI": 4096`, `"Port": 4789`},
		},
		"rancher#19699: only the port": {mode: ModeFlannelVXLAN, plane: flannelPlane("vxlan", 4096, 8472), want: ErrFlannel, text: []string{"port 8472"}},
		"the range of another node": {
			mode: ModeL2Bridge, peers: []facts.Peer{{Name: "linux-7", InternalIP: "192.0.2.30", PodCIDRs: []string{"10.244.0.0/23"}}},
			want: ErrRanges, text: []string{"10.244.1.0/24", "linux-7", "spec.network.nodes"},
		},
		"pods among Services": {
			mode: ModeOverlay, cluster: func(c *facts.Cluster) { c.ServiceCIDRs = []string{"10.240.0.0/12"} },
			want: ErrRanges, text: []string{"10.244.1.0/24", "10.240.0.0/12", "spec.cluster"},
		},
		"unknown mode": {mode: "Bridge", want: ErrOptions, text: []string{"Bridge"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := proxied(testCluster(), c.plane)
			if c.cluster != nil {
				c.cluster(&cluster)
			}
			_, err := Build(cluster, testHost(), joinedNode(c.peers...), testOptions(c.mode))
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			for _, w := range c.text {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is not in %v", w, err)
				}
			}
		})
	}
}

func TestFlannelIsNotFound(t *testing.T) {
	_, err := Build(proxied(testCluster(), facts.Plane{}), testHost(), facts.Node{}, testOptions(ModeFlannelVXLAN))
	var missing *MissingError
	if !errors.As(err, &missing) || !slices.Contains(missing.Facts, facts.PodNetwork) {
		t.Errorf("got %v", err)
	}
}

func TestPodsOnTheLinkOfTheNode(t *testing.T) {
	h := testHost(func(h *plan.HostFacts) { h.Addresses[0].Prefix = "10.244.1.77/16" })
	_, err := Build(testCluster(), h, joinedNode(), testOptions(ModeL2Bridge, func(o *Options) { o.NodeIP = "10.244.1.77" }))
	if !errors.Is(err, ErrRanges) || !strings.Contains(err.Error(), "10.244.0.0/16") {
		t.Errorf("got %v", err)
	}
}

// TestCapabilities: a plan asks for nothing new that it does not use.
func TestCapabilities(t *testing.T) {
	many := make([]facts.Peer, plan.MaxItems+1)
	for i := range many {
		many[i] = facts.Peer{
			Name: fmt.Sprintf("n%04d", i), InternalIP: "192.0.2.99", ProviderAddress: "192.0.2.99", VTEPMAC: "0a:00:00:00:00:01",
			PodCIDRs: []string{fmt.Sprintf("172.%d.%d.0/24", 16+i/256, i%256)},
		}
	}
	for name, c := range map[string]struct {
		mode  string
		peers []facts.Peer
		want  []string
	}{
		"none":                   {ModeNone, nil, []string{plan.CapabilityBase}},
		"bridge":                 {ModeL2Bridge, nil, []string{plan.CapabilityBase, plan.CapabilityNetwork, plan.CapabilityHostEndpoint}},
		"bridge, many":           {ModeL2Bridge, many, []string{plan.CapabilityBase, plan.CapabilityNetwork, plan.CapabilityHostEndpoint, plan.CapabilityPeers}},
		"overlay without others": {ModeOverlay, nil, []string{plan.CapabilityBase, plan.CapabilityNetwork}},
		"overlay":                {ModeOverlay, testPeers(), []string{plan.CapabilityBase, plan.CapabilityNetwork, plan.CapabilityPeers}},
	} {
		p := mustBuild(t, joinedNode(c.peers...), testOptions(c.mode))
		if diff := cmp.Diff(c.want, p.Requires); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for _, need := range c.want {
			if !slices.Contains(append(requires(Network{Mode: c.mode}), plan.CapabilityPeers), need) {
				t.Errorf("%s: preflight does not ask for %s", name, need)
			}
		}
	}
}
