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
	PodNetwork      = "network"
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
	// Plane is the pod network that the cluster has.
	Plane Plane
	// Mode is the network mode in effect, one of the API's words and never Auto; "" when none fits. Why says why this one.
	Mode, Why string
	// Sources says by fact where it was found.
	Sources map[string]string
}

// Kinds of pod networks.
const (
	PlaneFlannel       = "Flannel"
	PlaneCalico        = "Calico"
	PlaneCilium        = "Cilium"
	PlaneKubeRouter    = "KubeRouter"
	PlaneOVNKubernetes = "OVNKubernetes"
	PlaneOther         = "Other"
)

// Plane is the pod network of the cluster's Linux nodes, as far as it shows in the API. The zero value is none: every node has its pods on a
// bridge of its own, with static routes or none between nodes.
type Plane struct {
	// Kind is one of Plane*, "" for none.
	Kind string
	// Backend as the project names it: vxlan, host-gw, … of flannel; VXLAN, IPIP or None of Calico.
	Backend string
	// VNI and Port (UDP) of an overlay; 0 without one.
	VNI, Port int
	// Name of the network where the project gives it one.
	Name string
	// From is the object that it was found in.
	From string
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
	// PodCIDR is spec.podCIDR, "" until it is assigned; PodCIDRs all of spec.podCIDRs.
	PodCIDR  string
	PodCIDRs []string
	// Peers are the other nodes of the cluster, sorted by name; nil in modes that do not depend on them.
	Peers []Peer
	// LeaseRenewed is when the node's lease was last renewed, zero when it never was.
	LeaseRenewed time.Time
}

// Peer is another node of the cluster, as far as its pods' network goes. What is not known is empty.
type Peer struct {
	// Name of the Node, OS as in its label kubernetes.io/os.
	Name, OS string
	// InternalIP is its first IPv4 address of that type.
	InternalIP string
	// PodCIDRs are the ranges that its pods have: those that the profile says, else those of the Node.
	PodCIDRs []string
	// ProviderAddress is where it receives VXLAN, VTEPMAC the hardware address of its tunnel endpoint (lower case, colons) and VNI the virtual
	// network that it says to be in, 0 where it does not say.
	ProviderAddress, VTEPMAC string
	VNI                      int
}
