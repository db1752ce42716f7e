package kubelet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

func at(minor int) Version { return Version{1, minor, 0} }

func input(edits ...func(*Input)) Input {
	in := Input{
		Version: Version{1, 37, 2},
		Paths: Paths{
			Config: `C:\k\kubelet.conf`, ClientCA: `C:\k\kubelet-ca.crt`, Bootstrap: `C:\k\bootstrap-kubeconfig`,
			Kubeconfig: `C:\var\lib\kubelet\kubeconfig`, CertDir: `C:\var\lib\kubelet\pki`, RootDir: `C:\var\lib\kubelet`,
		},
		NodeName: "win-a", NodeIP: "192.0.2.10", ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local", Verbosity: 2,
	}
	for _, e := range edits {
		e(&in)
	}
	return in
}

func version(v Version) func(*Input) { return func(in *Input) { in.Version = v } }

func cluster(yaml string) func(*Input) {
	return func(in *Input) {
		in.Cluster = []byte("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n" + yaml)
	}
}

func config(t *testing.T, in Input) map[string]any {
	t.Helper()
	b, err := Config(in)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// linuxWorker is what an OpenShift or kubeadm Linux worker may carry, and more.
const linuxWorker = `
address: 192.0.2.99
authentication:
  anonymous: {enabled: true}
  webhook: {cacheTTL: 0s, enabled: false}
  x509: {clientCAFile: /etc/kubernetes/kubelet-ca.crt}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s}}
cgroupDriver: systemd
cgroupRoot: /
cgroupsPerQOS: true
clusterDNS: [172.30.0.10]
clusterDomain: cluster.example
containerLogMaxSize: 20Mi
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cpuManagerPolicy: static
crashLoopBackOff: {maxContainerRestartPeriod: 5m0s}
enforceNodeAllocatable: [pods]
evictionHard: {memory.available: 100Mi, nodefs.inodesFree: 5%, pid.available: 10%}
featureGates: {IPv6DualStack: true, NodeLogQuery: true, WindowsCPUAndMemoryAffinity: true, AWSEFSDriverVolumeMetrics: true}
imageMaximumGCAge: 48h
imagePullCredentialsVerificationPolicy: NeverVerifyPreloadedImages
kubeAPIQPS: 5000000
kubeReserved: {}
logging: {format: json}
maxPods: 500
memorySwap: {swapBehavior: NoSwap}
podPidsLimit: 4096
protectKernelDefaults: true
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: false
serializeImagePulls: null
serverTLSBootstrap: false
shutdownGracePeriod: 30s
singleProcessOOMKill: true
staticPodPath: /etc/kubernetes/manifests
systemReserved: {cpu: 1, memory: 3Gi, pid: 100}
systemReservedCgroup: /system.slice
tlsCipherSuites: [TLS_AES_128_GCM_SHA256]
topologyManagerPolicy: restricted
userNamespaces: {idsPerPod: 65536}
defaultPodSysctls: {net.ipv4.ip_forward: "1"}
volumePluginDir: /etc/kubernetes/kubelet-plugins
`

func TestConfigFromALinuxWorker(t *testing.T) {
	got := config(t, input(cluster(linuxWorker), func(in *Input) { in.ClusterDNS, in.ClusterDomain = nil, "" }))
	want := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"cacheTTL": "0s", "enabled": true},
			"x509":      map[string]any{"clientCAFile": `C:\k\kubelet-ca.crt`},
		},
		"authorization":            map[string]any{"mode": "Webhook", "webhook": map[string]any{"cacheAuthorizedTTL": "0s"}},
		"cgroupsPerQOS":            false,
		"clusterDNS":               []any{"172.30.0.10"},
		"clusterDomain":            "cluster.example",
		"containerLogMaxSize":      "20Mi",
		"containerRuntimeEndpoint": "npipe:////./pipe/containerd-containerd",
		"crashLoopBackOff":         map[string]any{"maxContainerRestartPeriod": "5m0s"},
		"enableSystemLogHandler":   true,
		"enableSystemLogQuery":     true,
		"enforceNodeAllocatable":   []any{},
		"evictionHard":             map[string]any{"memory.available": "100Mi"},
		// NodeLogQuery is locked from 1.36 on.
		"featureGates":                           map[string]any{"WindowsCPUAndMemoryAffinity": true},
		"imageGCHighThresholdPercent":            85.0,
		"imageGCLowThresholdPercent":             80.0,
		"imageMaximumGCAge":                      "48h",
		"imagePullCredentialsVerificationPolicy": "NeverVerifyPreloadedImages",
		"kubeAPIBurst":                           100.0,
		"kubeAPIQPS":                             5000000.0,
		"maxPods":                                500.0,
		"registerNode":                           true,
		"registerWithTaints":                     []any{map[string]any{"key": "os", "value": "Windows", "effect": "NoSchedule"}},
		"resolvConf":                             "",
		"rotateCertificates":                     true,
		"runtimeRequestTimeout":                  "10m0s",
		"serializeImagePulls":                    false,
		"serverTLSBootstrap":                     true,
		"shutdownGracePeriod":                    "30s",
		"systemReserved":                         map[string]any{"cpu": 1.0, "memory": "3Gi", "ephemeral-storage": "1Gi"},
		"tlsCipherSuites":                        []any{"TLS_AES_128_GCM_SHA256"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The newest API types are at hand in this module: what is written must decode with them strictly, whatever the version.
func TestConfigDecodesStrictly(t *testing.T) {
	for minor := 16; minor <= 40; minor++ {
		for name, in := range map[string]Input{
			"defaults": input(version(at(minor))), "cluster": input(version(at(minor)), cluster(linuxWorker)),
		} {
			b, err := Config(in)
			if err != nil {
				t.Fatal(err)
			}
			var c v1beta1.KubeletConfiguration
			if err := yaml.UnmarshalStrict(b, &c); err != nil {
				t.Errorf("1.%d %s: %v", minor, name, err)
			}
			if c.EnforceNodeAllocatable == nil || len(c.EnforceNodeAllocatable) != 0 {
				t.Errorf("1.%d %s: enforceNodeAllocatable %v must be an explicit empty list", minor, name, c.EnforceNodeAllocatable)
			}
		}
	}
}

func TestW10FieldsByVersion(t *testing.T) {
	for _, c := range []struct {
		minor      int
		have, lack []string
		gates      map[string]any
	}{
		{16, []string{"clusterDNS", "evictionHard"}, []string{
			"registerWithTaints", "containerRuntimeEndpoint", "crashLoopBackOff", "shutdownGracePeriod", "enableSystemLogHandler",
		}, nil},
		// 1.22 stands between 1.16 and 1.23 and gets what both know.
		{22, nil, []string{"registerWithTaints", "enableSystemLogHandler"}, nil},
		{23, []string{"registerWithTaints", "enableSystemLogHandler"}, []string{"containerRuntimeEndpoint", "enableSystemLogQuery"}, nil},
		{26, []string{"registerWithTaints"}, []string{"containerRuntimeEndpoint", "crashLoopBackOff"}, nil},
		{27, []string{"containerRuntimeEndpoint"}, []string{"crashLoopBackOff", "imageMaximumGCAge"}, map[string]any{"NodeLogQuery": true}},
		{
			30,
			[]string{"enableSystemLogQuery"},
			[]string{"crashLoopBackOff", "imagePullCredentialsVerificationPolicy", "imageMaximumGCAge"},
			map[string]any{"NodeLogQuery": true},
		},
		{
			31,
			[]string{"imageMaximumGCAge"},
			[]string{"crashLoopBackOff", "imagePullCredentialsVerificationPolicy", "shutdownGracePeriod"},
			map[string]any{"NodeLogQuery": true},
		},
		{
			34,
			[]string{"shutdownGracePeriod"},
			[]string{"crashLoopBackOff", "imagePullCredentialsVerificationPolicy"},
			map[string]any{"NodeLogQuery": true, "WindowsCPUAndMemoryAffinity": true},
		},
		{
			35,
			[]string{"crashLoopBackOff", "imagePullCredentialsVerificationPolicy"},
			nil,
			map[string]any{"NodeLogQuery": true, "WindowsCPUAndMemoryAffinity": true},
		},
		{37, []string{"crashLoopBackOff"}, nil, map[string]any{"WindowsCPUAndMemoryAffinity": true}},
		{38, []string{"crashLoopBackOff"}, []string{"featureGates"}, nil},
	} {
		t.Run(fmt.Sprintf("1.%d", c.minor), func(t *testing.T) {
			m := config(t, input(version(at(c.minor)), cluster(linuxWorker)))
			for _, f := range c.have {
				if _, ok := m[f]; !ok {
					t.Errorf("%s is missing", f)
				}
			}
			for _, f := range c.lack {
				if _, ok := m[f]; ok {
					t.Errorf("%s must not be there", f)
				}
			}
			gates, _ := m["featureGates"].(map[string]any)
			if diff := cmp.Diff(c.gates, gates); diff != "" {
				t.Error(diff)
			}
			delete(m, "apiVersion")
			delete(m, "kind")
			if unknown := prune(m, "", knownFields(at(c.minor))); len(unknown) > 0 {
				t.Errorf("unknown to 1.%d: %v", c.minor, unknown)
			}
		})
	}
}

func TestW10GateThatIsSwitchedOffTakesItsFieldAlong(t *testing.T) {
	m := config(t, input(cluster("featureGates: {KubeletCrashLoopBackOffMax: false}\ncrashLoopBackOff: {maxContainerRestartPeriod: 5m}\n")))
	if _, ok := m["crashLoopBackOff"]; ok {
		t.Error("crashLoopBackOff is there")
	}
	if diff := cmp.Diff(map[string]any{"KubeletCrashLoopBackOffMax": false}, m["featureGates"]); diff != "" {
		t.Error(diff)
	}
}

func TestConfigDefaults(t *testing.T) {
	m := config(t, input())
	for field, want := range map[string]any{
		"clusterDNS": []any{"10.96.0.10"}, "clusterDomain": "cluster.local", "maxPods": 250.0,
		"systemReserved": map[string]any{"cpu": "500m", "ephemeral-storage": "1Gi", "memory": "2Gi"},
		"evictionHard":   nil,
	} {
		if diff := cmp.Diff(want, m[field]); diff != "" {
			t.Errorf("%s: %s", field, diff)
		}
	}
	old := config(t, input(version(at(30))))
	if diff := cmp.Diff(map[string]any{"memory.available": "500Mi", "nodefs.available": "10%", "imagefs.available": "15%"}, old["evictionHard"]); diff != "" {
		t.Error(diff)
	}
}

func TestW13MapsAndUnsetValues(t *testing.T) {
	zero := int32(0)
	for _, c := range []struct {
		name, yaml string
		edit       func(*Input)
		field      string
		want       any
	}{
		{"nil map", "kubeReserved: null\n", nil, "kubeReserved", nil},
		{"empty map", "kubeReserved: {}\n", nil, "kubeReserved", nil},
		{
			"eviction", "evictionHard: {nodefs.available: 10%, memory.available: 500Mi}\n", nil, "evictionHard",
			map[string]any{"memory.available": "500Mi", "nodefs.available": "10%"},
		},
		{"only Linux signals", "evictionHard: {nodefs.inodesFree: 5%}\n", nil, "evictionHard", nil},
		{
			"grace period", "evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m30s}\n", nil,
			"evictionSoftGracePeriod",
			map[string]any{"memory.available": "1m30s"},
		},
		{"maxPods unset", "", nil, "maxPods", 250.0},
		{"maxPods of the cluster", "maxPods: 77\n", nil, "maxPods", 77.0},
		{"maxPods 0 is not unset", "maxPods: 77\n", func(in *Input) { in.MaxPods = &zero }, "maxPods", 0.0},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input(cluster(c.yaml))
			if c.edit != nil {
				c.edit(&in)
			}
			if diff := cmp.Diff(c.want, config(t, in)[c.field]); diff != "" {
				t.Error(diff)
			}
		})
	}
	first, err := Config(input(cluster(linuxWorker)))
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if again, _ := Config(input(cluster(linuxWorker))); !bytes.Equal(first, again) {
			t.Fatal("two renders differ")
		}
	}
}

func TestW66ClusterConfigFromAnyEditor(t *testing.T) {
	plain := "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nmaxPods: 7\n"
	want, err := Config(input(func(in *Input) { in.Cluster = []byte(plain) }))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"BOM": "\xef\xbb\xbf" + plain, "CRLF": strings.ReplaceAll(plain, "\n", "\r\n"),
		"JSON": `{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1","maxPods":7}`,
	} {
		got, err := Config(input(func(in *Input) { in.Cluster = []byte(text) }))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	if bytes.HasPrefix(want, []byte("\xef")) || bytes.Contains(want, []byte("\r")) || !bytes.HasSuffix(want, []byte("}\n")) {
		t.Error("output must be UTF-8 without a mark, with LF")
	}
	for name, text := range map[string]string{
		"UTF-16": "\xff\xfek\x00", "other kind": "kind: KubeProxyConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n",
		"no YAML": "a: b: c", "a list": "- a", "too large": strings.Repeat(" ", maxClusterConfig+1),
	} {
		if _, err := Config(input(func(in *Input) { in.Cluster = []byte(text) })); !errors.Is(err, ErrClusterConfig) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestUnsupportedVersions(t *testing.T) {
	for _, v := range []Version{{1, 15, 9}, {2, 40, 0}, {0, 37, 0}} {
		if _, err := Config(input(version(v))); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: got %v", v, err)
		}
		if _, err := Args(input(version(v))); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: got %v", v, err)
		}
	}
}

func TestSays(t *testing.T) {
	for _, c := range []struct {
		in          []byte
		dns, domain bool
	}{
		{input(cluster("clusterDNS: [10.0.0.10]\nclusterDomain: x\n")).Cluster, true, true},
		{input(cluster("clusterDNS: [10.0.0.10]\n")).Cluster, true, false},
		{input(cluster("clusterDNS: []\nclusterDomain: \"\"\n")).Cluster, false, false},
		{nil, false, false},
		{[]byte("x"), false, false},
	} {
		if dns, domain := Says(c.in); dns != c.dns || domain != c.domain {
			t.Errorf("%q: got %v %v", c.in, dns, domain)
		}
	}
}

func TestNotOnWindowsNamesRealFields(t *testing.T) {
	table := fieldTable()
	for f := range notOnWindows() {
		if _, ok := table[f]; !ok {
			t.Errorf("%s is no field", f)
		}
	}
	for f, g := range gatedFields() {
		if _, ok := table[f]; !ok {
			t.Errorf("%s is no field", f)
		}
		if _, ok := gates()[g]; !ok {
			t.Errorf("%s is no gate of the table", g)
		}
	}
}

// Every field of the newest API type is either carried over or left out for a reason that was thought about: a new one
// fails here until somebody has.
func TestEveryFieldIsDecided(t *testing.T) {
	carried := []string{
		"authentication", "authorization", "clusterDNS", "clusterDomain", "configMapAndSecretChangeDetectionStrategy",
		"containerLogMaxFiles", "containerLogMaxSize", "containerLogMaxWorkers", "containerLogMonitorInterval", "contentType",
		"crashLoopBackOff", "enableContentionProfiling", "enableControllerAttachDetach", "enableDebugFlagsHandler",
		"enableDebuggingHandlers", "enableProfilingHandler", "enableSystemLogHandler", "enableSystemLogQuery", "eventBurst",
		"eventRecordQPS", "evictionHard", "evictionMaxPodGracePeriod", "evictionMinimumReclaim",
		"evictionPressureTransitionPeriod", "evictionSoft", "evictionSoftGracePeriod", "fileCheckFrequency",
		"healthzBindAddress", "healthzPort", "httpCheckFrequency", "imageGCHighThresholdPercent", "imageGCLowThresholdPercent",
		"imageMaximumGCAge", "imageMinimumGCAge", "imagePullCredentialsVerificationPolicy", "kubeAPIBurst", "kubeAPIQPS",
		"kubeReserved", "localStorageCapacityIsolation", "maxParallelImagePulls", "maxPods", "mergeDefaultEvictionSettings",
		"nodeLeaseDurationSeconds", "nodeStatusMaxImages", "nodeStatusReportFrequency", "nodeStatusUpdateFrequency",
		"podsPerCore", "preloadedImagesVerificationAllowlist", "registryBurst", "registryPullQPS", "runtimeRequestTimeout",
		"serializeImagePulls", "shutdownGracePeriod", "shutdownGracePeriodByPodPriority", "shutdownGracePeriodCriticalPods",
		"streamingConnectionIdleTimeout", "syncFrequency", "systemReserved", "tlsCipherSuites", "tlsCurvePreferences",
		"tlsMinVersion", "volumeStatsAggPeriod",
	}
	dropped := notOnWindows()
	for f := range fieldTable() {
		if _, ok := dropped[f]; ok || strings.Contains(f, ".") || slices.Contains(carried, f) {
			continue
		}
		t.Errorf("%s: carry it over to Windows or not?", f)
	}
}

// FuzzConfig: whatever the cluster's file says, the kubelet knows every field, what keeps strangers out stays set, and a configuration that
// was made is taken as a cluster's and comes out the same.
func FuzzConfig(f *testing.F) {
	const head = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"
	f.Add([]byte(head+linuxWorker), 27)
	f.Add([]byte(head+"authentication: x\nregisterWithTaints: 1\n"), 37)
	f.Add([]byte(head+"authentication: {anonymous: {enabled: true}, webhook: {enabled: false}, x509: {clientCAFile: /x}}\nauthorization: {mode: AlwaysAllow}\n"), 37)
	f.Add([]byte(head+"featureGates: {A: true, WindowsHostNetwork: false}\nevictionHard: {pid.available: 1, memory.available: 1}\nsystemReserved: {pid: 1}\n"), 31)
	f.Add([]byte(head+"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b]\n"), 30)
	f.Add([]byte("\xef\xbb\xbf{\"kind\":\"KubeletConfiguration\",\"apiVersion\":\"kubelet.config.k8s.io/v1beta1\",\"maxPods\":1e3}\r\n"), 37)
	f.Fuzz(func(t *testing.T, b []byte, minor int) {
		in := input(version(at(minor)), func(in *Input) { in.Cluster = b })
		out, err := Config(in)
		if err != nil {
			return
		}
		var m map[string]any
		if err := json.Unmarshal(out, &m); err != nil {
			t.Fatal(err)
		}
		checkShut(t, m, in)
		delete(m, "apiVersion")
		delete(m, "kind")
		if unknown := prune(m, "", knownFields(at(minor))); len(unknown) > 0 {
			t.Errorf("unknown fields %v", unknown)
		}
		again, err := Config(input(version(at(minor)), func(in *Input) { in.Cluster = out }))
		if d := cmp.Diff(string(out), string(again)); d != "" || err != nil {
			t.Errorf("made again otherwise: %v %s", err, d)
		}
	})
}

// checkShut looks at what the cluster's file must not open. Kubelets before 1.23 take the taint from their command line only.
func checkShut(t *testing.T, m map[string]any, in Input) {
	t.Helper()
	auth, _ := m["authentication"].(map[string]any)
	got := []any{auth["anonymous"], auth["x509"], m["rotateCertificates"], m["serverTLSBootstrap"]}
	want := []any{map[string]any{"enabled": false}, map[string]any{"clientCAFile": in.Paths.ClientCA}, true, true}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if webhook, _ := auth["webhook"].(map[string]any); webhook["enabled"] != true {
		t.Errorf("webhook %v", webhook)
	}
	if authz, _ := m["authorization"].(map[string]any); authz["mode"] != "Webhook" {
		t.Errorf("authorization %v", authz)
	}
	args, err := Args(in)
	if err != nil {
		t.Fatal(err)
	}
	taints := []any{map[string]any{"key": "os", "value": "Windows", "effect": "NoSchedule"}}
	flag := slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--register-with-taints=os=Windows:NoSchedule") })
	if !cmp.Equal(m["registerWithTaints"], any(taints)) && !flag {
		t.Errorf("no taint: %v, %v", m["registerWithTaints"], args)
	}
}
