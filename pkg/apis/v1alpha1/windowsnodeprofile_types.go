package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WindowsNodeProfile says how Windows hosts are set up. The operator makes one named "default" at start when there is
// none, and never overwrites a field that somebody else set.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=winprofile,categories=windows
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.status.network.mode`
// +kubebuilder:printcolumn:name="Pod CIDR",type=string,JSONPath=`.status.discovered.podCIDRs[0]`
// +kubebuilder:printcolumn:name="Service CIDR",type=string,JSONPath=`.status.discovered.serviceCIDRs[0]`
// +kubebuilder:printcolumn:name="DNS",type=string,JSONPath=`.status.discovered.dns[0]`
// +kubebuilder:printcolumn:name="Trust",type=string,priority=1,JSONPath=`.spec.trust.hostKeyPolicy`
// +kubebuilder:printcolumn:name="API",type=string,JSONPath=`.status.discovered.apiServer`
// +kubebuilder:printcolumn:name="Complete",type=string,JSONPath=`.status.conditions[?(@.type=="FactsComplete")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WindowsNodeProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec holds settings; each has a safe default.
	//
	// The default lets the server fill in a profile that has no spec at all, as the one that the operator makes.
	// +kubebuilder:default={}
	// +optional
	Spec WindowsNodeProfileSpec `json:"spec,omitzero"`
	// Status is what was discovered.
	// +optional
	Status WindowsNodeProfileStatus `json:"status,omitzero"`
}

// WindowsNodeProfileList is a list of WindowsNodeProfiles.
//
// +kubebuilder:object:root=true
type WindowsNodeProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WindowsNodeProfile `json:"items"`
}

// WindowsNodeProfileSpec holds settings; each has a safe default.
type WindowsNodeProfileSpec struct {
	// Connection says how hosts are reached when they do not say so themselves.
	// +kubebuilder:default={}
	// +optional
	Connection ConnectionSpec `json:"connection,omitzero"`
	// Trust says how hosts are recognised.
	// +kubebuilder:default={}
	// +optional
	Trust TrustSpec `json:"trust,omitzero"`
	// Cluster overrides what is discovered.
	// +optional
	Cluster ClusterSpec `json:"cluster,omitzero"`
	// Ignition names the worker ignition; on OpenShift the worker pool's is found without it.
	// +optional
	Ignition *IgnitionSpec `json:"ignition,omitempty"`
	// Network is the pod network.
	// +kubebuilder:default={}
	// +optional
	Network NetworkSpec `json:"network,omitzero"`
	// KubeProxy is the kube-proxy of the nodes.
	// +kubebuilder:default={}
	// +optional
	KubeProxy KubeProxySpec `json:"kubeProxy,omitzero"`
	// Kubelet adds to the kubelet's settings.
	// +kubebuilder:default={}
	// +optional
	Kubelet KubeletSpec `json:"kubelet,omitzero"`
}

// ConnectionSpec is how hosts are reached when they do not say so themselves.
type ConnectionSpec struct {
	// Port of SSH.
	// +kubebuilder:default=22
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`
	// Username for Machines; the platform's usual one when absent: capi on Azure, Administrator elsewhere.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="!self.matches('[\\\\s\"]')",message="username must not hold blanks or quotes"
	// +optional
	Username string `json:"username,omitempty"`
	// CredentialsRef names the Secret (key private-key.pem) for hosts that name none.
	// +kubebuilder:default={name: cloud-private-key}
	// +optional
	CredentialsRef SecretReference `json:"credentialsRef,omitzero"`
	// OpenSSH names an installer for machines with transport WinRM that cannot install Windows' own OpenSSH server.
	// +optional
	OpenSSH *OpenSSHSpec `json:"openSSH,omitempty"`
}

// OpenSSHSpec names an installer (MSI) of OpenSSH for Windows. The machine fetches it itself and starts it only if the hash is right.
type OpenSSHSpec struct {
	// MSIURL is where machines fetch the installer: https, without query, of letters, digits and . _ ~ / @ + = - only.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https://[A-Za-z0-9._:\[\]-]+(/[A-Za-z0-9._~/@+=-]*)?$`
	// +required
	MSIURL string `json:"msiURL"`
	// SHA256 of the installer, 64 hexadecimal digits in lower case.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +required
	SHA256 string `json:"sha256"`
}

// HostKeyPolicy says what to do about a host key that nobody pinned.
// +kubebuilder:validation:Enum=Strict;TrustOnFirstUse
type HostKeyPolicy string

// Host key policies.
const (
	// HostKeyStrict accepts keys in spec.hostKeys only.
	HostKeyStrict HostKeyPolicy = "Strict"
	// HostKeyTrustOnFirstUse also pins the first key of a host, for a Machine only within 30 minutes of Provisioned.
	HostKeyTrustOnFirstUse HostKeyPolicy = "TrustOnFirstUse"
)

// TrustSpec is how hosts are recognised.
type TrustSpec struct {
	// HostKeyPolicy: Strict takes keys in a host's spec.hostKeys only; TrustOnFirstUse also pins the first key that a host shows, for a
	// Machine only within 30 minutes of its being Provisioned.
	// +kubebuilder:default=Strict
	// +optional
	HostKeyPolicy HostKeyPolicy `json:"hostKeyPolicy,omitempty"`
}

// ClusterSpec holds facts about the cluster that discovery cannot find or shall not use.
type ClusterSpec struct {
	// APIServer is the URL by which nodes reach the API server.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'https' && url(self).getHostname() != '' && !self.contains('@')",message="apiServer must be an https:// URL with a host and without credentials"
	// +optional
	APIServer string `json:"apiServer,omitempty"`
	// DNS are the addresses of the cluster's DNS service.
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self.all(a, isIP(a))",message="dns must hold IP addresses"
	// +listType=atomic
	// +optional
	DNS []string `json:"dns,omitempty"`
	// Domain of the cluster.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="domain must be a DNS name"
	// +optional
	Domain string `json:"domain,omitempty"`
	// PodCIDRs of the cluster.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=49
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c))",message="podCIDRs must hold prefixes such as 10.244.0.0/16"
	// +listType=atomic
	// +optional
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// ServiceCIDRs of the cluster.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=49
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c))",message="serviceCIDRs must hold prefixes such as 10.96.0.0/12"
	// +listType=atomic
	// +optional
	ServiceCIDRs []string `json:"serviceCIDRs,omitempty"`
}

// IgnitionSpec names the worker ignition; the object is in the operator's namespace.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretName) != has(self.configMapName)",message="set exactly one of secretName and configMapName"
type IgnitionSpec struct {
	// SecretName of a Secret whose key worker.ign holds the ignition.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// ConfigMapName of a ConfigMap whose key worker.ign holds the ignition.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ConfigMapName string `json:"configMapName,omitempty"`
}

// NetworkMode is how pods get a network.
// +kubebuilder:validation:Enum=Auto;None;Custom;L2Bridge;Overlay;FlannelVXLAN;FlannelHostGW;Calico
type NetworkMode string

// Network modes.
const (
	// NetworkAuto: what was found in the cluster decides; status.network says what, and why.
	NetworkAuto NetworkMode = "Auto"
	// NetworkNone: something else brings the CNI configuration.
	NetworkNone NetworkMode = "None"
	// NetworkCustom: the CNI configuration is spec.network.cniConfig.
	NetworkCustom NetworkMode = "Custom"
	// NetworkL2Bridge: an HNS L2Bridge network on the node's pod CIDR and win-bridge; static routes between the nodes.
	NetworkL2Bridge NetworkMode = "L2Bridge"
	// NetworkOverlay: an HNS Overlay network on the node's pod CIDR and win-overlay; its peers stand in spec.network.nodes.
	NetworkOverlay NetworkMode = "Overlay"
	// NetworkFlannelVXLAN: an HNS Overlay network among the nodes of flannel's backend vxlan.
	NetworkFlannelVXLAN NetworkMode = "FlannelVXLAN"
	// NetworkFlannelHostGW: an HNS L2Bridge network among the nodes of flannel's backend host-gw.
	NetworkFlannelHostGW NetworkMode = "FlannelHostGW"
	// NetworkCalico: Calico for Windows brings network and CNI configuration itself.
	NetworkCalico NetworkMode = "Calico"
)

// NetworkPlugin is the CNI plugin of an L2Bridge network.
// +kubebuilder:validation:Enum=WinBridge;SDNBridge
type NetworkPlugin string

// CNI plugins of an L2Bridge network.
const (
	// PluginWinBridge is win-bridge of containernetworking/plugins.
	PluginWinBridge NetworkPlugin = "WinBridge"
	// PluginSDNBridge is sdnbridge of microsoft/windows-container-networking.
	PluginSDNBridge NetworkPlugin = "SDNBridge"
)

// NetworkSpec is the pod network.
//
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'Custom') == has(self.cniConfig)",message="cniConfig goes with mode Custom, and only with it"
// +kubebuilder:validation:XValidation:rule="!has(self.plugin) || self.plugin == 'WinBridge' || (has(self.mode) && self.mode == 'L2Bridge')",message="plugin SDNBridge goes with mode L2Bridge only"
type NetworkSpec struct {
	// Mode: Auto takes what the cluster has, as status.network says; None leaves the CNI configuration to something else; Custom takes
	// cniConfig; L2Bridge and Overlay make an HNS network on the node's pod CIDR with win-bridge or win-overlay; FlannelVXLAN and
	// FlannelHostGW make one that is part of flannel's network; Calico leaves network and CNI configuration to Calico for Windows.
	// +kubebuilder:default=Auto
	// +optional
	Mode NetworkMode `json:"mode,omitempty"`
	// CNIConfig is a CNI configuration (.conf or .conflist, JSON) that is put in place as it is.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	CNIConfig string `json:"cniConfig,omitempty"`
	// Name of the HNS network, of the CNI network and for kube-proxy. When it is absent: flannel.<VNI> with FlannelVXLAN, cbr0 with
	// FlannelHostGW, Calico with Calico, windowsmachine with the other modes.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9_.-]*$`
	// +optional
	Name string `json:"name,omitempty"`
	// VSID of an Overlay network.
	// +kubebuilder:default=4096
	// +kubebuilder:validation:Minimum=4096
	// +kubebuilder:validation:Maximum=16777214
	// +optional
	VSID int32 `json:"vsid,omitempty"`
	// Plugin is the CNI plugin of mode L2Bridge.
	// +kubebuilder:default=WinBridge
	// +optional
	Plugin NetworkPlugin `json:"plugin,omitempty"`
	// PodCIDRs says who gives nodes their pod ranges.
	// +kubebuilder:default={}
	// +optional
	PodCIDRs PodCIDRsSpec `json:"podCIDRs,omitzero"`
	// Nodes overrule what the Node objects say, node by node: routes of L2Bridge, and the peers of an Overlay network.
	// +kubebuilder:validation:MaxItems=5000
	// +listType=map
	// +listMapKey=name
	// +optional
	Nodes []NetworkNode `json:"nodes,omitempty"`
}

// PodCIDRAllocation says who gives nodes their pod ranges.
// +kubebuilder:validation:Enum=ControllerManager;Operator
type PodCIDRAllocation string

// Who gives nodes their pod ranges.
const (
	// AllocationControllerManager: kube-controller-manager (--allocate-node-cidrs), or a cloud's controller.
	AllocationControllerManager PodCIDRAllocation = "ControllerManager"
	// AllocationOperator: this operator gives the Nodes of its hosts ranges that nobody else has.
	AllocationOperator PodCIDRAllocation = "Operator"
)

// PodCIDRsSpec says who gives nodes their pod ranges.
type PodCIDRsSpec struct {
	// Allocation: ControllerManager waits for the range that kube-controller-manager gives the Node; Operator gives one to each Node of
	// ours that has none, out of the cluster's pod CIDR.
	// +kubebuilder:default=ControllerManager
	// +optional
	Allocation PodCIDRAllocation `json:"allocation,omitempty"`
	// MaskSize is the prefix length of the ranges that the operator gives.
	// +kubebuilder:default=24
	// +kubebuilder:validation:Minimum=16
	// +kubebuilder:validation:Maximum=28
	// +optional
	MaskSize int32 `json:"maskSize,omitempty"`
}

// NetworkNode overrules what one Node object says of the pod network.
type NetworkNode struct {
	// Name of the Node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
	// PodCIDRs are the ranges that the node's pods really have; those of its spec when absent.
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=49
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c))",message="podCIDRs must hold prefixes such as 10.244.3.0/24"
	// +listType=atomic
	// +optional
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// ProviderAddress is where the node's packets of the overlay come from; flannel's annotation or the InternalIP when absent.
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="providerAddress must be an IP address"
	// +optional
	ProviderAddress string `json:"providerAddress,omitempty"`
	// VTEPMAC is the MAC address behind which the node's pods are in the overlay (02-11-22-33-44-55, or with colons); flannel's annotation
	// when absent.
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:Pattern=`^[0-9A-Fa-f]{2}([-:][0-9A-Fa-f]{2}){5}$`
	// +optional
	VTEPMAC string `json:"vtepMAC,omitempty"`
}

// KubeProxyMode says who runs kube-proxy.
// +kubebuilder:validation:Enum=Auto;Managed;None
type KubeProxyMode string

// Who runs kube-proxy.
const (
	// KubeProxyAuto: Managed with L2Bridge, Overlay, FlannelVXLAN, FlannelHostGW and Calico; None with None and Custom.
	KubeProxyAuto KubeProxyMode = "Auto"
	// KubeProxyManaged: kube-proxy runs as a service of the machine.
	KubeProxyManaged KubeProxyMode = "Managed"
	// KubeProxyNone: something else brings kube-proxy, or none is wanted.
	KubeProxyNone KubeProxyMode = "None"
)

// KubeProxySpec is the kube-proxy of the nodes.
type KubeProxySpec struct {
	// Mode: Managed runs kube-proxy as a service of the machine; None leaves it to something else; Auto is Managed where the operator makes
	// the pod network (L2Bridge, Overlay, FlannelVXLAN, FlannelHostGW) and with Calico, None with None and Custom.
	// +kubebuilder:default=Auto
	// +optional
	Mode KubeProxyMode `json:"mode,omitempty"`
	// Verbosity of the log; 2 when absent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +optional
	Verbosity *int32 `json:"verbosity,omitempty"`
	// EnableDSR turns direct server return on or off; kube-proxy's own default when absent.
	// +optional
	EnableDSR *bool `json:"enableDSR,omitempty"`
}

// KubeletSpec adds to the kubelet's settings.
type KubeletSpec struct {
	// Verbosity of the log; the ignition's, or 2, when absent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +optional
	Verbosity *int32 `json:"verbosity,omitempty"`
	// Labels of the nodes. Those that a kubelet may not set itself are set by the operator.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// MaxPods of a node.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxPods *int32 `json:"maxPods,omitempty"`
}

// WindowsNodeProfileStatus is what was discovered.
type WindowsNodeProfileStatus struct {
	// Conditions: FactsComplete, BindingsSafe.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the metadata.generation that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Discovered facts.
	// +optional
	Discovered *DiscoveredStatus `json:"discovered,omitempty"`
	// Network in use.
	// +optional
	Network *NetworkStatus `json:"network,omitempty"`
}

// NetworkStatus is the pod network in use.
type NetworkStatus struct {
	// Mode in effect, never Auto; empty when none fits, as Why says.
	// +optional
	Mode NetworkMode `json:"mode,omitempty"`
	// Why this mode.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Why string `json:"why,omitempty"`
	// Name of the HNS network, of the CNI network and for kube-proxy.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Name string `json:"name,omitempty"`
	// Backend of the cluster's pod network as it names it: vxlan or host-gw of flannel, VXLAN or IPIP of Calico.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Backend string `json:"backend,omitempty"`
	// VNI of the overlay.
	// +optional
	VNI int32 `json:"vni,omitempty"`
	// Port (UDP) of the overlay.
	// +optional
	Port int32 `json:"port,omitempty"`
	// LinuxRoutes are commands that give Linux nodes the routes to the pods of Windows nodes, where nothing else does.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +optional
	LinuxRoutes []string `json:"linuxRoutes,omitempty"`
	// Mismatches are nodes whose pods are not in the range that their spec says, with the override to set.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Mismatches []string `json:"mismatches,omitempty"`
}

// DiscoveredStatus holds the facts in use and where each was found.
type DiscoveredStatus struct {
	// APIServer is the URL by which nodes reach the API server.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	APIServer string `json:"apiServer,omitempty"`
	// Platform as OpenShift's Infrastructure object names it.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Platform string `json:"platform,omitempty"`
	// DNS are the addresses of the cluster's DNS service.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	DNS []string `json:"dns,omitempty"`
	// Domain of the cluster.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Domain string `json:"domain,omitempty"`
	// PodCIDRs of the cluster.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// ServiceCIDRs of the cluster.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	ServiceCIDRs []string `json:"serviceCIDRs,omitempty"`
	// Sources says where each fact came from, by the fact's name.
	// +optional
	Sources map[string]string `json:"sources,omitempty"`
}
