package planner

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/cni"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/plan"
)

// The tests named TestFailure and a number are the rows of docs/failures.md.

// everyPlan calls f with the plans of a machine in each mode, with kube-proxy where the mode has it, before and after its node is registered.
func everyPlan(t *testing.T, f func(t *testing.T, mode string, joined bool, p plan.Plan)) {
	t.Helper()
	hostGW := func(c *facts.Cluster) { c.Plane = facts.Plane{Kind: facts.PlaneFlannel, Backend: "host-gw"} }
	for mode, edit := range map[string]func(*facts.Cluster){
		ModeNone: func(*facts.Cluster) {}, ModeL2Bridge: func(*facts.Cluster) {}, ModeOverlay: func(*facts.Cluster) {},
		ModeFlannelVXLAN: flannelVXLAN, ModeFlannelHostGW: hostGW,
	} {
		for _, joined := range []bool{false, true} {
			n, name := facts.Node{}, mode+" before"
			if joined {
				n, name = facts.Node{Registered: true, PodCIDR: "10.244.1.0/24", PodCIDRs: []string{"10.244.1.0/24"}}, mode+" joined"
			}
			t.Run(name, func(t *testing.T) {
				p, err := Build(proxyCluster(edit), testHost(), n, proxyOptions(mode))
				if err != nil {
					t.Fatal(err)
				}
				f(t, mode, joined, p)
			})
		}
	}
}

// conflist is the CNI configuration of a plan, nil when it has none.
func conflist(t *testing.T, p plan.Plan) map[string]any {
	t.Helper()
	i := slices.IndexFunc(p.Files, func(f plan.File) bool { return f.Path == cniConflist })
	if i < 0 {
		return nil
	}
	var out map[string]any
	if err := json.Unmarshal(p.Files[i].Inline, &out); err != nil {
		t.Fatal(err)
	}
	return out["plugins"].([]any)[0].(map[string]any)
}

// exceptions are the destinations that pods reach without address translation.
func exceptions(plugin map[string]any) []string {
	for _, p := range plugin["policies"].([]any) {
		v := p.(map[string]any)["value"].(map[string]any)
		if v["Type"] == "OutBoundNAT" {
			var out []string
			for _, e := range v["Settings"].(map[string]any)["Exceptions"].([]any) {
				out = append(out, e.(string))
			}
			return out
		}
	}
	return nil
}

func file(t *testing.T, p plan.Plan, path string) string {
	t.Helper()
	i := slices.IndexFunc(p.Files, func(f plan.File) bool { return f.Path == path })
	if i < 0 {
		t.Fatalf("no file %s", path)
	}
	return string(p.Files[i].Inline)
}

// kubeletSettings is the kubelet's configuration in a plan.
func kubeletSettings(t *testing.T, p plan.Plan) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(file(t, p, kubeletConfig)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// SDN#170: an exception list that covers everything takes the internet away from pods.
func TestFailure03ExceptionsAreTheClusterAlone(t *testing.T) {
	everyPlan(t, func(t *testing.T, mode string, joined bool, p plan.Plan) {
		c := conflist(t, p)
		if c == nil {
			if joined && mode != ModeNone {
				t.Fatal("no CNI configuration")
			}
			return
		}
		want := []string{"10.244.0.0/16", "10.96.0.0/12"}
		if bridges(mode) {
			want = append(want, "192.0.2.0/24")
		}
		if diff := cmp.Diff(want, exceptions(c)); diff != "" {
			t.Error(diff)
		}
	})
	for _, all := range []string{"0.0.0.0/0", "0.0.0.0/1", "10.0.0.0/7"} {
		c := testCluster()
		c.PodCIDRs = []string{all}
		_, err := Build(c, testHost(), facts.Node{Registered: true, PodCIDR: "10.244.1.0/24"}, testOptions(ModeL2Bridge))
		if err == nil || !strings.Contains(err.Error(), all) {
			t.Errorf("%s: %v", all, err)
		}
	}
}

// k8s#79515, k8s#78612, Virtualization-Documentation#759, acs-engine#4001: kube-proxy looks for a network for ever that is not there, or has
// another name.
func TestFailure04KubeProxyFindsItsNetwork(t *testing.T) {
	everyPlan(t, func(t *testing.T, mode string, joined bool, p plan.Plan) {
		there := slices.ContainsFunc(p.Services, func(s plan.Service) bool { return s.Name == "kube-proxy" })
		if there != (joined && mode != ModeNone) {
			t.Fatalf("kube-proxy in the plan: %v", there)
		}
		if !there {
			return
		}
		if len(p.Networks) != 1 || winkernelOf(t, p)["networkName"] != p.Networks[0].Name {
			t.Errorf("kube-proxy wants %v, networks are %v", winkernelOf(t, p)["networkName"], p.Networks)
		}
		steps := p.Steps()
		if slices.Index(steps, plan.StepNetwork) > slices.Index(steps, plan.ServiceStep("kube-proxy")) {
			t.Errorf("kube-proxy starts before its network is there: %v", steps)
		}
	})
}

// k8s#78338, k8s#123014: the source address was lost, or changed with each start.
func TestFailure17SourceAddressIsFixed(t *testing.T) {
	everyPlan(t, func(t *testing.T, mode string, joined bool, p plan.Plan) {
		if !joined || !usesVXLAN(mode) {
			return
		}
		vip, start := winkernelOf(t, p)["sourceVip"], conflist(t, p)["ipam"].(map[string]any)["rangeStart"]
		if vip != "10.244.1.2" || start != "10.244.1.3" {
			t.Errorf("source address %v, pods from %v", vip, start)
		}
	})
}

// windows-container-networking#40: sdnbridge took now the first address for the gateway, now the second.
func TestFailure14GatewayOfSDNBridge(t *testing.T) {
	p, err := Build(testCluster(), testHost(), facts.Node{Registered: true, PodCIDR: "10.244.1.0/24"}, testOptions(ModeL2Bridge, func(o *Options) {
		o.Network.Plugin = PluginSDNBridge
		o.Payload[BlobSDNBridge] = Blob{SHA256: strings.Repeat("e", 64), Size: 1}
	}))
	if err != nil {
		t.Fatal(err)
	}
	text := file(t, p, cniConflist)
	for _, want := range []string{`"forceBridgeGateway": true`, `"gateway": "10.244.1.2"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// SDN#238: a network was named after a flag.
func TestFailure05NamesAreNoFlags(t *testing.T) {
	for _, name := range []string{"--network-plugin=kubenet", "a b", `a"b`, "a\nb"} {
		_, err := Build(testCluster(), testHost(), facts.Node{Registered: true, PodCIDR: "10.244.1.0/24"}, testOptions(ModeL2Bridge, func(o *Options) { o.Network.Name = name }))
		if err == nil {
			t.Errorf("network name %q was taken", name)
		}
	}
}

// k8s#48687: the certificate's name and the node's differ in case.
func TestFailure09NameInLowerCaseEverywhere(t *testing.T) {
	name, err := NodeName("WIN-Upper.Corp.Example")
	if err != nil || name != "win-upper" {
		t.Fatalf("%q, %v", name, err)
	}
	h := testHost(func(h *plan.HostFacts) { h.Hostname = "WIN-Upper" })
	p, err := Build(testCluster(), h, facts.Node{}, testOptions(ModeL2Bridge, func(o *Options) { o.NodeName = name }))
	if err != nil {
		t.Fatal(err)
	}
	encoded := string(p.Encode())
	for _, s := range p.Services {
		encoded += strings.Join(s.Args, " ")
	}
	for _, f := range p.Files {
		encoded += string(f.Inline)
	}
	if strings.Contains(encoded, "WIN-Upper") || !strings.Contains(encoded, "--hostname-override=win-upper") {
		t.Error("the name is not in lower case everywhere")
	}
}

// SDN#333, #298, k8s#72696, #74766, #74836: a pod was given the address of the host's endpoint.
func TestFailure13PodsBeginBehindTheFixedAddresses(t *testing.T) {
	everyPlan(t, func(t *testing.T, _ string, _ bool, p plan.Plan) {
		if c := conflist(t, p); c != nil {
			if start := c["ipam"].(map[string]any)["rangeStart"]; start != "10.244.1.3" {
				t.Errorf("the first pod gets %v", start)
			}
		}
	})
}

// MicrosoftDocs#1240: JSON in UTF-16, or with a byte order mark, is read by nobody.
func TestFailure19FilesAreUTF8WithoutMark(t *testing.T) {
	everyPlan(t, func(t *testing.T, _ string, _ bool, p plan.Plan) {
		for _, f := range p.Files {
			if bytes.HasPrefix(f.Inline, []byte("\xef\xbb\xbf")) || !utf8.Valid(f.Inline) || bytes.ContainsRune(f.Inline, 0) {
				t.Errorf("%s is no plain UTF-8", f.Path)
			}
			if strings.HasSuffix(f.Path, ".conflist") && !json.Valid(f.Inline) {
				t.Errorf("%s is no JSON", f.Path)
			}
		}
	})
}

// k8s#94924, sig-windows-tools#102: containerd's pods have no network with HNS v1 policies.
func TestFailure25PluginsSpeakHCN(t *testing.T) {
	everyPlan(t, func(t *testing.T, _ string, _ bool, p plan.Plan) {
		c := conflist(t, p)
		if c == nil {
			return
		}
		if c["apiVersion"] != 2.0 {
			t.Errorf("apiVersion %v", c["apiVersion"])
		}
		for _, policy := range c["policies"].([]any) {
			if v := policy.(map[string]any)["value"].(map[string]any); v["Type"] == nil || v["Settings"] == nil {
				t.Errorf("policy %v is of HNS v1", v)
			}
		}
	})
}

// calico#7552, sig-windows-tools PR#397: flags that a kubelet no longer knows keep it from starting.
func TestFailure39FlagsThatAreGone(t *testing.T) {
	for _, version := range []string{"v1.30.14", "v1.31.13", "v1.32.9", "v1.33.5", "v1.34.2", "v1.35.0", "v1.37.2"} {
		p := mustBuild(t, facts.Node{}, testOptions(ModeL2Bridge, func(o *Options) { o.Payload = testPayload(version, "2.4.2") }))
		for _, s := range p.Services {
			for _, a := range s.Args {
				for _, gone := range []string{"--logtostderr", "--log-dir", "--log-file=", "--network-plugin", "--cni-", "--image-pull-progress", "--allow-privileged", "--container-runtime="} {
					if s.Name == "kubelet" && strings.HasPrefix(a, gone) {
						t.Errorf("%s: %s", version, a)
					}
				}
				if strings.HasPrefix(a, "--pod-infra-container-image") && (strings.HasPrefix(version, "v1.35") || strings.HasPrefix(version, "v1.37")) {
					t.Errorf("%s: %s is gone since 1.35", version, a)
				}
			}
		}
		config := kubeletSettings(t, p)
		if config["cgroupsPerQOS"] != false || len(config["enforceNodeAllocatable"].([]any)) != 0 {
			t.Errorf("%s: a kubelet on Windows refuses this configuration: %v", version, config)
		}
	}
}

// k8s#110580, sig-windows-tools#229: a wrapper's service stays "Paused" and is never started again.
func TestFailure41ServicesComeBack(t *testing.T) {
	everyPlan(t, func(t *testing.T, _ string, _ bool, p plan.Plan) {
		for _, s := range p.Services {
			if s.Recovery == nil || len(s.Recovery.RestartDelaySeconds) == 0 || s.LogFile == "" {
				t.Errorf("service %s has no recovery or no log", s.Name)
			}
			if strings.Contains(strings.ToLower(s.Exe), "nssm") || strings.HasSuffix(s.Exe, ".ps1") {
				t.Errorf("service %s runs %s", s.Name, s.Exe)
			}
		}
	})
}

// sig-windows-tools PR#1: the path of Linux' resolv.conf ends in a sandbox error.
func TestFailure43NoResolvConfOfLinux(t *testing.T) {
	c := testCluster()
	c.KubeletConfig = []byte("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nresolvConf: /run/systemd/resolve/resolv.conf\n")
	p, err := Build(c, testHost(), facts.Node{}, testOptions(ModeL2Bridge))
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := kubeletSettings(t, p)["resolvConf"]; !ok || got != "" {
		t.Errorf("resolvConf %v", got)
	}
}

// k8s#74066, #88942, sig-windows-tools#116, rancher#23161: the pause image is for another build of Windows; SDN#366: its tag does not exist.
func TestFailure46PauseImageForEveryBuild(t *testing.T) {
	// Tags whose index has Windows 1809, ltsc2022 and ltsc2025: constants of kubeadm, by minor version.
	known := map[string]string{
		"v1.30.14": "3.9", "v1.31.13": "3.10", "v1.33.5": "3.10", "v1.34.2": "3.10.1", "v1.35.0": "3.10.1", "v1.37.2": "3.10.2",
	}
	for version, tag := range known {
		p := mustBuild(t, facts.Node{}, testOptions(ModeL2Bridge, func(o *Options) { o.Payload = testPayload(version, "2.4.2") }))
		if config := file(t, p, containerdConf); !strings.Contains(config, "registry.k8s.io/pause:"+tag+"'") {
			t.Errorf("%s: no pause:%s in\n%s", version, tag, config)
		}
	}
}

// acs-engine#2912, #2286, k0s#5852: logs and exec end in a timeout, since the kubelet's port is closed.
func TestFailure57KubeletsPortIsOpen(t *testing.T) {
	everyPlan(t, func(t *testing.T, _ string, _ bool, p plan.Plan) {
		if !slices.ContainsFunc(p.Firewall, func(r plan.FirewallRule) bool { return r.Protocol == "TCP" && r.Port == plan.PortKubelet }) {
			t.Errorf("rules %v", p.Firewall)
		}
	})
}

// Windows-Containers#92, #201, containerd#4989, k8s#116020: every start of a program and every image layer is scanned.
func TestFailure60DefenderLeavesProgramsAlone(t *testing.T) {
	everyPlan(t, func(t *testing.T, _ string, _ bool, p plan.Plan) {
		if !slices.Contains(p.Defender, plan.DefenderExclusion{Path: containerdRoot}) {
			t.Error("image layers are scanned")
		}
		for _, f := range p.Files {
			if f.Blob != "" && !slices.Contains(p.Defender, plan.DefenderExclusion{Process: f.Path}) {
				t.Errorf("%s is scanned", f.Path)
			}
		}
	})
}

// sig-windows-tools#296, sig-windows-dev-tools#9: Hyper-V was demanded, which a rented machine does not have.
func TestFailure61NoHyperV(t *testing.T) {
	everyPlan(t, func(t *testing.T, _ string, _ bool, p plan.Plan) {
		if diff := cmp.Diff([]plan.Feature{{Name: "Containers"}}, p.Features); diff != "" {
			t.Error(diff)
		}
	})
}

// rke2#9276, #3258: programs were not in PATH. Services name their files whole, so it plays no part.
func TestFailure63PathPlaysNoPart(t *testing.T) {
	everyPlan(t, func(t *testing.T, _ string, _ bool, p plan.Plan) {
		if slices.ContainsFunc(p.Env, func(e plan.EnvVar) bool { return strings.EqualFold(e.Name, "PATH") }) {
			t.Error("the plan changes PATH")
		}
		for _, s := range p.Services {
			if !strings.HasPrefix(s.Exe, `C:\`) {
				t.Errorf("service %s runs %s", s.Name, s.Exe)
			}
			if s.Name == "kubelet" && !slices.Contains(s.Args, kubeletExe) {
				t.Errorf("%s is not named whole in %v", kubeletExe, s.Args)
			}
		}
	})
}

// rke2#1497: an uninstaller deleted C:\var, C:\etc and C:\usr.
func TestFailure65OnlyFoldersOfOurOwnAreEmptied(t *testing.T) {
	everyPlan(t, func(t *testing.T, _ string, _ bool, p plan.Plan) {
		for _, d := range p.Directories {
			depth := strings.Count(d.Path, `\`)
			if d.Purge && depth < 3 && !strings.HasPrefix(d.Path, plan.InstallDir+`\`) {
				t.Errorf("%s is emptied", d.Path)
			}
		}
	})
}

// sig-windows-tools#141: the machines of the node's own network were not reachable from pods.
func TestFailure68OwnNetworkIsReached(t *testing.T) {
	p := mustBuild(t, facts.Node{Registered: true, PodCIDR: "10.244.1.0/24"}, testOptions(ModeL2Bridge))
	if got := exceptions(conflist(t, p)); !slices.Contains(got, "192.0.2.0/24") {
		t.Errorf("exceptions %v", got)
	}
}

// The addresses of a node's pod CIDR that are not for pods stay apart from those that are, also in a small range.
func TestFixedAddressesAreApart(t *testing.T) {
	for _, prefix := range []string{"10.244.1.0/24", "10.244.1.248/29"} {
		seen := map[netip.Addr]bool{}
		for _, n := range []int{cni.Gateway, cni.HostEndpoint, cni.FirstPod} {
			a, err := cni.Address(prefix, n)
			if err != nil || seen[a] {
				t.Errorf("%s: %d is %s, %v", prefix, n, a, err)
			}
			seen[a] = true
		}
	}
}
