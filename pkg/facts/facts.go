package facts

import "time"

// Names of the cluster facts, as they stand in Cluster.Sources, in messages and in the profile's status.
const (
	APIServer       = "apiServer"
	APIServerCA     = "apiServerCA"
	KubeletClientCA = "kubeletClientCA"
	ClusterDNS      = "dns"
	ClusterDomain   = "domain"
	PodCIDRs        = "podCIDRs"
	ServiceCIDRs    = "serviceCIDRs"
	KubeletConfig   = "kubeletConfig"
	CloudProvider   = "cloudProvider"
	Platform        = "platform"
)

// Platforms as OpenShift's Infrastructure object names them; "" where it is not known.
const (
	PlatformAWS     = "AWS"
	PlatformAzure   = "Azure"
	PlatformGCP     = "GCP"
	PlatformVSphere = "VSphere"
	PlatformNutanix = "Nutanix"
	PlatformNone    = "None"
)

// Cluster is what every node of a cluster shares. A fact that was not found is empty; nothing has a made-up default.
type Cluster struct {
	// APIServer is the https URL by which nodes reach the API server.
	APIServer string
	// APIServerCA is the PEM bundle that the API server's certificate is verified with.
	APIServerCA []byte
	// KubeletClientCA is the PEM bundle that the kubelet verifies its own clients with.
	KubeletClientCA []byte
	// ClusterDNS are the addresses of the DNS service, ClusterDomain its domain ("cluster.local").
	ClusterDNS    []string
	ClusterDomain string
	PodCIDRs      []string
	ServiceCIDRs  []string
	// KubeletConfig is the worker's KubeletConfiguration (YAML or JSON) from the ignition, nil where there is none.
	KubeletConfig []byte
	// CloudProvider is the kubelet's --cloud-provider, CloudConfig the file for its --cloud-config.
	CloudProvider string
	CloudConfig   *ConfigFile
	// Verbosity is the kubelet unit's --v, nil when the unit does not say.
	Verbosity *int
	// Platform is one of Platform*.
	Platform string
	// Version of the API server, for example "v1.37.2".
	Version string
	// ServerNames are names and addresses that belong to the API server or to Services; no node may claim them.
	ServerNames []string
	// Sources says by fact where it was found.
	Sources map[string]string
}

// ConfigFile is a file that goes to the machine under its base name.
type ConfigFile struct {
	Name string
	Data []byte
}

// Node is what the cluster knows of one node.
type Node struct {
	// Registered is whether the Node of the host exists.
	Registered bool
	// Rejoin is whether the machine needs a bootstrap credential although its Node exists: it was reinstalled, or its certificate
	// expired while it was off.
	Rejoin bool
	UID    string
	Ready  bool
	// PodCIDR is spec.podCIDR, "" until it is assigned.
	PodCIDR string
	// LeaseRenewed is when the node's lease was last renewed, zero when it never was.
	LeaseRenewed time.Time
}
