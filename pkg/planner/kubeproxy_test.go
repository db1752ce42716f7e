package planner

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/plan"
)

func proxyCluster(edits ...func(*facts.Cluster)) facts.Cluster {
	c := testCluster()
	c.APIServerCA = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	for _, e := range edits {
		e(&c)
	}
	return c
}

func flannelVXLAN(c *facts.Cluster) {
	c.Plane = facts.Plane{Kind: facts.PlaneFlannel, Backend: "vxlan", VNI: 4096, Port: 4789}
}

func flannelHostGW(c *facts.Cluster) {
	c.Plane = facts.Plane{Kind: facts.PlaneFlannel, Backend: "host-gw"}
}

func calico(backend string) func(*facts.Cluster) {
	return func(c *facts.Cluster) { c.Plane = facts.Plane{Kind: facts.PlaneCalico, Backend: backend} }
}

func proxyOptions(mode string, edits ...func(*Options)) Options {
	o := testOptions(mode, func(o *Options) { o.Network.Name, o.KubeProxy.Mode = "", ProxyAuto })
	for _, e := range edits {
		e(&o)
	}
	return o
}

func proxyNode() facts.Node {
	return facts.Node{Registered: true, PodCIDR: "10.244.3.0/24", PodCIDRs: []string{"10.244.3.0/24"}}
}

// winkernelOf is what a plan tells kube-proxy of the network.
func winkernelOf(t *testing.T, p plan.Plan) map[string]any {
	t.Helper()
	i := slices.IndexFunc(p.Files, func(f plan.File) bool { return f.Path == proxyConfig })
	if i < 0 {
		t.Fatal("no configuration of kube-proxy")
	}
	var c struct {
		Winkernel map[string]any `json:"winkernel"`
	}
	if err := yaml.Unmarshal(p.Files[i].Inline, &c); err != nil {
		t.Fatal(err)
	}
	return c.Winkernel
}

func hasService(p plan.Plan, name string) bool {
	return slices.ContainsFunc(p.Services, func(s plan.Service) bool { return s.Name == name })
}

// kube-proxy is told of the very network that the plan makes, with the addresses that are kept for it.
func TestKubeProxyByMode(t *testing.T) {
	for _, tc := range []struct {
		mode    string
		cluster facts.Cluster
		want    map[string]any
	}{
		{ModeL2Bridge, proxyCluster(), map[string]any{"networkName": "windowsmachine", "enableDSR": false, "rootHnsEndpointName": HostEndpointName("windowsmachine")}},
		{ModeOverlay, proxyCluster(), map[string]any{"networkName": "windowsmachine", "enableDSR": false, "sourceVip": "10.244.3.2"}},
		{ModeFlannelVXLAN, proxyCluster(flannelVXLAN), map[string]any{"networkName": "flannel.4096", "enableDSR": false, "sourceVip": "10.244.3.2"}},
		{ModeFlannelHostGW, proxyCluster(flannelHostGW), map[string]any{"networkName": "cbr0", "enableDSR": false, "rootHnsEndpointName": HostEndpointName("cbr0")}},
		{ModeCalico, proxyCluster(calico("None")), map[string]any{"networkName": "Calico", "enableDSR": false, "rootHnsEndpointName": "Calico_ep"}},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			p, err := Build(tc.cluster, testHost(), proxyNode(), proxyOptions(tc.mode))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, winkernelOf(t, p)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			for _, n := range p.Networks {
				if n.Name != tc.want["networkName"] {
					t.Errorf("the network is %s", n.Name)
				}
			}
			if !hasService(p, "kube-proxy") || !p.HasSecret(ProxySecret) || p.HasSecret(BootstrapSecret) {
				t.Errorf("services %v, secrets %v", p.Services, p.Secrets)
			}
			// Its first plan has the program, so that it is sent before the network cuts the line, and nothing else.
			fresh, err := Build(tc.cluster, testHost(), facts.Node{}, proxyOptions(tc.mode))
			if err != nil {
				t.Fatal(err)
			}
			if hasService(fresh, "kube-proxy") || fresh.HasSecret(ProxySecret) || !slices.Equal(fresh.Blobs(), p.Blobs()) {
				t.Errorf("before the node is registered: secrets %v", fresh.Secrets)
			}
		})
	}
}

// The service runs through the log runner, restarts for what it reads once, and not for its token, which it reads again and again.
func TestKubeProxyService(t *testing.T) {
	level := int32(5)
	p, err := Build(proxyCluster(), testHost(), proxyNode(), proxyOptions(ModeL2Bridge, func(o *Options) { o.KubeProxy.Verbosity = &level }))
	if err != nil {
		t.Fatal(err)
	}
	got := p.Services[len(p.Services)-1]
	want := plan.Service{
		Name: "kube-proxy", DisplayName: "kube-proxy", Description: "Kubernetes network proxy", Exe: `C:\k\kube-log-runner.exe`,
		Args: []string{
			`-log-file=C:\var\log\kube-proxy\kube-proxy.log`, "-log-file-size=100Mi", "-log-file-age=168h", "-flush-interval=5s",
			`C:\k\kube-proxy.exe`, `--config=C:\k\kube-proxy.conf`, "--windows-service", "--v=5",
		},
		LogFile: `C:\var\log\kube-proxy\kube-proxy.log`, Watch: []string{`C:\k\kube-proxy.exe`, `C:\k\kube-proxy.conf`, `C:\k\kube-proxy.kubeconfig`},
		Recovery: Recovery(),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff([]plan.Secret{{Name: "kube-proxy-token", Path: `C:\k\kube-proxy.token`}}, p.Secrets); diff != "" {
		t.Error(diff)
	}
	rule := plan.FirewallRule{Name: "windowsmachine-kube-proxy", Protocol: "TCP", Port: 10256}
	if !slices.Contains(p.Firewall, rule) || !slices.Contains(p.Defender, plan.DefenderExclusion{Process: `C:\k\kube-proxy.exe`}) {
		t.Errorf("firewall %v, defender %v", p.Firewall, p.Defender)
	}
	if !slices.Contains(p.Directories, plan.Directory{Path: `C:\var\log\kube-proxy`, Access: plan.AccessPublic, Purge: true}) {
		t.Error("no folder for the log")
	}
}

func TestKubeProxyIsManaged(t *testing.T) {
	for _, tc := range []struct {
		mode, proxy string
		cluster     func(*facts.Cluster)
		want        bool
		// word of the error; "" for none.
		word string
	}{
		{ModeL2Bridge, ProxyAuto, nil, true, ""},
		{ModeL2Bridge, ProxyManaged, nil, true, ""},
		{ModeL2Bridge, ProxyNone, nil, false, ""},
		{ModeL2Bridge, "", nil, false, ""},
		{ModeL2Bridge, "Sometimes", nil, false, "Sometimes"},
		{ModeFlannelVXLAN, ProxyAuto, flannelVXLAN, true, ""},
		{ModeNone, ProxyAuto, nil, false, ""},
		{ModeNone, ProxyManaged, nil, false, "nothing says which HNS network"},
		{ModeCustom, ProxyAuto, nil, false, ""},
		{ModeCustom, ProxyManaged, nil, false, "set kubeProxy.mode to None"},
		{ModeCalico, ProxyAuto, calico("None"), true, ""},
		{ModeCalico, ProxyAuto, calico("VXLAN"), false, ""},
		{ModeCalico, ProxyManaged, calico("VXLAN"), false, "source VIP"},
	} {
		t.Run(tc.mode+" "+tc.proxy, func(t *testing.T) {
			c := proxyCluster()
			if tc.cluster != nil {
				tc.cluster(&c)
			}
			o := proxyOptions(tc.mode, func(o *Options) {
				o.KubeProxy.Mode, o.Network.CNIConfig = tc.proxy, []byte(`{"cniVersion":"1.0.0","name":"x","type":"win-bridge"}`)
			})
			p, err := Build(c, testHost(), proxyNode(), o)
			if tc.word != "" {
				if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), tc.word) {
					t.Fatalf("got %v, want %q", err, tc.word)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := hasService(p, "kube-proxy"); got != tc.want || p.HasSecret(ProxySecret) != tc.want {
				t.Errorf("managed: %t", got)
			}
			if got := ManagesProxy(o.Network, o.KubeProxy, c.Plane); got != tc.want {
				t.Errorf("ManagesProxy: %t", got)
			}
		})
	}
}

// Direct server return is used where it was asked for and the machine's HNS can do it.
func TestKubeProxyDSR(t *testing.T) {
	on, off := true, false
	for _, tc := range []struct {
		name       string
		asked      *bool
		build, ubr int
		want       bool
	}{
		{"not asked", nil, 20348, 3000, false},
		{"declined", &off, 20348, 3000, false},
		{"asked", &on, 20348, 3000, true},
		{"asked of an old HNS", &on, 17763, 1400, false},
		{"asked of a newer one", &on, 17763, 1432, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := testHost(func(h *plan.HostFacts) { h.Build, h.UBR = tc.build, tc.ubr })
			p, err := Build(proxyCluster(), h, proxyNode(), proxyOptions(ModeL2Bridge, func(o *Options) { o.KubeProxy.EnableDSR = tc.asked }))
			if err != nil {
				t.Fatal(err)
			}
			if got := winkernelOf(t, p)["enableDSR"]; got != tc.want {
				t.Errorf("enableDSR %v", got)
			}
		})
	}
}

// What is missing for kube-proxy is said before the machine is touched.
func TestKubeProxyNeeds(t *testing.T) {
	o := proxyOptions(ModeL2Bridge, func(o *Options) { delete(o.Payload, BlobKubeProxy) })
	c := proxyCluster(func(c *facts.Cluster) { c.APIServer, c.APIServerCA = "", nil })
	_, err := Build(c, testHost(), facts.Node{}, o)
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Fatal(err)
	}
	for _, want := range []string{"payload/kube-proxy.exe", facts.APIServer, facts.APIServerCA} {
		if !slices.Contains(missing.Facts, want) {
			t.Errorf("%v lacks %s", missing.Facts, want)
		}
	}
	o.KubeProxy.Mode = ProxyNone
	if _, err := Build(c, testHost(), facts.Node{}, o); err != nil {
		t.Errorf("without kube-proxy: %v", err)
	}
	bad := proxyOptions(ModeL2Bridge, func(o *Options) { o.Payload[BlobKubeProxy] = Blob{SHA256: strings.Repeat("a", 64), Version: "new"} })
	if _, err := Build(proxyCluster(), testHost(), proxyNode(), bad); !errors.Is(err, ErrOptions) {
		t.Errorf("a version that is none: %v", err)
	}
	// Preflight says the same of the payload.
	n := proxyOptions(ModeL2Bridge).Network
	n.KubeProxy = true
	if !slices.ContainsFunc(Preflight(PreflightInput{Host: testHost(), Network: n, Payload: o.Payload}), func(f Finding) bool {
		return f.Code == CodePayload && strings.Contains(f.Message, BlobKubeProxy)
	}) {
		t.Error("preflight does not miss kube-proxy.exe")
	}
}

// A rejoin has both credentials, each in its own place.
func TestKubeProxyKeepsItsPlaceInARejoin(t *testing.T) {
	n := proxyNode()
	n.Rejoin = true
	p, err := Build(proxyCluster(), testHost(), n, proxyOptions(ModeL2Bridge))
	if err != nil {
		t.Fatal(err)
	}
	if !p.HasSecret(BootstrapSecret) || !p.HasSecret(ProxySecret) {
		t.Errorf("secrets %v", p.Secrets)
	}
}
