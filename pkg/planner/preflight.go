package planner

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Code says what a Finding is about.
type Code string

// Codes of findings.
const (
	// CodeOSUnknown surfaces when the machine did not say its build number.
	CodeOSUnknown Code = "OSUnknown"
	// CodeOSTooOld surfaces when the build is older than Windows Server 2019.
	CodeOSTooOld Code = "OSTooOld"
	// CodeOSUntested surfaces when the build is none of the Windows Server releases that are known.
	CodeOSUntested Code = "OSUntested"
	// CodeOSUpdateNeeded surfaces when the build lacks the cumulative update that the network needs.
	CodeOSUpdateNeeded Code = "OSUpdateNeeded"
	// CodeDiskSpace surfaces when the payload does not fit on the system volume.
	CodeDiskSpace Code = "DiskSpace"
	// CodeNotElevated surfaces when the user is no administrator or the token is filtered.
	CodeNotElevated Code = "NotElevated"
	// CodeClockSkew surfaces when the machine's clock differs from the API server's.
	CodeClockSkew Code = "ClockSkew"
	// CodeHostname surfaces when the host name cannot be a node name.
	CodeHostname Code = "HostnameInvalid"
	// CodeHostnameLong surfaces when the host name is longer than a NetBIOS name.
	CodeHostnameLong Code = "HostnameLong"
	// CodeNodeNameTaken surfaces when another host has the node name.
	CodeNodeNameTaken Code = "NodeNameTaken"
	// CodeFeatureMissing surfaces when a Windows feature is going to be enabled, which takes a reboot.
	CodeFeatureMissing Code = "FeatureMissing"
	// CodeAPIServerDNS surfaces when the machine cannot resolve the API server's name.
	CodeAPIServerDNS Code = "APIServerDNS"
	// CodeAPIServerConnect surfaces when the machine cannot connect to the API server.
	CodeAPIServerConnect Code = "APIServerConnect"
	// CodeAPIServerCertificate surfaces when the machine does not trust the API server's certificate.
	CodeAPIServerCertificate Code = "APIServerCertificate"
	// CodeForeignService surfaces when a service that the product uses was made by somebody else.
	CodeForeignService Code = "ForeignService"
	// CodeNodeIP surfaces when no adapter holds the node's address.
	CodeNodeIP Code = "NodeIPMissing"
	// CodeNodeIPPending surfaces when the node's address is not usable yet.
	CodeNodeIPPending Code = "NodeIPPending"
	// CodeNodeIPAmbiguous surfaces when the node's address has to be named.
	CodeNodeIPAmbiguous Code = "NodeIPAmbiguous"
	// CodeAgentTooOld surfaces when the agent lacks a capability that the plan needs.
	CodeAgentTooOld Code = "AgentTooOld"
	// CodePayload surfaces when the payload lacks a file that the plan needs.
	CodePayload Code = "PayloadIncomplete"
	// CodeVersions surfaces when versions in the payload do not go together or with the API server.
	CodeVersions Code = "VersionMismatch"
)

// Finding is one reason why a machine cannot, or can only with care, become a node.
type Finding struct {
	Code Code
	// Message is for people: what was looked at, the number seen, the number needed, the way out.
	Message string
	// Fatal findings stop the configuration; the others are warnings.
	Fatal bool
}

// PreflightInput is what Preflight looks at. What is zero is not looked at, except for Host.
type PreflightInput struct {
	Host plan.HostFacts
	// Now is the API server's clock at the moment when Host was read.
	Now time.Time
	// APIServer is the URL that Host.API was asked about, for messages.
	APIServer string
	// APIServerVersion such as "v1.37.2".
	APIServerVersion string
	// NodeName that was settled for the host, "" when it shall be the host name; NodeNameOwner is another host that has
	// this name.
	NodeName, NodeNameOwner string
	// NodeIP is spec.nodeIP, or spec.address when that is an IP address.
	NodeIP string
	// KubeletVersion, Network and Payload as in Options.
	KubeletVersion string
	Network        Network
	Payload        map[string]Blob
	// CheckNodeIP turns on the check of the node's address. It is off where nobody has said yet how the node shall be
	// reached, as in `wmcb preflight` without arguments.
	CheckNodeIP bool
}

const (
	// minBuild is Windows Server 2019.
	minBuild = 17763
	// minOverlayUBR is the update of October 2020 to Server 2019, from which overlay networks with remote subnets and
	// direct server return work (kube-proxy's feature check, HNS 9.3 and newer).
	minOverlayUBR = 1432
	// diskMargin is kept free for the journal, logs and the first images.
	diskMargin = 1 << 30
	// maxSkew makes tokens and certificates invalid, warnSkew is worth a word.
	maxSkew  = 5 * time.Minute
	warnSkew = 30 * time.Second
)

// knownBuilds are the Windows Server releases that are known to work: 2019, 2022, Azure Local 22H2, 23H2, 2025.
func knownBuilds() []int { return []int{17763, 20348, 20349, 25398, 26100} }

// Preflight returns everything that speaks against making the machine a node, all at once and in a fixed order; nil when
// nothing does. It is pure: the same input gives the same findings.
func Preflight(in PreflightInput) []Finding {
	var out []Finding
	for _, c := range Checks(in) {
		out = append(out, c.Findings...)
	}
	return out
}

// Result is the outcome of a check.
type Result string

// The outcomes.
const (
	ResultOK      Result = "ok"
	ResultWarning Result = "warning"
	ResultStops   Result = "stops"
	// ResultSkipped: nothing was known that could be looked at.
	ResultSkipped Result = "not looked at"
)

// Check is one of the things that Preflight looks at.
type Check struct {
	// Name for people.
	Name     string
	Result   Result
	Findings []Finding
}

// NewCheck derives the outcome from what was found.
func NewCheck(name string, findings []Finding) Check {
	c := Check{Name: name, Result: ResultOK, Findings: findings}
	switch {
	case Fatal(findings):
		c.Result = ResultStops
	case len(findings) > 0:
		c.Result = ResultWarning
	}
	return c
}

// Checks is Preflight with the checks that found nothing, and those for which nothing was known.
func Checks(in PreflightInput) []Check {
	// An agent that looks at these things always knows the edition of Windows.
	surveyed := in.Host.Survey.InstallationType != ""
	var out []Check
	for _, c := range []struct {
		name    string
		look    func(PreflightInput) []Finding
		unknown bool
	}{
		{"Windows version", checkOS, false},
		{"administrator", checkElevated, false},
		{"disk space", checkDisk, false},
		{"clock", checkClock, in.Now.IsZero() || in.Host.Time.IsZero()},
		{"host name", checkHostname, false},
		{"node name", checkNodeName, in.NodeName == "" && in.NodeNameOwner == ""},
		{"node address", checkNodeIP, !in.CheckNodeIP},
		{"API server", checkAPI, in.Host.API == nil},
		{"services of others", checkServices, false},
		{"Windows features", checkFeatures, false},
		{"agent", checkAgent, len(in.Host.Capabilities) == 0},
		{"payload", checkPayload, in.Payload == nil},
		{"versions", checkVersions, in.KubeletVersion == "" && in.Payload == nil},
		{"Windows edition", checkEdition, in.Host.Survey.InstallationType == ""},
		{"Windows updates", checkUpdates, in.Host.UBR == 0},
		{"adapter teams", checkTeams, !surveyed},
		{"dynamic ports", checkDynamicPorts, in.Host.Survey.DynamicPorts == nil},
		{"ports of a node", checkPorts, !surveyed},
		{"restart", checkRestart, !surveyed},
		{"other container software", checkNeighbors, !surveyed},
	} {
		check := NewCheck(c.name, c.look(in))
		if c.unknown && check.Result == ResultOK {
			check.Result = ResultSkipped
		}
		out = append(out, check)
	}
	return out
}

// Fatal reports whether any of the findings is fatal.
func Fatal(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Fatal })
}

func fatal(c Code, format string, args ...any) []Finding {
	return []Finding{{Code: c, Message: fmt.Sprintf(format, args...), Fatal: true}}
}

func warn(c Code, format string, args ...any) []Finding {
	return []Finding{{Code: c, Message: fmt.Sprintf(format, args...)}}
}

func checkOS(in PreflightInput) []Finding {
	b := in.Host.Build
	switch {
	case b <= 0:
		return fatal(CodeOSUnknown, "the machine did not report the build number of Windows; update the agent or the machine")
	case b < minBuild:
		return fatal(CodeOSTooOld, "Windows build %d is too old, at least %d (Windows Server 2019) is needed; "+
			"use a machine with a newer Windows Server", b, minBuild)
	case tooOldForVXLAN(in):
		return fatal(CodeOSUpdateNeeded, "Windows build %d.%d lacks an update that overlay networks need, at least %d.%d is "+
			"needed; install the newest cumulative update", b, in.Host.UBR, minBuild, minOverlayUBR)
	case !slices.Contains(knownBuilds(), b):
		return warn(CodeOSUntested, "Windows build %d is no known Windows Server release %v; it may work", b, knownBuilds())
	}
	return nil
}

// tooOldForVXLAN: flannel-io/flannel#1128 needs KB4489899 (17763.379), kube-proxy's overlay more than that.
func tooOldForVXLAN(in PreflightInput) bool {
	return in.Host.Build == minBuild && in.Host.UBR < minOverlayUBR && usesVXLAN(in.Network.Mode)
}

func checkElevated(in PreflightInput) []Finding {
	if in.Host.Elevated {
		return nil
	}
	return fatal(CodeNotElevated, "the session is not elevated; use a member of the local group S-1-5-32-544 (Administrators) "+
		"whose token is not filtered")
}

// checkDisk counts every missing blob twice, since it is kept under its digest and as the file itself, and one that the
// machine holds once. On a machine that is in sync the files are there.
func checkDisk(in PreflightInput) []Finding {
	var need int64
	for _, name := range slices.Concat(Needs(in.Network), optional()) {
		b := in.Payload[name]
		switch {
		case !slices.Contains(in.Host.HaveBlobs, b.SHA256):
			need += 2 * b.Size
		case in.Host.Report.Phase != plan.PhaseInSync:
			need += b.Size
		}
	}
	if need == 0 && in.Host.Report.Phase == plan.PhaseInSync {
		return nil
	}
	need += diskMargin
	if in.Host.FreeDisk >= need {
		return nil
	}
	return fatal(CodeDiskSpace, "the system volume has %d MiB free, %d MiB are needed; free some space or extend the volume",
		in.Host.FreeDisk>>20, (need+1<<20-1)>>20)
}

func checkClock(in PreflightInput) []Finding {
	if in.Now.IsZero() || in.Host.Time.IsZero() {
		return nil
	}
	skew := in.Host.Time.Sub(in.Now)
	text := "the machine's clock is %s %s the API server's, at most %s is allowed; set the time or start the service W32Time"
	direction := "ahead of"
	if skew < 0 {
		skew, direction = -skew, "behind"
	}
	skew = skew.Round(time.Second)
	switch {
	case skew > maxSkew:
		return fatal(CodeClockSkew, text, skew, direction, maxSkew)
	case skew > warnSkew:
		return warn(CodeClockSkew, text, skew, direction, maxSkew)
	}
	return nil
}

func checkHostname(in PreflightInput) []Finding {
	if in.NodeName != "" {
		return nil
	}
	if _, err := NodeName(in.Host.Hostname); err != nil {
		return fatal(CodeHostname, "%s; rename the machine or set spec.nodeName", err)
	}
	if short, cut := NetBIOSName(in.Host.Hostname); cut {
		return warn(CodeHostnameLong, "host name %q has %d characters, a NetBIOS name at most %d: Windows uses %s there; "+
			"make sure that no other machine of the domain begins alike", bounded(in.Host.Hostname), len(in.Host.Hostname),
			maxNetBIOS, bounded(short))
	}
	return nil
}

func checkNodeName(in PreflightInput) []Finding {
	if in.NodeNameOwner == "" {
		return nil
	}
	name := in.NodeName
	if name == "" {
		name, _ = NodeName(in.Host.Hostname)
	}
	return fatal(CodeNodeNameTaken, "node name %q belongs to host %q; rename the machine or set spec.nodeName",
		name, bounded(in.NodeNameOwner))
}

func checkNodeIP(in PreflightInput) []Finding {
	if !in.CheckNodeIP {
		return nil
	}
	_, err := PickNodeIP(in.NodeIP, in.Host.Addresses)
	switch {
	case err == nil:
		return nil
	case onlyAutomatic(in.Host.Addresses):
		return fatal(CodeOnlyAutomaticAddress, "the adapters hold only addresses out of 169.254.0.0/16, which Windows invents when no DHCP server "+
			"answers: %s; mend DHCP or set an address", listAddrs(usableShape(in.Host.Addresses)))
	case errors.Is(err, ErrNotUsable):
		return fatal(CodeNodeIPPending, "%s; look for a duplicate address if this lasts", err)
	case errors.Is(err, ErrAmbiguous):
		return fatal(CodeNodeIPAmbiguous, "%s; set spec.nodeIP", err)
	default:
		return fatal(CodeNodeIP, "%s; set spec.nodeIP to an address that the machine itself has", err)
	}
}

func checkAPI(in PreflightInput) []Finding {
	if in.Host.API == nil || in.Host.API.Code == plan.ProbeOK {
		return nil
	}
	server, detail := bounded(in.APIServer), bounded(in.Host.API.Detail)
	switch in.Host.API.Code {
	case plan.ProbeDNS:
		return fatal(CodeAPIServerDNS, "the machine cannot resolve the API server %s (%s); set its DNS server or add the name",
			server, detail)
	case plan.ProbeCertificate:
		return fatal(CodeAPIServerCertificate, "the machine does not trust the certificate of the API server %s (%s); look for "+
			"a proxy between them, a wrong clock or a wrong CA in the profile's facts", server, detail)
	default:
		return fatal(CodeAPIServerConnect, "the machine cannot connect to the API server %s (%s); open the way from the "+
			"machine to that port", server, detail)
	}
}

func checkServices(in PreflightInput) []Finding {
	var out []Finding
	names := slices.Clone(in.Host.ForeignServices)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		out = append(out, fatal(CodeForeignService, "service %q (%s) exists and was not made by this product; remove it, or "+
			"remove the machine from the cluster that it belongs to", bounded(name), program(programOf(in.Host.Survey.Services, name)))...)
	}
	return out
}

// features of Windows that a plan enables.
func features() []string { return []string{"Containers"} }

func checkFeatures(in PreflightInput) []Finding {
	var out []Finding
	for _, f := range features() {
		if !slices.Contains(in.Host.Features, f) {
			out = append(out, warn(CodeFeatureMissing, "Windows feature %s is not enabled; it will be, and the machine "+
				"will be restarted", f)...)
		}
	}
	return out
}

func checkAgent(in PreflightInput) []Finding {
	if len(in.Host.Capabilities) == 0 {
		return nil
	}
	var out []Finding
	for _, c := range requires(in.Network) {
		if !slices.Contains(in.Host.Capabilities, c) {
			out = append(out, fatal(CodeAgentTooOld, "agent %s lacks capability %s; let the operator replace it",
				bounded(in.Host.AgentVersion), c)...)
		}
	}
	return out
}

func checkPayload(in PreflightInput) []Finding {
	if in.Payload == nil {
		return nil
	}
	var out []Finding
	for _, name := range Needs(in.Network) {
		if in.Payload[name].SHA256 == "" {
			out = append(out, fatal(CodePayload, "the payload has no %s; use a payload that has it", name)...)
		}
	}
	return out
}

func checkVersions(in PreflightInput) []Finding {
	version := in.KubeletVersion
	if version == "" {
		version = in.Payload[BlobKubelet].Version
	}
	if version == "" {
		return nil
	}
	v, err := kubelet.ParseVersion(version)
	if err != nil {
		return fatal(CodeVersions, "kubelet version %q is not of the form v1.37.2; correct the payload's manifest", bounded(version))
	}
	return slices.Concat(CheckContainerd(v, in.Payload[BlobContainerd].Version), checkSkew(v, in.APIServerVersion))
}

// CheckContainerd says whether a kubelet and a containerd go together; "" is no containerd. Kubelets have spoken to containerd on Windows since
// 1.18; containerd 2 no longer speaks CRI v1alpha2, which kubelets before 1.23 need; kubelets from 1.26 speak
// CRI v1 only, which containerd has from 1.6; from 1.36 the project pairs kubelets with 2.2 and newer.
func CheckContainerd(k kubelet.Version, containerd string) []Finding {
	if containerd == "" {
		return nil
	}
	c, err := kubelet.ParseVersion(containerd)
	if err != nil {
		return fatal(CodeVersions, "containerd version %q is not of the form 2.4.2; correct the payload's manifest", bounded(containerd))
	}
	const text = "kubelet %s and containerd %s: %s; use a payload whose versions go together"
	switch {
	case k.Before(1, 18):
		return fatal(CodeVersions, text, k, c, "kubelet 1.18 is the first that runs containers with containerd on Windows")
	case c.Major >= 2 && k.Before(1, 23):
		return fatal(CodeVersions, text, k, c, "containerd 2 needs kubelet 1.23 or newer")
	case !k.Before(1, 26) && c.Before(1, 6):
		return fatal(CodeVersions, text, k, c, "kubelet 1.26 and newer needs containerd 1.6 or newer")
	case !k.Before(1, 36) && c.Before(2, 2):
		return warn(CodeVersions, text, k, c, "kubelet 1.36 and newer is tested with containerd 2.2 and newer")
	}
	return nil
}

// checkSkew applies Kubernetes' version skew policy: never newer than the API server, at most three minor versions older,
// two before kubelet 1.25.
func checkSkew(k kubelet.Version, server string) []Finding {
	s, err := kubelet.ParseVersion(server)
	if err != nil {
		return nil
	}
	allowed := 3
	if k.Before(1, 25) {
		allowed = 2
	}
	switch behind := s.Minor - k.Minor; {
	case k.Major != s.Major || behind < 0:
		return fatal(CodeVersions, "kubelet %s is newer than the API server %s; use a payload of at most v%d.%d", k, s, s.Major, s.Minor)
	case behind > allowed:
		return fatal(CodeVersions, "kubelet %s is %d minor versions older than the API server %s, at most %d are allowed; "+
			"use a newer payload", k, behind, s, allowed)
	}
	return nil
}
