package planner

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/pkg/plan"
)

func testCluster() facts.Cluster {
	return facts.Cluster{
		APIServer: "https://api.example.test:6443", KubeletClientCA: []byte("CA\n"), ClusterDNS: []string{"10.96.0.10"},
		ClusterDomain: "cluster.local", PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/12"},
	}
}

func testHost(edits ...func(*plan.HostFacts)) plan.HostFacts {
	h := plan.HostFacts{
		AgentVersion: "v0.1.0", Capabilities: plan.Capabilities(), Hostname: "WIN-A",
		Build: 20348, UBR: 3000, Elevated: true, FreeDisk: 60 << 30, Features: []string{"Containers"},
		Addresses: []plan.AdapterAddress{{Adapter: "Ethernet", Prefix: "192.0.2.10/24", Default: true, Usable: true}},
	}
	for _, e := range edits {
		e(&h)
	}
	return h
}

func testOptions(mode string, edits ...func(*Options)) Options {
	o := Options{
		NodeName: "win-a", NodeIP: "192.0.2.10", Payload: testPayload("v1.37.2", "2.4.2"),
		Network: Network{Mode: mode, Name: "windowsmachine", VSID: 4096},
		Labels:  map[string]string{"team": "a", "tier": "b", "zone": "c", "node-role.kubernetes.io/worker": ""},
	}
	for _, e := range edits {
		e(&o)
	}
	return o
}

func mustBuild(t *testing.T, n facts.Node, o Options) plan.Plan {
	t.Helper()
	p, err := Build(testCluster(), testHost(), n, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// shuffled is the same map in another order of insertion.
func shuffled[V any](m map[string]V) map[string]V {
	out := map[string]V{}
	keys := slices.Collect(maps.Keys(m))
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, k := range keys {
		out[k] = m[k]
	}
	return out
}

func TestBuildIsDeterministic(t *testing.T) {
	c := testCluster()
	c.KubeletConfig = []byte("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n" +
		"evictionHard: {memory.available: 1Gi, nodefs.available: 5%}\nfeatureGates: {WindowsCPUAndMemoryAffinity: true, X: true}\n")
	n := facts.Node{Registered: true, PodCIDR: "10.244.1.0/24"}
	digests := map[string]bool{}
	for range 1000 {
		o := testOptions(ModeL2Bridge)
		o.Labels, o.Payload = shuffled(o.Labels), shuffled(o.Payload)
		p, err := Build(c, testHost(), n, o)
		if err != nil {
			t.Fatal(err)
		}
		digests[p.Digest()] = true
	}
	if len(digests) != 1 {
		t.Errorf("%d digests", len(digests))
	}
}

func TestBuildDoesNotDependOnWhatChangesByItself(t *testing.T) {
	base, err := Build(testCluster(), testHost(), facts.Node{}, testOptions(ModeL2Bridge))
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*plan.HostFacts){
		"boot":      func(h *plan.HostFacts) { h.BootID = "8" },
		"disk":      func(h *plan.HostFacts) { h.FreeDisk = 1 },
		"defender":  func(h *plan.HostFacts) { h.Defender = true },
		"feature":   func(h *plan.HostFacts) { h.Features = nil },
		"blobs":     func(h *plan.HostFacts) { h.HaveBlobs = []string{"x"} },
		"new names": func(h *plan.HostFacts) { h.Addresses[0].Adapter = "vEthernet (Ethernet)" },
	} {
		p, err := Build(testCluster(), testHost(edit), facts.Node{UID: "x", Ready: true}, testOptions(ModeL2Bridge))
		if err != nil || p.Digest() != base.Digest() {
			t.Errorf("%s: plan changed: %v", name, err)
		}
	}
}

func TestBuildTakesTwoPlans(t *testing.T) {
	stages := []facts.Node{{}, {Registered: true}, {Registered: true, PodCIDR: "10.244.1.0/24"}, {Registered: true, PodCIDR: "10.244.1.0/24", Ready: true}}
	for _, mode := range []string{ModeNone, ModeCustom, ModeL2Bridge, ModeOverlay} {
		t.Run(mode, func(t *testing.T) {
			var digests []string
			var last plan.Plan
			for _, n := range stages {
				last = mustBuild(t, n, testOptions(mode, func(o *Options) {
					o.Network.CNIConfig = []byte(`{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"win-overlay"}]}`)
				}))
				digests = append(digests, last.Digest())
				if n.Registered == false && len(last.Secrets) != 1 {
					t.Error("a node that is not registered needs its bootstrap kubeconfig")
				}
			}
			if got := len(slices.Compact(slices.Clone(digests))); got != 2 {
				t.Errorf("%d plans, want 2", got)
			}
			if len(last.Secrets) != 0 {
				t.Error("the bootstrap kubeconfig must go")
			}
			before := mustBuild(t, stages[0], testOptions(mode, func(o *Options) {
				o.Network.CNIConfig = []byte(`{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"win-overlay"}]}`)
			}))
			for _, ch := range plan.Diff(before, last) {
				if ch.Item == "service" {
					t.Errorf("registering must not restart a service: %s", ch)
				}
			}
		})
	}
}

func TestW17LeasesOfAnotherClusterAreCleared(t *testing.T) {
	for mode, want := range map[string]bool{ModeL2Bridge: true, ModeOverlay: true, ModeNone: false} {
		p := mustBuild(t, facts.Node{}, testOptions(mode))
		got := slices.Contains(p.Directories, plan.Directory{Path: `C:\var\lib\cni\networks`, Access: plan.AccessPublic, Purge: true})
		if got != want {
			t.Errorf("%s: got %v", mode, got)
		}
	}
}

func TestW16OurConfigurationIsFirstByNameAndAlone(t *testing.T) {
	p := mustBuild(t, facts.Node{Registered: true, PodCIDR: "10.244.1.0/24"}, testOptions(ModeOverlay))
	var found []string
	for _, f := range p.Files {
		if strings.HasPrefix(f.Path, cniConfDir+`\`) {
			found = append(found, f.Path)
		}
	}
	if diff := cmp.Diff([]string{`C:\k\cni\config\10-windowsmachine.conflist`}, found); diff != "" {
		t.Error(diff)
	}
}

func TestW70ForbiddenLabelsStayOutOfTheKubeletsFlag(t *testing.T) {
	p := mustBuild(t, facts.Node{}, testOptions(ModeNone))
	for _, a := range p.Services[1].Args {
		if strings.HasPrefix(a, "--node-labels=") && a != "--node-labels=team=a,tier=b,zone=c" {
			t.Errorf("got %s", a)
		}
	}
	_, err := Build(testCluster(), testHost(), facts.Node{}, testOptions(ModeNone, func(o *Options) { o.Labels["team"] = "-bad" }))
	if !errors.Is(err, kubelet.ErrLabel) || !strings.Contains(err.Error(), `"team"`) {
		t.Errorf("got %v", err)
	}
}

func TestBuildRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*facts.Cluster, *facts.Node, *Options)
		want error
	}{
		{"kubelet version", func(_ *facts.Cluster, _ *facts.Node, o *Options) { o.KubeletVersion = "newest" }, ErrOptions},
		{"old kubelet", func(_ *facts.Cluster, _ *facts.Node, o *Options) { o.KubeletVersion = "v1.10.0" }, kubelet.ErrUnsupported},
		{"containerd version", func(_ *facts.Cluster, _ *facts.Node, o *Options) { o.Payload = testPayload("v1.37.2", "") }, ErrOptions},
		{"mode", func(_ *facts.Cluster, _ *facts.Node, o *Options) { o.Network.Mode = "NAT" }, ErrOptions},
		{"custom without configuration", func(_ *facts.Cluster, _ *facts.Node, o *Options) { o.Network.Mode = ModeCustom }, ErrOptions},
		{"cluster's configuration", func(c *facts.Cluster, _ *facts.Node, _ *Options) { c.KubeletConfig = []byte("- x") }, kubelet.ErrClusterConfig},
		{"pod CIDR", func(_ *facts.Cluster, n *facts.Node, _ *Options) { n.Registered, n.PodCIDR = true, "10.244.1.7/24" }, nil},
		{"network's name", func(_ *facts.Cluster, n *facts.Node, o *Options) {
			n.Registered, n.PodCIDR, o.Network.Name = true, "10.244.1.0/24", `a\b`
		}, nil},
		{"vsid", func(_ *facts.Cluster, n *facts.Node, o *Options) {
			n.Registered, n.PodCIDR, o.Network.Mode, o.Network.VSID = true, "10.244.1.0/24", ModeOverlay, 1
		}, plan.ErrInvalid},
		{"cloud configuration's name", func(c *facts.Cluster, _ *facts.Node, o *Options) {
			c.CloudProvider, c.CloudConfig, o.KubeletVersion = "azure", &facts.ConfigFile{Name: `..\x`}, "v1.26.0"
		}, plan.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl, n, o := testCluster(), facts.Node{}, testOptions(ModeL2Bridge)
			c.edit(&cl, &n, &o)
			_, err := Build(cl, testHost(), n, o)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestBuildNamesEveryMissingFact(t *testing.T) {
	_, err := Build(facts.Cluster{}, plan.HostFacts{}, facts.Node{}, Options{Network: Network{Mode: ModeOverlay}})
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Fatalf("got %v", err)
	}
	want := []string{
		facts.KubeletClientCA, facts.ClusterDNS, facts.ClusterDomain, facts.PodCIDRs, facts.ServiceCIDRs, "nodeName", "nodeIP",
		"kubeletVersion",
	}
	for _, b := range Needs(Network{Mode: ModeOverlay}) {
		want = append(want, "payload/"+b)
	}
	if diff := cmp.Diff(want, missing.Facts); diff != "" {
		t.Error(diff)
	}
}

func TestNeedsHavePlaces(t *testing.T) {
	var all []string
	for _, mode := range []string{ModeNone, ModeCustom, ModeL2Bridge, ModeOverlay} {
		all = append(all, Needs(Network{Mode: mode})...)
	}
	for _, name := range append(all, optional()...) {
		if places()[name] == "" {
			t.Errorf("%s has no place", name)
		}
	}
}

func TestContainerdConfigurationIsTOML(t *testing.T) {
	for version, want := range map[string]struct {
		file int
		path []string
	}{
		"1.7.27": {2, []string{"plugins", "io.containerd.grpc.v1.cri", "cni", "bin_dir"}},
		"2.0.5":  {3, []string{"plugins", "io.containerd.cri.v1.runtime", "cni", "bin_dir"}},
		"2.4.2":  {3, []string{"plugins", "io.containerd.cri.v1.runtime", "cni", "bin_dirs"}},
	} {
		v, err := kubelet.ParseVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		b, err := RenderContainerd(Containerd{Version: v, Pause: "pause", CNIBin: cniDir, CNIConf: cniConfDir, Registries: registriesDir})
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := toml.Unmarshal(b, &m); err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		if fmt.Sprint(m["version"]) != fmt.Sprint(want.file) {
			t.Errorf("%s: version %v", version, m["version"])
		}
		var at any = m
		for _, p := range want.path {
			inner, _ := at.(map[string]any)
			at = inner[p]
		}
		if s := fmt.Sprint(at); s != `C:\k\cni` && s != `[C:\k\cni]` {
			t.Errorf("%s: %v is %q", version, want.path, s)
		}
		if m["root"] != `C:\ProgramData\containerd\root` {
			t.Errorf("%s: root %v", version, m["root"])
		}
	}
}

func TestPauseImage(t *testing.T) {
	for minor, want := range map[int]string{26: "3.9", 30: "3.9", 31: "3.10", 33: "3.10", 34: "3.10.1", 36: "3.10.1", 37: "3.10.2"} {
		if got := PauseImage(kubelet.Version{Major: 1, Minor: minor}); got != "registry.k8s.io/pause:"+want {
			t.Errorf("1.%d: got %s", minor, got)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	o, n := testOptions(ModeL2Bridge), facts.Node{Registered: true, PodCIDR: "10.244.1.0/24"}
	for b.Loop() {
		if _, err := Build(testCluster(), testHost(), n, o); err != nil {
			b.Fatal(err)
		}
	}
}
