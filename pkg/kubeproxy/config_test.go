package kubeproxy

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	proxyv1alpha1 "k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/test/golden"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the expected files in testdata")
	os.Exit(m.Run())
}

// bridge is the input for a bridged network, overlay for one with VXLAN.
func bridge(v kubelet.Version) Input {
	return Input{
		Version: v, NodeName: "win-1", NodeIP: "10.240.0.40", Kubeconfig: `C:\k\kube-proxy.kubeconfig`, Network: "windowsmachine",
		RootEndpoint: "windowsmachine_ep", ClusterCIDRs: []string{"fd00::/48", "10.200.0.0/16", "10.201.0.0/16"},
	}
}

func overlay(v kubelet.Version) Input {
	in := bridge(v)
	in.Network, in.RootEndpoint, in.Overlay, in.SourceVIP = "flannel.4096", "", true, "10.200.3.2"
	return in
}

func minor(n int) kubelet.Version { return kubelet.Version{Major: 1, Minor: n} }

// decode reads a configuration as kube-proxy does, but for strictness in every field.
func decode(t *testing.T, b []byte) proxyv1alpha1.KubeProxyConfiguration {
	t.Helper()
	var c proxyv1alpha1.KubeProxyConfiguration
	if err := yaml.UnmarshalStrict(b, &c); err != nil {
		t.Fatalf("%v in\n%s", err, b)
	}
	if c.Kind != "KubeProxyConfiguration" || c.APIVersion != proxyv1alpha1.SchemeGroupVersion.String() {
		t.Fatalf("%s %s", c.Kind, c.APIVersion)
	}
	return c
}

// Every version gets what it knows, in each kind of network, with and without direct server return.
func TestConfigByVersion(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   func(kubelet.Version) Input
		dsr  bool
		// gates by minor version.
		gates func(minor int) map[string]bool
	}{
		{"bridge", bridge, false, func(int) map[string]bool { return nil }},
		{"overlay", overlay, false, func(int) map[string]bool { return nil }},
		{"bridge-dsr", bridge, true, func(n int) map[string]bool {
			if n < 33 {
				return map[string]bool{"WinDSR": true}
			}
			return nil
		}},
		{"overlay-dsr", overlay, true, func(n int) map[string]bool {
			if n < 33 {
				return map[string]bool{"WinDSR": true}
			}
			return nil
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for n := 30; n <= 37; n++ {
				in := tc.in(minor(n))
				in.DSR = tc.dsr
				b, err := Config(in)
				if err != nil {
					t.Fatal(err)
				}
				c := decode(t, b)
				if diff := cmp.Diff(tc.gates(n), c.FeatureGates); diff != "" {
					t.Errorf("1.%d: -want +got\n%s", n, diff)
				}
				want := proxyv1alpha1.KubeProxyWinkernelConfiguration{
					NetworkName: in.Network, SourceVip: in.SourceVIP, EnableDSR: tc.dsr, RootHnsEndpointName: in.RootEndpoint,
				}
				if diff := cmp.Diff(want, c.Winkernel); diff != "" {
					t.Errorf("1.%d: -want +got\n%s", n, diff)
				}
				if c.Mode != "kernelspace" || c.ClusterCIDR != "10.200.0.0/16" || c.BindAddress != in.NodeIP || c.HostnameOverride != in.NodeName ||
					c.HealthzBindAddress != "0.0.0.0:10256" || c.MetricsBindAddress != "127.0.0.1:10249" || !c.WindowsRunAsService ||
					c.ClientConnection.Kubeconfig != in.Kubeconfig {
					t.Errorf("1.%d: %s", n, b)
				}
				if n == 30 || n == 37 {
					golden.Equal(t, filepath.Join("testdata", tc.name+"-1."+map[int]string{30: "30", 37: "37"}[n]+".yaml"), b)
				}
			}
		})
	}
}

// A feature gate that is locked, or unknown, keeps kube-proxy from starting: none is named that is not needed.
func TestGates(t *testing.T) {
	for _, tc := range []struct {
		minor        int
		overlay, dsr bool
		want         map[string]bool
	}{
		{19, true, true, map[string]bool{"WinOverlay": true, "WinDSR": true}},
		{19, false, false, map[string]bool{}},
		{20, true, false, map[string]bool{}},
		{32, true, true, map[string]bool{"WinDSR": true}},
		{33, true, true, map[string]bool{}},
		{34, true, true, map[string]bool{}},
		{37, false, true, map[string]bool{}},
	} {
		if diff := cmp.Diff(tc.want, gates(minor(tc.minor), tc.overlay, tc.dsr)); diff != "" {
			t.Errorf("1.%d overlay %t dsr %t: -want +got\n%s", tc.minor, tc.overlay, tc.dsr, diff)
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		bend func(*Input)
		word string
	}{
		{"nothing", func(in *Input) { *in = Input{} }, "no node name"},
		{"no network", func(in *Input) { in.Network = "" }, "no name of a network"},
		{"no kubeconfig", func(in *Input) { in.Kubeconfig = "" }, "kubeconfig"},
		{"IPv6", func(in *Input) { in.NodeIP = "fd00::1" }, "no IPv4 address"},
		{"overlay without source VIP", func(in *Input) { in.Overlay = true }, "needs a source VIP"},
		{"bridge with source VIP", func(in *Input) { in.SourceVIP = "10.200.3.2" }, "overlay networks only"},
		{"pods' range", func(in *Input) { in.ClusterCIDRs = []string{"10.200.0.0"} }, "no range of pods"},
		{"too old for direct server return", func(in *Input) { in.Version, in.DSR = minor(13), true }, "1.14"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := bridge(minor(37))
			tc.bend(&in)
			b, err := Config(in)
			if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), tc.word) || b != nil {
				t.Errorf("got %v, want %q", err, tc.word)
			}
		})
	}
}

// Without IPv4 ranges none is told; kube-proxy refuses two of one family.
func TestClusterCIDR(t *testing.T) {
	in := bridge(minor(37))
	in.ClusterCIDRs = []string{"fd00::/48"}
	b, err := Config(in)
	if err != nil || decode(t, b).ClusterCIDR != "" {
		t.Errorf("%v\n%s", err, b)
	}
}

func TestSupportsDSR(t *testing.T) {
	for _, tc := range []struct {
		build, ubr int
		want       bool
	}{
		{17763, 1431, false},
		{17763, 1432, true},
		{18362, 9999, false},
		{19041, 0, true},
		{20348, 1, true},
		{26100, 1, true},
		{0, 0, false},
	} {
		if got := SupportsDSR(tc.build, tc.ubr); got != tc.want {
			t.Errorf("%d.%d: %t", tc.build, tc.ubr, got)
		}
	}
}

// The kubeconfig is read as kube-proxy reads it: the token is taken from its file, again and again.
func TestKubeconfig(t *testing.T) {
	ca, err := os.ReadFile(filepath.Join("testdata", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := Kubeconfig("https://10.240.0.4:6443", ca, token)
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientcmd.RESTConfigFromKubeConfig(b)
	if err != nil {
		t.Fatal(err)
	}
	if c.Host != "https://10.240.0.4:6443" || c.BearerTokenFile != token || c.Insecure || !bytes.Equal(c.CAData, ca) {
		t.Errorf("%s\n%s", c.Host, b)
	}
	if bytes.Contains(b, []byte("canary")) {
		t.Error("the token is in the kubeconfig")
	}
	for name, bad := range map[string]struct {
		server string
		ca     []byte
	}{
		"plain http": {"http://10.240.0.4:8080", ca}, "no server": {"", ca}, "no host": {"https://", ca}, "no CA": {"https://10.240.0.4:6443", nil},
		"no certificate": {"https://10.240.0.4:6443", []byte("x")},
	} {
		if b, err := Kubeconfig(bad.server, bad.ca, token); !errors.Is(err, ErrInput) || b != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestArgs(t *testing.T) {
	want := []string{`--config=C:\k\kube-proxy.conf`, "--windows-service", "--v=4"}
	if diff := cmp.Diff(want, Args(`C:\k\kube-proxy.conf`, 4)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
