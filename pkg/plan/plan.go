package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// APIVersion is the version of the plan format that this package writes.
const APIVersion = "plan.windowsmachine.dev/v1"

// Plan is the state that a machine shall have. The zero Plan (with APIVersion set) is the empty plan: applying it
// removes all that an earlier plan made. Slices keep the order in which they are applied.
type Plan struct {
	// APIVersion is the format's version, APIVersion for plans written now.
	APIVersion string `json:"apiVersion"`
	// Requires names capabilities (Capability*) that the agent must have; an agent that lacks one refuses the plan.
	Requires []string `json:"requires,omitempty"`
	// Roots are folders beside Roots() below which this plan may place files, for an installation that somebody wants elsewhere. They need
	// CapabilityRoots.
	Roots []string `json:"roots,omitempty"`
	// Secrets are the places of secret files whose content comes with the Envelope.
	Secrets []Secret `json:"secrets,omitempty"`
	// Env is the machine-wide environment.
	Env []EnvVar `json:"env,omitempty"`
	// Features are Windows optional features that must be enabled.
	Features []Feature `json:"features,omitempty"`
	// Directories must exist; those that the agent made are removed with the plan when they are empty, or whole when
	// Purge is set.
	Directories  []Directory         `json:"directories,omitempty"`
	Files        []File              `json:"files,omitempty"`
	Certificates []Certificate       `json:"certificates,omitempty"`
	Firewall     []FirewallRule      `json:"firewall,omitempty"`
	Defender     []DefenderExclusion `json:"defender,omitempty"`
	Networks     []Network           `json:"networks,omitempty"`
	Routes       []Route             `json:"routes,omitempty"`
	Services     []Service           `json:"services,omitempty"`
}

// Secret is the place of a file whose bytes are handed over in Envelope.Secrets under Name. Such a file is readable by
// SYSTEM only and is deleted when a later plan does not name it.
type Secret struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// SecretBootstrap is the name of the secret that joins a machine to a cluster: the bootstrap kubeconfig.
const SecretBootstrap = "bootstrap-kubeconfig"

// HasSecret reports whether the plan has a place for the secret.
func (p Plan) HasSecret(name string) bool {
	return slices.ContainsFunc(p.Secrets, func(s Secret) bool { return s.Name == name })
}

// EnvVar is a machine-wide environment variable (HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment).
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Feature is a Windows optional feature by its DISM name, for example "Containers".
type Feature struct {
	Name string `json:"name"`
}

// Access is the class of an access control list.
type Access string

const (
	// AccessPublic: SYSTEM and Administrators full control, Users read; nothing inherited.
	AccessPublic Access = "public"
	// AccessSecret: SYSTEM and Administrators full control and nobody else; nothing inherited.
	AccessSecret Access = "secret"
)

// Directory must exist. Purge lets Remove delete it with its content; otherwise it is removed only when empty.
type Directory struct {
	Path   string `json:"path"`
	Access Access `json:"access"`
	Purge  bool   `json:"purge,omitempty"`
}

// File is one file: either a payload blob by its SHA-256 (64 hexadecimal digits, lower case) or small inline bytes.
type File struct {
	Path   string `json:"path"`
	Access Access `json:"access"`
	// Blob is the SHA-256 of a payload blob. Exactly one of Blob and Inline is set.
	Blob string `json:"blob,omitempty"`
	// Inline is the content itself, at most MaxInline bytes. An empty non-nil Inline is an empty file.
	Inline []byte `json:"inline,omitzero"`
	// Generated lets the agent fill in values born on the machine before writing: every ${name} of the closed set of
	// resolvers (Resolver*) in Inline is replaced.
	Generated bool `json:"generated,omitempty"`
	// Once is for a file that is somebody else's: it is written when the plan's content changes, and what others change in it later stays. It
	// needs CapabilityExisting.
	Once bool `json:"once,omitempty"`
}

// Certificate is a certificate in a LocalMachine store.
type Certificate struct {
	// Store is "ROOT" or "CA".
	Store string `json:"store"`
	// PEM is one CERTIFICATE block.
	PEM string `json:"pem"`
}

// FirewallRule is an inbound allow rule.
type FirewallRule struct {
	Name string `json:"name"`
	// Protocol is "TCP" or "UDP".
	Protocol string `json:"protocol"`
	// Port is the local port, 1-65535.
	Port int `json:"port"`
}

// DefenderExclusion excludes a process image or a folder from Microsoft Defender; exactly one field is set.
type DefenderExclusion struct {
	Process string `json:"process,omitempty"`
	Path    string `json:"path,omitempty"`
}

// Network types as HNS names them.
const (
	NetworkL2Bridge = "L2Bridge"
	NetworkOverlay  = "Overlay"
)

// Network is an HNS (HCN v2) network.
type Network struct {
	Name string `json:"name"`
	// Type is NetworkL2Bridge or NetworkOverlay.
	Type string `json:"type"`
	// ManagementIP selects the adapter: the one that holds this address.
	ManagementIP string `json:"managementIP"`
	// Prefix is the node's pod CIDR.
	Prefix string `json:"prefix"`
	// Gateway is the pod gateway within Prefix.
	Gateway string `json:"gateway"`
	// VSID is the virtual subnet of an Overlay network, at least 4096 on Windows; 0 for L2Bridge.
	VSID int `json:"vsid,omitempty"`
	// Reach is the "host:port" of the API server. When it cannot be reached within 120 s after a network was made where
	// there was none, the agent takes the network away again. Empty: not looked at. It is no property of the network.
	Reach string `json:"reach,omitempty"`
	// HostEndpoint is the host's own place in an L2Bridge network, by which pods of other nodes reach those of this one; it needs CapabilityHostEndpoint.
	HostEndpoint *HostEndpoint `json:"hostEndpoint,omitempty"`
	// Remotes are the pod networks of the other nodes of an Overlay network; they need CapabilityPeers. They come and go without the network.
	Remotes []RemoteSubnet `json:"remotes,omitempty"`
}

// HostEndpoint is an HNS endpoint that is attached to the host's own compartment (1), with forwarding on.
type HostEndpoint struct {
	// Name of the endpoint, Address within Network.Prefix.
	Name    string `json:"name"`
	Address string `json:"address"`
}

// RemoteSubnet says where the packets for another node's pods go.
type RemoteSubnet struct {
	// Prefix is that node's pod network.
	Prefix string `json:"prefix"`
	// ProviderAddress is where that node receives VXLAN.
	ProviderAddress string `json:"providerAddress"`
	// MAC is the hardware address of its tunnel endpoint: six pairs of hexadecimal digits in lower case, with colons.
	MAC string `json:"mac"`
	// VSID is the virtual subnet, that of the network.
	VSID int `json:"vsid"`
}

// Route is a persistent route on the management interface.
type Route struct {
	Destination string `json:"destination"`
	NextHop     string `json:"nextHop"`
}

// Service is a Windows service. The command line is made by the agent from Exe and Args, never by joining strings.
type Service struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"`
	Description string `json:"description,omitempty"`
	Exe         string `json:"exe"`
	// Args may hold ${name} of the closed set of resolvers (Resolver*).
	Args []string `json:"args,omitempty"`
	// DependsOn names services that must run first; nil and empty are the same.
	DependsOn []string `json:"dependsOn,omitempty"`
	Env       []EnvVar `json:"env,omitempty"`
	// LogFile is where the service's output goes; informational, the log directory must be in Directories.
	LogFile string `json:"logFile,omitempty"`
	// Watch are files whose change restarts the service.
	Watch    []string  `json:"watch,omitempty"`
	Recovery *Recovery `json:"recovery,omitempty"`
	// Existing says what becomes of a service of that name that somebody else made; it needs CapabilityExisting.
	Existing Existing `json:"existing,omitempty"`
}

// Existing is what a plan does with a service that the agent did not make.
type Existing string

const (
	// ExistingRefuse ends the run: the service's configuration could not be given back in full.
	ExistingRefuse Existing = ""
	// ExistingReplace gives it the plan's configuration; it is deleted when a later plan does not name it.
	ExistingReplace Existing = "replace"
	// ExistingUse leaves its configuration alone. It must be there and run, is restarted when a watched file changes, and once more after
	// the last plan that names it, when what was changed has been put back. Such an item has Name and Watch only.
	ExistingUse Existing = "use"
)

// Recovery is the service manager's restart rule. Units are seconds; SC_ACTION has milliseconds.
type Recovery struct {
	RestartDelaySeconds []int `json:"restartDelaySeconds"`
	ResetSeconds        int   `json:"resetSeconds"`
}

// Resolvers: values born on the machine that the agent fills in.
const (
	ResolverManagementIP = "managementIP"
	ResolverHostname     = "hostname"
)

// Capabilities that a plan may require of an agent.
const (
	CapabilityBase    = "base/v1"
	CapabilityNetwork = "network/v1"
	// CapabilityRoots is Plan.Roots, CapabilityExisting Service.Existing and File.Once.
	CapabilityRoots    = "roots/v1"
	CapabilityExisting = "existing-services/v1"
	// CapabilityHostEndpoint is Network.HostEndpoint, CapabilityPeers Network.Remotes and more than MaxItems routes.
	CapabilityHostEndpoint = "host-endpoint/v1"
	CapabilityPeers        = "peers/v1"
)

// Empty returns the plan that removes everything.
func Empty() Plan { return Plan{APIVersion: APIVersion} }

// Encode returns the canonical bytes of p: JSON with fields in declared order, no indentation.
func (p Plan) Encode() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		// Plan holds strings, integers, booleans and bytes only; json.Marshal cannot refuse them.
		panic(fmt.Sprintf("plan: encoding a plan: %v", err))
	}
	return b
}

// Digest identifies a plan: the SHA-256 of its canonical bytes in lower-case hexadecimal.
func (p Plan) Digest() string {
	sum := sha256.Sum256(p.Encode())
	return hex.EncodeToString(sum[:])
}

// Blobs returns the digests of the payload blobs that p refers to, each once, in the order of p.Files.
func (p Plan) Blobs() []string {
	var out []string
	seen := map[string]bool{}
	for _, f := range p.Files {
		if f.Blob != "" && !seen[f.Blob] {
			seen[f.Blob] = true
			out = append(out, f.Blob)
		}
	}
	return out
}
