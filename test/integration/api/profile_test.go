package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

func aProfile(edits ...func(*v1alpha1.WindowsNodeProfileSpec)) *v1alpha1.WindowsNodeProfile {
	p := &v1alpha1.WindowsNodeProfile{ObjectMeta: metav1.ObjectMeta{GenerateName: "profile-"}}
	for _, e := range edits {
		e(&p.Spec)
	}
	return p
}

// defaults are those that the API's documentation names.
func defaults() v1alpha1.WindowsNodeProfileSpec {
	return v1alpha1.WindowsNodeProfileSpec{
		Connection: v1alpha1.ConnectionSpec{Port: 22, CredentialsRef: v1alpha1.SecretReference{Name: "cloud-private-key"}},
		Trust:      v1alpha1.TrustSpec{HostKeyPolicy: v1alpha1.HostKeyStrict},
		Network: v1alpha1.NetworkSpec{
			Mode: v1alpha1.NetworkAuto, VSID: 4096, Plugin: v1alpha1.PluginWinBridge,
			PodCIDRs: v1alpha1.PodCIDRsSpec{Allocation: v1alpha1.AllocationControllerManager, MaskSize: 24},
		},
		KubeProxy: v1alpha1.KubeProxySpec{Mode: v1alpha1.KubeProxyAuto},
	}
}

func TestProfileDefaults(t *testing.T) {
	with := func(edit func(*v1alpha1.WindowsNodeProfileSpec)) v1alpha1.WindowsNodeProfileSpec {
		s := defaults()
		edit(&s)
		return s
	}
	for name, c := range map[string]struct {
		spec map[string]any
		want v1alpha1.WindowsNodeProfileSpec
	}{
		"no spec":     {nil, defaults()},
		"empty spec":  {map[string]any{}, defaults()},
		"empty parts": {map[string]any{"connection": map[string]any{}, "trust": map[string]any{}, "network": map[string]any{}, "kubelet": map[string]any{}}, defaults()},
		"one field each": {
			map[string]any{"connection": map[string]any{"port": int64(2222)}, "network": map[string]any{"mode": "L2Bridge"}},
			with(func(s *v1alpha1.WindowsNodeProfileSpec) {
				s.Connection.Port, s.Network.Mode = 2222, v1alpha1.NetworkL2Bridge
			}),
		},
		"verbosity 0 is kept": {
			map[string]any{"kubelet": map[string]any{"verbosity": int64(0)}},
			with(func(s *v1alpha1.WindowsNodeProfileSpec) { s.Kubelet.Verbosity = ptr.To[int32](0) }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{}}
			o.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("WindowsNodeProfile"))
			o.SetGenerateName("profile-")
			if c.spec != nil {
				o.Object["spec"] = c.spec
			}
			create(t, o)
			got := &v1alpha1.WindowsNodeProfile{}
			if err := admin.Get(t.Context(), types.NamespacedName{Name: o.GetName()}, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
	// The operator makes its default profile so: a zero value must not be sent as empty texts.
	p := aProfile()
	create(t, p)
	if diff := cmp.Diff(defaults(), p.Spec); diff != "" {
		t.Errorf("typed zero value (-want +got):\n%s", diff)
	}
}

func TestProfileRules(t *testing.T) {
	type row struct {
		rule
		edit func(*v1alpha1.WindowsNodeProfileSpec)
	}
	refused := func(name, field, words string, edit func(*v1alpha1.WindowsNodeProfileSpec)) row {
		return row{rule{name, field, words}, edit}
	}
	accepted := func(name string, edit func(*v1alpha1.WindowsNodeProfileSpec)) row { return row{rule{name: name}, edit} }
	network := func(edit func(*v1alpha1.NetworkSpec)) func(*v1alpha1.WindowsNodeProfileSpec) {
		return func(s *v1alpha1.WindowsNodeProfileSpec) { edit(&s.Network) }
	}
	cluster := func(edit func(*v1alpha1.ClusterSpec)) func(*v1alpha1.WindowsNodeProfileSpec) {
		return func(s *v1alpha1.WindowsNodeProfileSpec) { edit(&s.Cluster) }
	}
	connection := func(edit func(*v1alpha1.ConnectionSpec)) func(*v1alpha1.WindowsNodeProfileSpec) {
		return func(s *v1alpha1.WindowsNodeProfileSpec) { edit(&s.Connection) }
	}
	kubelet := func(edit func(*v1alpha1.KubeletSpec)) func(*v1alpha1.WindowsNodeProfileSpec) {
		return func(s *v1alpha1.WindowsNodeProfileSpec) { edit(&s.Kubelet) }
	}
	ignition := func(i v1alpha1.IgnitionSpec) func(*v1alpha1.WindowsNodeProfileSpec) {
		return func(s *v1alpha1.WindowsNodeProfileSpec) { s.Ignition = &i }
	}
	url := func(u, words string) row {
		r := row{rule{name: fmt.Sprintf("apiServer %.40s", u), words: words}, cluster(func(c *v1alpha1.ClusterSpec) { c.APIServer = u })}
		if words != "" {
			r.field = "spec.cluster.apiServer"
		}
		return r
	}
	const https = "must be an https:// URL with a host"
	prefixes := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf("10.%d.0.0/16", i)
		}
		return out
	}
	for _, c := range []row{
		refused("connection port 0x10000", "spec.connection.port", "less than or equal to 65535", connection(func(c *v1alpha1.ConnectionSpec) { c.Port = 65536 })),
		refused("connection port -1", "spec.connection.port", "greater than or equal to 1", connection(func(c *v1alpha1.ConnectionSpec) { c.Port = -1 })),
		refused("long username", "spec.connection.username", "may not be more than 256", connection(func(c *v1alpha1.ConnectionSpec) { c.Username = strings.Repeat("u", 257) })),
		refused("username that no host takes", "spec.connection.username", "must not hold blanks or quotes", connection(func(c *v1alpha1.ConnectionSpec) { c.Username = "two words" })),
		accepted("domain user", connection(func(c *v1alpha1.ConnectionSpec) { c.Username = `CORP\svc` })),
		accepted("an installer", connection(func(c *v1alpha1.ConnectionSpec) {
			c.OpenSSH = &v1alpha1.OpenSSHSpec{MSIURL: "https://mirror.example.test:8443/a/b-1.msi", SHA256: strings.Repeat("a", 64)}
		})),
		refused("installer over HTTP", "spec.connection.openSSH.msiURL", "should match", connection(func(c *v1alpha1.ConnectionSpec) {
			c.OpenSSH = &v1alpha1.OpenSSHSpec{MSIURL: "http://mirror.example.test/b.msi", SHA256: strings.Repeat("a", 64)}
		})),
		refused("installer with a query", "spec.connection.openSSH.msiURL", "should match", connection(func(c *v1alpha1.ConnectionSpec) {
			c.OpenSSH = &v1alpha1.OpenSSHSpec{MSIURL: "https://mirror.example.test/b.msi?x=1&y=2", SHA256: strings.Repeat("a", 64)}
		})),
		refused("installer without a hash", "spec.connection.openSSH.sha256", "should match", connection(func(c *v1alpha1.ConnectionSpec) {
			c.OpenSSH = &v1alpha1.OpenSSHSpec{MSIURL: "https://mirror.example.test/b.msi"}
		})),
		refused("long Secret name", "spec.connection.credentialsRef.name", "may not be more than 253", connection(func(c *v1alpha1.ConnectionSpec) { c.CredentialsRef.Name = strings.Repeat("s", 254) })),

		accepted("trust on first use", func(s *v1alpha1.WindowsNodeProfileSpec) { s.Trust.HostKeyPolicy = v1alpha1.HostKeyTrustOnFirstUse }),
		refused("no such policy", "spec.trust.hostKeyPolicy", "TrustOnFirstUse", func(s *v1alpha1.WindowsNodeProfileSpec) { s.Trust.HostKeyPolicy = "Never" }),

		url("https://api.example.test:6443", ""),
		url("https://192.0.2.1:6443", ""),
		url("https://[2001:db8::1]:6443", ""),
		url("https://api.example.test", ""),
		url("http://api.example.test:6443", https),
		url("api.example.test:6443", https),
		url("https://", https),
		url("https://:6443", https),
		url("https://user:secret@api.example.test", "without credentials"),
		url("/relative", https),
		url("https://"+strings.Repeat("a", 512), "may not be more than 512"),

		accepted("dns", cluster(func(c *v1alpha1.ClusterSpec) { c.DNS = []string{"10.96.0.10", "fd00::a", "10.96.0.11"} })),
		refused("dns names", "spec.cluster.dns", "must hold IP addresses", cluster(func(c *v1alpha1.ClusterSpec) { c.DNS = []string{"10.96.0.10", "kube-dns"} })),
		refused("four dns", "spec.cluster.dns", "at most 3 items", cluster(func(c *v1alpha1.ClusterSpec) { c.DNS = []string{"10.96.0.1", "10.96.0.2", "10.96.0.3", "10.96.0.4"} })),
		accepted("domain", cluster(func(c *v1alpha1.ClusterSpec) { c.Domain = "cluster.local" })),
		refused("domain in capitals", "spec.cluster.domain", "must be a DNS name", cluster(func(c *v1alpha1.ClusterSpec) { c.Domain = "Cluster.Local" })),
		refused("domain with a dot behind", "spec.cluster.domain", "must be a DNS name", cluster(func(c *v1alpha1.ClusterSpec) { c.Domain = "cluster.local." })),
		refused("long domain", "spec.cluster.domain", "may not be more than 253", cluster(func(c *v1alpha1.ClusterSpec) { c.Domain = strings.Repeat("a.", 127) + "a" })),
		accepted("ranges", cluster(func(c *v1alpha1.ClusterSpec) {
			c.PodCIDRs, c.ServiceCIDRs = []string{"10.244.0.0/16", "fd00:1::/48"}, []string{"10.96.0.0/12"}
		})),
		refused("pod range is an address", "spec.cluster.podCIDRs", "must hold prefixes", cluster(func(c *v1alpha1.ClusterSpec) { c.PodCIDRs = []string{"10.244.0.0"} })),
		refused("pod range of 33 bits", "spec.cluster.podCIDRs", "must hold prefixes", cluster(func(c *v1alpha1.ClusterSpec) { c.PodCIDRs = []string{"10.244.0.0/33"} })),
		refused("service range is no range", "spec.cluster.serviceCIDRs", "must hold prefixes", cluster(func(c *v1alpha1.ClusterSpec) { c.ServiceCIDRs = []string{"ten"} })),
		accepted("16 pod ranges", cluster(func(c *v1alpha1.ClusterSpec) { c.PodCIDRs = prefixes(16) })),
		refused("17 pod ranges", "spec.cluster.podCIDRs", "at most 16 items", cluster(func(c *v1alpha1.ClusterSpec) { c.PodCIDRs = prefixes(17) })),
		refused("17 service ranges", "spec.cluster.serviceCIDRs", "at most 16 items", cluster(func(c *v1alpha1.ClusterSpec) { c.ServiceCIDRs = prefixes(17) })),

		accepted("ignition in a Secret", ignition(v1alpha1.IgnitionSpec{SecretName: "worker"})),
		accepted("ignition in a ConfigMap", ignition(v1alpha1.IgnitionSpec{ConfigMapName: "worker"})),
		refused("ignition in both", "spec.ignition", "exactly one of secretName and configMapName", ignition(v1alpha1.IgnitionSpec{SecretName: "a", ConfigMapName: "b"})),
		refused("ignition in none", "spec.ignition", "exactly one of secretName and configMapName", ignition(v1alpha1.IgnitionSpec{})),
		refused("long Secret", "spec.ignition.secretName", "may not be more than 253", ignition(v1alpha1.IgnitionSpec{SecretName: strings.Repeat("s", 254)})),
		refused("long ConfigMap", "spec.ignition.configMapName", "may not be more than 253", ignition(v1alpha1.IgnitionSpec{ConfigMapName: strings.Repeat("s", 254)})),

		accepted("a network of one's own", network(func(n *v1alpha1.NetworkSpec) { n.Mode, n.CNIConfig = v1alpha1.NetworkCustom, `{"type":"win-bridge"}` })),
		refused("Custom without a configuration", "spec.network", "goes with mode Custom", network(func(n *v1alpha1.NetworkSpec) { n.Mode = v1alpha1.NetworkCustom })),
		refused("a configuration without Custom", "spec.network", "goes with mode Custom", network(func(n *v1alpha1.NetworkSpec) { n.CNIConfig = `{"type":"win-bridge"}` })),
		refused("a configuration with Overlay", "spec.network", "goes with mode Custom", network(func(n *v1alpha1.NetworkSpec) { n.Mode, n.CNIConfig = v1alpha1.NetworkOverlay, `{}` })),
		refused("no such mode", "spec.network.mode", "L2Bridge", network(func(n *v1alpha1.NetworkSpec) { n.Mode = "NAT" })),
		accepted("part of flannel's network", network(func(n *v1alpha1.NetworkSpec) { n.Mode = v1alpha1.NetworkFlannelVXLAN })),
		accepted("sdnbridge", network(func(n *v1alpha1.NetworkSpec) { n.Mode, n.Plugin = v1alpha1.NetworkL2Bridge, v1alpha1.PluginSDNBridge })),
		refused("sdnbridge without L2Bridge", "spec.network", "goes with mode L2Bridge only", network(func(n *v1alpha1.NetworkSpec) { n.Plugin = v1alpha1.PluginSDNBridge })),
		refused("no such plugin", "spec.network.plugin", "WinBridge", network(func(n *v1alpha1.NetworkSpec) { n.Plugin = "NAT" })),
		accepted("ranges by the operator", network(func(n *v1alpha1.NetworkSpec) {
			n.PodCIDRs.Allocation, n.PodCIDRs.MaskSize = v1alpha1.AllocationOperator, 28
		})),
		refused("ranges by nobody", "spec.network.podCIDRs.allocation", "ControllerManager", network(func(n *v1alpha1.NetworkSpec) { n.PodCIDRs.Allocation = "Nobody" })),
		refused("small ranges", "spec.network.podCIDRs.maskSize", "less than or equal to 28", network(func(n *v1alpha1.NetworkSpec) { n.PodCIDRs.MaskSize = 29 })),
		refused("large ranges", "spec.network.podCIDRs.maskSize", "greater than or equal to 16", network(func(n *v1alpha1.NetworkSpec) { n.PodCIDRs.MaskSize = 15 })),
		accepted("peers", network(func(n *v1alpha1.NetworkSpec) { n.Nodes = peers(5000) })),
		refused("5001 peers", "spec.network.nodes", "at most 5000", network(func(n *v1alpha1.NetworkSpec) { n.Nodes = peers(5001) })),
		refused("one peer twice", "spec.network.nodes[1]", "Duplicate value", network(func(n *v1alpha1.NetworkSpec) { n.Nodes = append(peers(1), peers(1)...) })),
		refused("a peer without range", "spec.network.nodes[0].podCIDRs", "prefixes such as", network(func(n *v1alpha1.NetworkSpec) { n.Nodes = peers(1); n.Nodes[0].PodCIDRs = []string{"10.244.3.0"} })),
		refused("a peer that is no Node", "spec.network.nodes[0].name", "should match", network(func(n *v1alpha1.NetworkSpec) { n.Nodes = peers(1); n.Nodes[0].Name = "Node 1" })),
		refused("a peer without address", "spec.network.nodes[0].providerAddress", "must be an IP address", network(func(n *v1alpha1.NetworkSpec) { n.Nodes = peers(1); n.Nodes[0].ProviderAddress = "node-1" })),
		refused("a peer with half a MAC", "spec.network.nodes[0].vtepMAC", "should match", network(func(n *v1alpha1.NetworkSpec) { n.Nodes = peers(1); n.Nodes[0].VTEPMAC = "02-11-22" })),

		accepted("kube-proxy", func(s *v1alpha1.WindowsNodeProfileSpec) {
			s.KubeProxy = v1alpha1.KubeProxySpec{Mode: v1alpha1.KubeProxyManaged, Verbosity: ptr.To[int32](10), EnableDSR: ptr.To(false)}
		}),
		refused("no such kube-proxy", "spec.kubeProxy.mode", "Managed", func(s *v1alpha1.WindowsNodeProfileSpec) { s.KubeProxy.Mode = "DaemonSet" }),
		refused("kube-proxy's verbosity 11", "spec.kubeProxy.verbosity", "less than or equal to 10", func(s *v1alpha1.WindowsNodeProfileSpec) { s.KubeProxy.Verbosity = ptr.To[int32](11) }),
		refused("a short configuration", "spec.network.cniConfig", "at least 2 chars", network(func(n *v1alpha1.NetworkSpec) { n.Mode, n.CNIConfig = v1alpha1.NetworkCustom, "{" })),
		refused("a huge configuration", "spec.network.cniConfig", "may not be more than 65536", network(func(n *v1alpha1.NetworkSpec) {
			n.Mode, n.CNIConfig = v1alpha1.NetworkCustom, strings.Repeat("x", 65537)
		})),
		accepted("network name", network(func(n *v1alpha1.NetworkSpec) { n.Name = "OpenShift_net.1" })),
		refused("network name with a blank", "spec.network.name", "should match", network(func(n *v1alpha1.NetworkSpec) { n.Name = "my net" })),
		refused("long network name", "spec.network.name", "may not be more than 63", network(func(n *v1alpha1.NetworkSpec) { n.Name = strings.Repeat("n", 64) })),
		accepted("largest vsid", network(func(n *v1alpha1.NetworkSpec) { n.VSID = 16777214 })),
		refused("small vsid", "spec.network.vsid", "greater than or equal to 4096", network(func(n *v1alpha1.NetworkSpec) { n.VSID = 4095 })),
		refused("large vsid", "spec.network.vsid", "less than or equal to 16777214", network(func(n *v1alpha1.NetworkSpec) { n.VSID = 16777215 })),

		accepted("kubelet", kubelet(func(k *v1alpha1.KubeletSpec) {
			k.Verbosity, k.MaxPods, k.Labels = ptr.To[int32](10), ptr.To[int32](1000), map[string]string{"node-role.kubernetes.io/worker": ""}
		})),
		refused("verbosity -1", "spec.kubelet.verbosity", "greater than or equal to 0", kubelet(func(k *v1alpha1.KubeletSpec) { k.Verbosity = ptr.To[int32](-1) })),
		refused("verbosity 11", "spec.kubelet.verbosity", "less than or equal to 10", kubelet(func(k *v1alpha1.KubeletSpec) { k.Verbosity = ptr.To[int32](11) })),
		refused("no pods", "spec.kubelet.maxPods", "greater than or equal to 1", kubelet(func(k *v1alpha1.KubeletSpec) { k.MaxPods = ptr.To[int32](0) })),
		refused("1001 pods", "spec.kubelet.maxPods", "less than or equal to 1000", kubelet(func(k *v1alpha1.KubeletSpec) { k.MaxPods = ptr.To[int32](1001) })),
		refused("65 labels", "spec.kubelet.labels", "at most 64", kubelet(func(k *v1alpha1.KubeletSpec) {
			k.Labels = map[string]string{}
			for i := range 65 {
				k.Labels[fmt.Sprintf("l%d", i)] = ""
			}
		})),
	} {
		t.Run(c.name, func(t *testing.T) {
			c.check(t, admin.Create(t.Context(), aProfile(c.edit), client.DryRunAll))
		})
	}
}

// What discovery may find must fit: a refused status would hold up every host of the profile.
func TestProfileStatusTakesWhatIsDiscovered(t *testing.T) {
	p := aProfile()
	create(t, p)
	var ranges []string
	for i := range 64 {
		ranges = append(ranges, fmt.Sprintf("10.%d.0.0/16", i))
	}
	p.Status = v1alpha1.WindowsNodeProfileStatus{Discovered: &v1alpha1.DiscoveredStatus{
		APIServer: "https://" + strings.Repeat("a", 504), Domain: strings.Repeat("d", 253), DNS: ranges, PodCIDRs: ranges, ServiceCIDRs: ranges,
		Sources: map[string]string{"apiServer": strings.Repeat("s", 1000)},
	}, Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionFactsComplete, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonFactsMissing,
		Message: strings.Repeat("m", v1alpha1.MaxMessage), LastTransitionTime: metav1.Now(),
	}}}
	if err := admin.Status().Update(t.Context(), p); err != nil {
		t.Error(err)
	}
}

// peers are n nodes with all that a profile can say of them.
func peers(n int) []v1alpha1.NetworkNode {
	var out []v1alpha1.NetworkNode
	for i := range n {
		out = append(out, v1alpha1.NetworkNode{
			Name: fmt.Sprintf("node-%d", i), PodCIDRs: []string{fmt.Sprintf("10.%d.%d.0/24", i/256, i%256), fmt.Sprintf("fd00:%x::/64", i)},
			ProviderAddress: fmt.Sprintf("192.168.%d.%d", i/256, i%256), VTEPMAC: fmt.Sprintf("02:11:22:33:%02X:%02x", i/256, i%256),
		})
	}
	return out
}
