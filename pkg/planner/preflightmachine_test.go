package planner

import (
	"strings"
	"testing"

	"github.com/windowsmachine/operator/pkg/plan"
)

// surveyed is a machine in order but for what edit does.
func surveyed(edit func(*PreflightInput)) PreflightInput {
	return preflightInput(onHost(func(h *plan.HostFacts) {
		h.Survey = plan.Survey{InstallationType: "Server", DynamicPorts: []plan.PortRange{{Protocol: "TCP", First: 49152, Count: 16384}}}
	}), edit)
}

// verdict is one row of a check.
type verdict struct {
	name string
	edit func(*PreflightInput)
	// code is "" where nothing must be found.
	code  Code
	fatal bool
	// want are pieces of the message: what was seen, the way out.
	want []string
}

// verdicts holds each row against Preflight, which must find that and nothing else.
func verdicts(t *testing.T, rows []verdict) {
	t.Helper()
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			got := Preflight(surveyed(c.edit))
			if c.code == "" {
				if len(got) != 0 {
					t.Errorf("got %+v, want nothing", got)
				}
				return
			}
			if len(got) != 1 || got[0].Code != c.code || got[0].Fatal != c.fatal {
				t.Fatalf("got %+v, want one %s, fatal %v", got, c.code, c.fatal)
			}
			for _, w := range c.want {
				if !strings.Contains(got[0].Message, w) {
					t.Errorf("message %q lacks %q", got[0].Message, w)
				}
			}
		})
	}
}

func onWindows(build, ubr int, mode string) func(*PreflightInput) {
	return func(in *PreflightInput) { in.Host.Build, in.Host.UBR, in.Network.Mode = build, ubr, mode }
}

func TestFailure21OverlayNeedsAnUpdate(t *testing.T) {
	verdicts(t, []verdict{
		{"flannel#1128: as installed", onWindows(17763, 1, ModeOverlay), CodeOSUpdateNeeded, true, []string{"17763.1 ", "17763.1432", "newest cumulative update"}},
		{"flannel#1128: before KB4489899", onWindows(17763, 378, ModeOverlay), CodeOSUpdateNeeded, true, []string{"17763.378"}},
		{"overlay before direct server return", onWindows(17763, 1431, ModeOverlay), CodeOSUpdateNeeded, true, nil},
		{"new enough", onWindows(17763, 1432, ModeOverlay), "", false, nil},
		{"Server 2022 as installed", onWindows(20348, 1, ModeOverlay), "", false, nil},
	})
}

func TestFailure34SeveralAdapters(t *testing.T) {
	two := func(in *PreflightInput) {
		in.Host.Addresses = append(in.Host.Addresses, plan.AdapterAddress{Adapter: "Storage", Prefix: "198.51.100.7/24", Default: true, Usable: true})
	}
	verdicts(t, []verdict{
		{"rke2#3533: the address that was dialled decides", two, "", false, nil},
		{"calico#4577: nobody says which", func(in *PreflightInput) { two(in); in.NodeIP = "" }, CodeNodeIPAmbiguous, true, []string{"192.0.2.10 (Ethernet)", "198.51.100.7 (Storage)", "set spec.nodeIP"}},
		{"sig-windows-tools#81: pinned", func(in *PreflightInput) { two(in); in.NodeIP = "198.51.100.7" }, "", false, nil},
		{"sig-windows-tools#82: an address of no adapter", func(in *PreflightInput) { two(in); in.NodeIP = "203.0.113.1" }, CodeNodeIP, true, []string{"203.0.113.1", "spec.nodeIP"}},
	})
}

func TestW56OnlyAutomaticAddresses(t *testing.T) {
	only := func(prefixes ...string) func(*PreflightInput) {
		return func(in *PreflightInput) {
			in.Host.Addresses = nil
			for _, p := range prefixes {
				in.Host.Addresses = append(in.Host.Addresses, plan.AdapterAddress{Adapter: "Ethernet", Prefix: p, Usable: true})
			}
		}
	}
	verdicts(t, []verdict{
		{"nothing else", only("169.254.7.7/16", "fe80::1/64"), CodeOnlyAutomaticAddress, true, []string{"169.254.7.7 (Ethernet)", "DHCP"}},
		{"beside another one that was asked for", only("169.254.7.7/16", "192.0.2.10/24"), "", false, nil},
		{"beside another one", only("169.254.7.7/16", "192.0.2.99/24"), CodeNodeIP, true, []string{"192.0.2.99"}},
		{"no adapter at all", only(), CodeNodeIP, true, []string{"adapters hold none"}},
		{"IPv6 link-local alone is no DHCP matter", only("fe80::1/64"), CodeNodeIP, true, nil},
	})
}

func TestFailure37TeamOfAdapters(t *testing.T) {
	team := func(mode, adapter string, teams ...string) func(*PreflightInput) {
		return func(in *PreflightInput) {
			in.Network.Mode, in.Host.Addresses[0].Adapter, in.Host.Survey.Teams = mode, adapter, teams
		}
	}
	verdicts(t, []verdict{
		{"calico#9120: the node's address is on it", team(ModeL2Bridge, "Team1", "Team1"), CodeTeaming, true, []string{`"Team1"`, "192.0.2.10", "Switch Embedded Teaming", "spec.nodeIP"}},
		{"calico#9915: behind a switch already", team(ModeOverlay, "vEthernet (team1)", "Team1"), CodeTeaming, true, nil},
		{"the network is there already", func(in *PreflightInput) {
			team(ModeL2Bridge, "Team1", "Team1")(in)
			in.Host.Report.Phase = plan.PhaseInSync
		}, CodeTeaming, false, nil},
		{"the address is elsewhere", team(ModeL2Bridge, "Ethernet", "Team1"), CodeTeaming, false, []string{`"Team1"`}},
		{"no switch is made", team(ModeNone, "Team1", "Team1"), "", false, nil},
		{"no team", team(ModeL2Bridge, "Team1"), "", false, nil},
	})
}

func TestFailure50DynamicPorts(t *testing.T) {
	ports := func(r ...plan.PortRange) func(*PreflightInput) {
		return onHost(func(h *plan.HostFacts) { h.Survey.DynamicPorts = r })
	}
	verdicts(t, []verdict{
		{
			"k8s#98499: in the way of NodePorts", ports(plan.PortRange{Protocol: "UDP", First: 1025, Count: 60000}), CodeDynamicPorts, false,
			[]string{"UDP, 1025 to 61024", "30000 to 32767", "netsh int ipv4 set dynamicportrange udp start=34000 num=31536"},
		},
		{"begins at the last NodePort", ports(plan.PortRange{Protocol: "TCP", First: 32767, Count: 20000}), CodeDynamicPorts, false, nil},
		{"ends at the first NodePort", ports(plan.PortRange{Protocol: "TCP", First: 10001, Count: 20000}), CodeDynamicPorts, false, []string{"10001 to 30000"}},
		{"ends before them", ports(plan.PortRange{Protocol: "TCP", First: 10000, Count: 20000}), "", false, nil},
		{"begins behind them", ports(plan.PortRange{Protocol: "TCP", First: 32768, Count: 32768}), "", false, nil},
		{"AKS#1375: soon used up", ports(plan.PortRange{Protocol: "TCP", First: 65000, Count: 255}), CodeDynamicPorts, false, []string{"255 dynamic ports for TCP", "16384", "netsh"}},
		{"Windows' own", ports(plan.PortRange{Protocol: "TCP", First: 49152, Count: 16384}, plan.PortRange{Protocol: "UDP", First: 49152, Count: 16384}), "", false, nil},
	})
}

func TestFailure52PortsOfANode(t *testing.T) {
	busy := func(ports ...int) func(*PreflightInput) {
		return onHost(func(h *plan.HostFacts) { h.Survey.BusyPorts = ports })
	}
	verdicts(t, []verdict{
		{"community#8883: kube-proxy's health port", busy(10256), CodePortBusy, false, []string{"10256", "kube-proxy", "netstat -ano"}},
		{"kube-proxy's metrics", busy(10249), CodePortBusy, false, []string{"10249"}},
		{"the kubelet's port", busy(10250), CodePortBusy, true, []string{"10250", "the kubelet"}},
		{"the kubelet's health port", busy(10248), CodePortBusy, false, []string{"10248"}},
	})
}

func TestFailure54KnownBadUpdates(t *testing.T) {
	verdicts(t, []verdict{
		{"Windows-Containers#516: July 2024", onWindows(20348, 2582, ModeL2Bridge), CodeBadUpdate, false, []string{"20348.2582", "KB5040437", "KB5044281"}},
		{"the month before", onWindows(20348, 2581, ModeL2Bridge), "", false, nil},
		{"the last that has it", onWindows(20348, 2761, ModeOverlay), CodeBadUpdate, false, nil},
		{"mended", onWindows(20348, 2762, ModeOverlay), "", false, nil},
		{"Windows-Containers#19: Server 2019 without direct server return", onWindows(17763, 1339, ModeL2Bridge), CodeBadUpdate, false, []string{"17763.1339", "direct server return"}},
		{"mended there", onWindows(17763, 1432, ModeL2Bridge), "", false, nil},
		{"no pod network is made", onWindows(20348, 2582, ModeNone), "", false, nil},
		{"no revision told", onWindows(17763, 0, ModeL2Bridge), "", false, nil},
		{"that revision of another release", onWindows(25398, 1600, ModeL2Bridge), "", false, nil},
	})
}

func TestFailure55VFPAbsent(t *testing.T) {
	survey := func(s plan.Survey) func(*PreflightInput) {
		return onHost(func(h *plan.HostFacts) { h.Survey = s })
	}
	verdicts(t, []verdict{
		{"Windows-Containers#608: no switch extension", survey(plan.Survey{InstallationType: "Server Core", NoVFP: true}), CodeVFPMissing, false, []string{"vfpext"}},
		{"Windows-Containers#608: a client", survey(plan.Survey{InstallationType: "Client", NoVFP: true}), CodeEdition, false, []string{"client", "Windows Server 2019"}},
		{"Nano Server", survey(plan.Survey{InstallationType: "Nano Server"}), CodeEdition, true, []string{"Nano Server"}},
		{"no pod network is made", func(in *PreflightInput) { in.Network.Mode, in.Host.Survey.NoVFP = ModeNone, true }, "", false, nil},
		{"it comes with the feature", onHost(func(h *plan.HostFacts) { h.Features, h.Survey.NoVFP = nil, true }), CodeFeatureMissing, false, nil},
	})
}

func TestRestartIsDue(t *testing.T) {
	verdicts(t, []verdict{
		{
			"updates wait", onHost(func(h *plan.HostFacts) { h.Survey.RestartPending = []string{plan.RestartUpdate, plan.RestartServicing} }), CodeRestartPending, false,
			[]string{"WindowsUpdate, Servicing", "restart"},
		},
		{"another name comes", onHost(func(h *plan.HostFacts) { h.Survey.NextHostname = "WEB-1" }), CodeHostnameChanging, true, []string{`"WIN-A"`, `"WEB-1"`, "spec.nodeName"}},
		{"another name comes, the node's is settled", func(in *PreflightInput) { in.Host.Survey.NextHostname, in.NodeName = "WEB-1", "web" }, CodeHostnameChanging, false, []string{`"web"`}},
	})
}

// TestOtherRuntimesAreNamed: the leftovers of another installation are told by name and file, whether or not they are in the way.
func TestOtherRuntimesAreNamed(t *testing.T) {
	verdicts(t, []verdict{
		{"Docker", onHost(func(h *plan.HostFacts) {
			h.Survey.Services = []plan.ServiceProgram{{Name: "docker", Exe: `C:\Program Files\Docker\dockerd.exe`}}
		}), CodeOtherRuntime, false, []string{`"docker" (C:\Program Files\Docker\dockerd.exe)`, "remove it"}},
		{"an old containerd", onHost(func(h *plan.HostFacts) {
			h.ForeignServices = []string{"containerd"}
			h.Survey.Services = []plan.ServiceProgram{{Name: "containerd", Exe: `C:\old\containerd.exe`}}
		}), CodeForeignService, true, []string{`"containerd" (C:\old\containerd.exe)`, "remove it"}},
		{"one whose file is not known", onHost(func(h *plan.HostFacts) { h.Survey.Services = []plan.ServiceProgram{{Name: "flanneld"}} }), CodeOtherRuntime, false, []string{"program unknown"}},
	})
}

func TestOlderAgentsSayNothingOfThat(t *testing.T) {
	for _, c := range Checks(preflightInput()) {
		switch c.Name {
		case "Windows edition", "adapter teams", "dynamic ports", "ports of a node", "restart", "other container software":
			if c.Result != ResultSkipped {
				t.Errorf("%s: %s, want %s", c.Name, c.Result, ResultSkipped)
			}
		}
	}
	for _, c := range Checks(surveyed(func(*PreflightInput) {})) {
		if c.Result != ResultOK && c.Name != "node name" {
			t.Errorf("%s: %s, want %s", c.Name, c.Result, ResultOK)
		}
	}
}
