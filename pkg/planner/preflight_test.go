package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/plan"
)

func preflightInput(edits ...func(*PreflightInput)) PreflightInput {
	now := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	in := PreflightInput{
		Host: testHost(func(h *plan.HostFacts) {
			h.Time, h.API = now, &plan.ProbeResult{Code: plan.ProbeOK}
		}),
		Now: now, APIServer: "https://api.example.test:6443", APIServerVersion: "v1.37.2", NodeIP: "192.0.2.10", CheckNodeIP: true,
		Network: Network{Mode: ModeL2Bridge}, Payload: testPayload("v1.37.2", "2.4.2"),
	}
	for _, e := range edits {
		e(&in)
	}
	return in
}

func onHost(edit func(*plan.HostFacts)) func(*PreflightInput) {
	return func(in *PreflightInput) { edit(&in.Host) }
}

func versions(kubelet, containerd, server string) func(*PreflightInput) {
	return func(in *PreflightInput) {
		in.Payload, in.APIServerVersion = testPayload(kubelet, containerd), server
	}
}

func TestPreflightPasses(t *testing.T) {
	if got := Preflight(preflightInput()); got != nil {
		t.Errorf("got %+v", got)
	}
}

func TestPreflight(t *testing.T) {
	// The eight files have 10 MiB each.
	const need = 2*8*10 + 1024
	for _, c := range []struct {
		name  string
		edit  func(*PreflightInput)
		code  Code
		fatal bool
		// want are pieces of the message: what was seen, what is needed, the way out.
		want []string
	}{
		{"no build", onHost(func(h *plan.HostFacts) { h.Build = 0 }), CodeOSUnknown, true, []string{"build number"}},
		{"Server 2016", onHost(func(h *plan.HostFacts) { h.Build = 14393 }), CodeOSTooOld, true, []string{"14393", "17763", "newer Windows Server"}},
		{"between", onHost(func(h *plan.HostFacts) { h.Build = 17762 }), CodeOSTooOld, true, []string{"17762"}},
		{"unknown build", onHost(func(h *plan.HostFacts) { h.Build = 30000 }), CodeOSUntested, false, []string{"30000", "26100"}},
		{"update", func(in *PreflightInput) {
			in.Host.Build, in.Host.UBR, in.Network.Mode = 17763, 1431, ModeOverlay
		}, CodeOSUpdateNeeded, true, []string{"17763.1431", "17763.1432", "cumulative update"}},
		{"token", onHost(func(h *plan.HostFacts) { h.Elevated = false }), CodeNotElevated, true, []string{"S-1-5-32-544"}},
		{"disk", onHost(func(h *plan.HostFacts) { h.FreeDisk = need<<20 - 1 }), CodeDiskSpace, true, []string{"1183 MiB free", "1184 MiB are needed", "extend"}},
		{
			"clock ahead", onHost(func(h *plan.HostFacts) { h.Time = h.Time.Add(5*time.Minute + time.Second) }), CodeClockSkew, true,
			[]string{"5m1s ahead of", "at most 5m0s", "W32Time"},
		},
		{"clock behind", onHost(func(h *plan.HostFacts) { h.Time = h.Time.Add(-time.Hour) }), CodeClockSkew, true, []string{"1h0m0s behind"}},
		{"clock a little off", onHost(func(h *plan.HostFacts) { h.Time = h.Time.Add(5 * time.Minute) }), CodeClockSkew, false, []string{"5m0s ahead"}},
		{"underscore", onHost(func(h *plan.HostFacts) { h.Hostname = "WIN_A" }), CodeHostname, true, []string{"WIN_A", "spec.nodeName"}},
		{"digits", onHost(func(h *plan.HostFacts) { h.Hostname = "1234567890" }), CodeHostname, true, []string{"digits only"}},
		{
			"16 characters", onHost(func(h *plan.HostFacts) { h.Hostname = "abcdefghijklmnop" }), CodeHostnameLong, false,
			[]string{"16 characters", "at most 15", "ABCDEFGHIJKLMNO"},
		},
		{"taken", func(in *PreflightInput) { in.NodeNameOwner = "other" }, CodeNodeNameTaken, true, []string{`"win-a"`, `"other"`, "spec.nodeName"}},
		{"no adapter", func(in *PreflightInput) { in.NodeIP = "192.0.2.99" }, CodeNodeIP, true, []string{"192.0.2.99", "192.0.2.10", "spec.nodeIP"}},
		{"tentative", onHost(func(h *plan.HostFacts) { h.Addresses[0].Usable = false }), CodeNodeIPPending, true, []string{"tentative"}},
		{"ambiguous", func(in *PreflightInput) {
			in.NodeIP = ""
			in.Host.Addresses = append(in.Host.Addresses, plan.AdapterAddress{Adapter: "e", Prefix: "198.51.100.1/24", Default: true, Usable: true})
		}, CodeNodeIPAmbiguous, true, []string{"192.0.2.10", "198.51.100.1", "set spec.nodeIP"}},
		{
			"API DNS", onHost(func(h *plan.HostFacts) { h.API = &plan.ProbeResult{Code: plan.ProbeDNS, Detail: "no such host"} }),
			CodeAPIServerDNS, true,
			[]string{"api.example.test:6443", "no such host", "DNS server"},
		},
		{"API connect", onHost(func(h *plan.HostFacts) { h.API = &plan.ProbeResult{Code: plan.ProbeConnect} }), CodeAPIServerConnect, true, []string{"open the way"}},
		{
			"API certificate", onHost(func(h *plan.HostFacts) { h.API = &plan.ProbeResult{Code: plan.ProbeCertificate} }),
			CodeAPIServerCertificate, true,
			[]string{"certificate", "CA in the profile"},
		},
		{"API unknown code", onHost(func(h *plan.HostFacts) { h.API = &plan.ProbeResult{Code: "Teapot"} }), CodeAPIServerConnect, true, nil},
		{"foreign service", onHost(func(h *plan.HostFacts) { h.ForeignServices = []string{"kubelet"} }), CodeForeignService, true, []string{`"kubelet"`, "remove it"}},
		{"feature", onHost(func(h *plan.HostFacts) { h.Features = nil }), CodeFeatureMissing, false, []string{"Containers", "restarted"}},
		{"agent", onHost(func(h *plan.HostFacts) { h.Capabilities = []string{plan.CapabilityBase, plan.CapabilityHostEndpoint} }), CodeAgentTooOld, true, []string{"v0.1.0", "network/v1"}},
		{"payload", func(in *PreflightInput) { delete(in.Payload, BlobHostLocal) }, CodePayload, true, []string{"host-local.exe"}},
		{"kubelet's version", versions("newest", "2.4.2", ""), CodeVersions, true, []string{`"newest"`}},
		{"containerd's version", versions("v1.37.2", "newest", ""), CodeVersions, true, []string{`"newest"`}},
		{"containerd 2, kubelet 1.22", versions("v1.22.1", "2.0.1", ""), CodeVersions, true, []string{"kubelet v1.22.1 and containerd v2.0.1"}},
		{"containerd 1.5, kubelet 1.26", versions("v1.26.0", "1.5.9", ""), CodeVersions, true, []string{"containerd 1.6 or newer"}},
		{"containerd 2.1, kubelet 1.36", versions("v1.36.0", "2.1.0", ""), CodeVersions, false, []string{"2.2 and newer"}},
		{"kubelet newer than server", versions("v1.37.2", "2.4.2", "v1.36.9"), CodeVersions, true, []string{"newer than the API server v1.36.9"}},
		{"kubelet four behind", versions("v1.33.0", "2.4.2", "v1.37.2"), CodeVersions, true, []string{"4 minor versions older", "at most 3"}},
		{"old kubelet three behind", versions("v1.24.0", "1.7.0", "v1.27.0"), CodeVersions, true, []string{"at most 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Preflight(preflightInput(c.edit))
			if len(got) != 1 || got[0].Code != c.code || got[0].Fatal != c.fatal {
				t.Fatalf("got %+v, want one %s, fatal %v", got, c.code, c.fatal)
			}
			for _, w := range c.want {
				if !strings.Contains(got[0].Message, w) {
					t.Errorf("message %q lacks %q", got[0].Message, w)
				}
			}
			if Fatal(got) != c.fatal {
				t.Error("Fatal is wrong")
			}
		})
	}
}

func TestPreflightLeavesThings(t *testing.T) {
	for name, edit := range map[string]func(*PreflightInput){
		"Server 2019, a bridge":       onHost(func(h *plan.HostFacts) { h.Build, h.UBR = 17763, 1432 }),
		"Server 2019, no network":     func(in *PreflightInput) { in.Host.Build, in.Host.UBR, in.Network.Mode = 17763, 1, ModeNone },
		"Server 2019 with the update": func(in *PreflightInput) { in.Host.Build, in.Host.UBR, in.Network.Mode = 17763, 1432, ModeOverlay },
		"Server 2025":                 onHost(func(h *plan.HostFacts) { h.Build = 26100 }),
		"just enough disk":            onHost(func(h *plan.HostFacts) { h.FreeDisk = (2*80 + 1024) << 20 }),
		"disk, all staged": func(in *PreflightInput) {
			for _, b := range in.Payload {
				in.Host.HaveBlobs = append(in.Host.HaveBlobs, b.SHA256)
			}
			in.Host.FreeDisk = (80 + 1024) << 20
		},
		"disk, in sync": func(in *PreflightInput) {
			for _, b := range in.Payload {
				in.Host.HaveBlobs = append(in.Host.HaveBlobs, b.SHA256)
			}
			in.Host.FreeDisk, in.Host.Report.Phase = 0, plan.PhaseInSync
		},
		"15 characters":          onHost(func(h *plan.HostFacts) { h.Hostname = "abcdefghijklmno" }),
		"bad host name, named":   func(in *PreflightInput) { in.Host.Hostname, in.NodeName = "WIN_A", "win-a" },
		"no clock to compare":    func(in *PreflightInput) { in.Now, in.Host.Time = time.Time{}, time.Unix(0, 0) },
		"30 s":                   onHost(func(h *plan.HostFacts) { h.Time = h.Time.Add(-30 * time.Second) }),
		"not asked for the API":  onHost(func(h *plan.HostFacts) { h.API = nil }),
		"not asked for the node": func(in *PreflightInput) { in.CheckNodeIP, in.Host.Addresses = false, nil },
		"agent without network": func(in *PreflightInput) {
			in.Network.Mode, in.Host.Capabilities = ModeNone, []string{plan.CapabilityBase}
		},
		"a machine in order": onHost(func(h *plan.HostFacts) {
			h.Survey = plan.Survey{InstallationType: "Server Core", DynamicPorts: []plan.PortRange{{Protocol: "TCP", First: 49152, Count: 16384}}}
		}),
		"kubelet three behind":      versions("v1.34.0", "2.4.2", "v1.37.2"),
		"old kubelet, containerd 1": versions("v1.22.0", "1.7.0", ""),
	} {
		if got := Preflight(preflightInput(edit)); len(got) != 0 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestPreflightReportsAllAtOnceInOrder(t *testing.T) {
	in := preflightInput(func(in *PreflightInput) {
		in.Host = plan.HostFacts{
			Build: 14393, Hostname: "WIN_A", ForeignServices: []string{"kubelet", "containerd", "kubelet"},
			Time: in.Now.Add(time.Hour), API: &plan.ProbeResult{Code: plan.ProbeDNS}, Capabilities: []string{"x"},
		}
		in.NodeNameOwner = "other"
		in.Payload = map[string]Blob{}
		in.KubeletVersion = "v1.40.0"
	})
	var got []Code
	for _, f := range Preflight(in) {
		got = append(got, f.Code)
	}
	want := []Code{
		CodeOSTooOld, CodeNotElevated, CodeDiskSpace, CodeClockSkew, CodeHostname, CodeNodeNameTaken, CodeNodeIP, CodeAPIServerDNS,
		CodeForeignService, CodeForeignService, CodeFeatureMissing, CodeAgentTooOld, CodeAgentTooOld, CodeAgentTooOld, CodePayload, CodePayload,
		CodePayload, CodePayload, CodePayload, CodePayload, CodePayload, CodeVersions,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPreflightOfAnEmptyInputDoesNotPanic(t *testing.T) {
	var codes []string
	for _, f := range Preflight(PreflightInput{}) {
		codes = append(codes, string(f.Code))
	}
	want := []string{string(CodeOSUnknown), string(CodeNotElevated), string(CodeDiskSpace), string(CodeHostname), string(CodeFeatureMissing)}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Error(diff)
	}
}

func TestPreflightKeepsAMachinesTextOutOfShape(t *testing.T) {
	in := preflightInput(onHost(func(h *plan.HostFacts) {
		h.API = &plan.ProbeResult{Code: plan.ProbeDNS, Detail: strings.Repeat("\x1b[2J\n", 10000)}
	}))
	got := Preflight(in)
	if len(got) != 1 || len(got[0].Message) > 1000 || strings.ContainsAny(got[0].Message, "\x1b\n") {
		t.Errorf("%d bytes", len(got[0].Message))
	}
}
