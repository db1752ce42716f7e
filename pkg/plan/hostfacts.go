package plan

import "time"

// FactsVersion is the version of the HostFacts format.
const FactsVersion = "facts.windowsmachine.dev/v1"

// FactsRequest is read by `wmcb facts` on standard input; an empty input asks for no probe.
type FactsRequest struct {
	// APIServer is the URL that the node will use; the agent connects to it and verifies its certificate against CA.
	APIServer string `json:"apiServer,omitempty"`
	// CA is the PEM bundle for APIServer.
	CA []byte `json:"ca,omitempty"`
	// Blobs asks which of these payload blobs the machine already holds.
	Blobs []string `json:"blobs,omitempty"`
}

// HostFacts is what a machine says of itself: one JSON line of at most MaxReport bytes printed by `wmcb facts`.
// Everything in it is a claim of the machine; nothing that decides about trust may rest on it alone.
type HostFacts struct {
	APIVersion   string `json:"apiVersion"`
	AgentVersion string `json:"agentVersion"`
	// AgentDigest is the SHA-256 of the agent's own file, so that a torn upload is seen.
	AgentDigest string `json:"agentDigest,omitempty"`
	// ServiceAgent is the SHA-256 of the executable that service AgentService is configured to run, "" when there is no such
	// service or its file cannot be read. It differs from AgentDigest after an upload of another agent, until that one applies.
	ServiceAgent string `json:"serviceAgent,omitempty"`
	// Capabilities of the agent (Capability*).
	Capabilities []string `json:"capabilities,omitempty"`
	// Hostname is the computer's DNS host name as Windows reports it, case kept.
	Hostname string `json:"hostname"`
	// Build is the OS build number, 17763 for Server 2019, 20348 for 2022, 26100 for 2025; UBR its update revision.
	Build int `json:"build"`
	UBR   int `json:"ubr,omitempty"`
	// Elevated is whether the session's token is elevated.
	Elevated bool   `json:"elevated"`
	BootID   string `json:"bootID"`
	// Time is the machine's clock.
	Time time.Time `json:"time"`
	// FreeDisk is the number of free bytes on the system volume.
	FreeDisk int64 `json:"freeDisk"`
	// Features are the optional features that are enabled, of those that the planner asks about.
	Features []string `json:"features,omitempty"`
	// Defender is whether Microsoft Defender runs.
	Defender bool `json:"defender,omitempty"`
	// Addresses of the machine's network adapters.
	Addresses []AdapterAddress `json:"addresses,omitempty"`
	// Services that already exist with a name that the product uses, and were not made by the agent.
	ForeignServices []string `json:"foreignServices,omitempty"`
	// API is the result of the probe in FactsRequest, nil when none was asked for.
	API *ProbeResult `json:"api,omitempty"`
	// HaveBlobs are those of FactsRequest.Blobs that the machine holds.
	HaveBlobs []string `json:"haveBlobs,omitempty"`
	// Survey is what else can stand in the way.
	Survey Survey `json:"survey,omitzero"`
	// Report is the state of the agent on the machine.
	Report Report `json:"report"`
}

// AdapterAddress is an address of a network adapter.
type AdapterAddress struct {
	Adapter string `json:"adapter"`
	// Prefix is address/bits.
	Prefix string `json:"prefix"`
	// Default is whether the adapter has the default route.
	Default bool `json:"default,omitempty"`
	// Usable is whether the address is in the preferred state (not tentative or duplicate).
	Usable bool `json:"usable"`
}

// Probe failure codes.
const (
	ProbeOK          = "OK"
	ProbeDNS         = "DNS"
	ProbeConnect     = "Connect"
	ProbeCertificate = "Certificate"
)

// ProbeResult says whether the machine reaches the API server and trusts its certificate.
type ProbeResult struct {
	// Code is one of Probe*.
	Code   string `json:"code"`
	Detail string `json:"detail,omitempty"`
}
