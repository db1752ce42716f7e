package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/plan"
)

// Codes of findings about what else is on the machine.
const (
	// CodeEdition surfaces when the edition of Windows is no Windows Server that Kubernetes supports.
	CodeEdition Code = "EditionUnsupported"
	// CodeVFPMissing surfaces when the switch extension is absent that carries out the policies of pod networks.
	CodeVFPMissing Code = "VFPMissing"
	// CodeBadUpdate surfaces when the machine runs an update that is known to break container networks.
	CodeBadUpdate Code = "BadUpdate"
	// CodeTeaming surfaces when an adapter is a team of others (LBFO).
	CodeTeaming Code = "AdapterTeaming"
	// CodeOnlyAutomaticAddress surfaces when the adapters hold nothing but addresses that Windows invented.
	CodeOnlyAutomaticAddress Code = "OnlyAutomaticAddress"
	// CodeDynamicPorts surfaces when Windows' range of dynamic ports is in the way of NodePorts, or small.
	CodeDynamicPorts Code = "DynamicPorts"
	// CodePortBusy surfaces when another program listens on a port of the node's own programs.
	CodePortBusy Code = "PortBusy"
	// CodeRestartPending surfaces when Windows waits for a restart.
	CodeRestartPending Code = "RestartPending"
	// CodeHostnameChanging surfaces when the host name will be another one after the next restart.
	CodeHostnameChanging Code = "HostnameChanging"
	// CodeOtherRuntime surfaces when other software on the machine runs containers or makes networks for them.
	CodeOtherRuntime Code = "OtherRuntime"
)

const (
	// kubernetesNodePorts is the API server's default --service-node-port-range.
	firstNodePort, lastNodePort = 30000, 32767
	// leastDynamicPorts is what Windows itself has. Each Service takes some of them out of that range (without direct server return); when
	// none is left the balancers of Services cannot be made, and DNS in pods ends (Azure/AKS#1375).
	leastDynamicPorts = 16384
	// goodDynamicRange is what the project's machine images use (kubernetes-sigs/image-builder#947).
	goodDynamicRange = "start=34000 num=31536"
)

// makesSwitch reports whether a mode makes a virtual switch on the machine's adapter, be it that the plan does or what is brought later.
func makesSwitch(mode string) bool { return mode != ModeNone && mode != "" }

// usesVXLAN reports whether a mode makes an HNS network of type Overlay.
func usesVXLAN(mode string) bool { return mode == ModeOverlay || mode == ModeFlannelVXLAN }

func checkEdition(in PreflightInput) []Finding {
	s := in.Host.Survey
	switch {
	case s.InstallationType == "Client":
		return warn(CodeEdition, "this is a Windows client edition; Kubernetes supports Windows Server only, and not every client edition has "+
			"what pod networks need; use Windows Server 2019 or newer")
	case s.InstallationType == "Nano Server":
		return fatal(CodeEdition, "this is a Nano Server, which cannot be a node; use Windows Server 2019 or newer, with or without desktop")
	case s.NoVFP && makesSwitch(in.Network.Mode) && slices.Contains(in.Host.Features, "Containers"):
		return warn(CodeVFPMissing, "the switch extension VFP (service vfpext) is not installed although the feature Containers is; pods may get a "+
			"network without its policies; use Windows Server, or repair the feature: disable it, restart, enable it")
	}
	return nil
}

// badUpdate is a span of update revisions in which container networks do not work.
type badUpdate struct {
	build, from, mended int
	update, what, way   string
}

// badUpdates are those that were reported and confirmed by the maker of Windows or by several users.
func badUpdates() []badUpdate {
	return []badUpdate{
		// microsoft/Windows-Containers#516, projectcalico/calico#9019: mended by KB5044281, calico#8529.
		{20348, 2582, 2762, "KB5040437", "pods reach neither each other nor the outside", "install KB5044281 (October 2024) or newer"},
		// microsoft/Windows-Containers#61, #19; flannel-io/flannel#1128: before KB4489899 there is no overlay, and until the update of October 2020
		// balancers of Services eat up the dynamic ports and direct server return does not work.
		{
			17763, 0, minOverlayUBR, "no update of October 2020", "Services take many dynamic ports each, and direct server return is missing",
			"install the newest cumulative update",
		},
	}
}

func checkUpdates(in PreflightInput) []Finding {
	var out []Finding
	for _, u := range badUpdates() {
		ubr := in.Host.UBR
		// Without an update revision nothing is known, and what checkOS refuses needs no warning.
		if in.Host.Build != u.build || ubr == 0 || ubr < u.from || ubr >= u.mended || !makesSwitch(in.Network.Mode) || tooOldForVXLAN(in) {
			continue
		}
		out = append(out, warn(CodeBadUpdate, "Windows build %d.%d (%s): %s; %s", u.build, ubr, u.update, u.what, u.way)...)
	}
	return out
}

// checkTeams: the virtual switch of Windows Server 2022 and newer refuses an LBFO team, and on 2019 the link does not come back
// (projectcalico/calico#9120, #9915).
func checkTeams(in PreflightInput) []Finding {
	if len(in.Host.Survey.Teams) == 0 || !makesSwitch(in.Network.Mode) {
		return nil
	}
	const way = "dissolve the team, or use Switch Embedded Teaming"
	a, err := PickNodeIP(in.NodeIP, in.Host.Addresses)
	// Where the network is there already it evidently works.
	ahead := in.CheckNodeIP && in.Host.Report.Phase != plan.PhaseInSync
	for _, team := range in.Host.Survey.Teams {
		if err == nil && ahead && (strings.EqualFold(a.Adapter, team) || strings.EqualFold(a.Adapter, "vEthernet ("+team+")")) {
			return fatal(CodeTeaming, "the node's address %s lies on %q, a team of adapters (LBFO), on which container networks do not work; %s, "+
				"or set spec.nodeIP to an address on another adapter", a.Addr, bounded(team), way)
		}
	}
	return warn(CodeTeaming, "adapter %q is a team (LBFO), on which container networks do not work; keep the node's address off it or %s",
		bounded(in.Host.Survey.Teams[0]), way)
}

// onlyAutomatic reports whether the machine has addresses but all of them are ones that Windows gives itself when no DHCP server answers, and
// loopback.
func onlyAutomatic(addresses []plan.AdapterAddress) bool {
	automatic := false
	for _, c := range usableShape(addresses) {
		switch {
		case c.Addr.IsLoopback(), c.Addr.Is6() && c.Addr.IsLinkLocalUnicast():
		case c.Addr.IsLinkLocalUnicast():
			automatic = true
		default:
			return false
		}
	}
	return automatic
}

func checkDynamicPorts(in PreflightInput) []Finding {
	var out []Finding
	for _, r := range in.Host.Survey.DynamicPorts {
		way := fmt.Sprintf("netsh int ipv4 set dynamicportrange %s %s", strings.ToLower(bounded(r.Protocol)), goodDynamicRange)
		last := r.First + r.Count - 1
		switch {
		case r.First <= lastNodePort && last >= firstNodePort:
			out = append(out, warn(CodeDynamicPorts, "the dynamic ports for %s, %d to %d, overlap the NodePorts %d to %d: a connection may hold the port of a "+
				"Service; run %s", bounded(r.Protocol), r.First, last, firstNodePort, lastNodePort, way)...)
		case r.Count < leastDynamicPorts:
			out = append(out, warn(CodeDynamicPorts, "there are %d dynamic ports for %s, less than Windows' own %d: Services and DNS in pods fail when "+
				"they are used up; run %s", r.Count, bounded(r.Protocol), leastDynamicPorts, way)...)
		}
	}
	return out
}

func checkPorts(in PreflightInput) []Finding {
	var out []Finding
	for _, p := range in.Host.Survey.BusyPorts {
		const text = "another program listens on TCP port %d, which %s needs; find it with netstat -ano and stop it"
		switch p {
		case plan.PortKubelet:
			out = append(out, fatal(CodePortBusy, text, p, "the kubelet")...)
		case plan.PortKubeletHealth:
			out = append(out, warn(CodePortBusy, text, p, "the kubelet's health check")...)
		default:
			// A Service whose health check has this node port meets kube-proxy's own there (kubernetes/community#8883).
			out = append(out, warn(CodePortBusy, text, p, "kube-proxy")...)
		}
	}
	return out
}

func checkRestart(in PreflightInput) []Finding {
	var out []Finding
	s := in.Host.Survey
	if len(s.RestartPending) > 0 {
		var why []string
		for _, w := range s.RestartPending {
			why = append(why, bounded(w))
		}
		out = warn(CodeRestartPending, "Windows waits for a restart (%s); restart it before, so that it does not happen while pods run",
			strings.Join(why, ", "))
	}
	if s.NextHostname == "" {
		return out
	}
	text := fmt.Sprintf("the host name %q becomes %q with the next restart", bounded(in.Host.Hostname), bounded(s.NextHostname))
	if in.NodeName != "" {
		return append(out, warn(CodeHostnameChanging, "%s; the node keeps its name %q", text, in.NodeName)...)
	}
	return append(out, fatal(CodeHostnameChanging, "%s, and the node would have the old one for ever; restart the machine first, or set spec.nodeName", text)...)
}

// checkNeighbors names what else runs containers here: its networks and its balancers are not told from ours by those who clean up.
func checkNeighbors(in PreflightInput) []Finding {
	var out []Finding
	for _, s := range in.Host.Survey.Services {
		if slices.Contains(in.Host.ForeignServices, s.Name) {
			continue
		}
		out = append(out, warn(CodeOtherRuntime, "service %q (%s) also runs containers or makes networks for them; remove it unless it is needed: "+
			"it and the node compete for networks, ports and disk", bounded(s.Name), program(s.Exe))...)
	}
	return out
}

// program is the file behind a service, for messages.
func program(exe string) string {
	if exe == "" {
		return "program unknown"
	}
	return bounded(exe)
}

// programOf is the file behind the named service, "" when it was not said.
func programOf(services []plan.ServiceProgram, name string) string {
	for _, s := range services {
		if strings.EqualFold(s.Name, name) {
			return s.Exe
		}
	}
	return ""
}
