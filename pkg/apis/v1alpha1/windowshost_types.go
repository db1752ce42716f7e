package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// WindowsHost is a Windows machine that shall be a node of this cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=winhost;wh,categories=windows
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.address`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.node.name`
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Plan",type=string,JSONPath=`.status.plan.short`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.spec.machineRef.name`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type WindowsHost struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user, or the Machine controller, asks for.
	// +required
	Spec WindowsHostSpec `json:"spec"`
	// Status is what the operator has seen.
	// +optional
	Status WindowsHostStatus `json:"status,omitzero"`
}

// WindowsHostList is a list of WindowsHosts.
//
// +kubebuilder:object:root=true
type WindowsHostList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WindowsHost `json:"items"`
}

// Transport is the protocol that reaches a host first.
// +kubebuilder:validation:Enum=SSH;WinRM
type Transport string

// Transports.
const (
	// TransportSSH: the machine has an SSH server that knows the key.
	TransportSSH Transport = "SSH"
	// TransportWinRM: the first contact is made over WinRM (HTTPS), which has OpenSSH installed and started with the key; then SSH goes on.
	TransportWinRM Transport = "WinRM"
)

// WindowsHostSpec is what the user, or the Machine controller, asks for.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.machineRef) || has(self.machineRef)",message="machineRef cannot be removed; delete the WindowsHost instead"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.nodeName) || has(self.nodeName)",message="nodeName cannot be removed once set"
// +kubebuilder:validation:XValidation:rule="!has(self.winRM) || (has(self.transport) && self.transport == 'WinRM')",message="winRM goes with transport WinRM, and only with it"
type WindowsHostSpec struct {
	// Address is the IP address or DNS name at which the machine answers. A host of a Machine follows the Machine's
	// address; a host made by hand keeps the one it was made with.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="isIP(self) || !format.dns1123Subdomain().validate(self).hasValue() && !self.matches('(^|[.])[0-9]+$')",message="address must be an IP address or a DNS name in lower case"
	// +kubebuilder:validation:XValidation:rule="!isIP(self) || ip(self).isGlobalUnicast() || ip(self).isLoopback()",message="address must not be link-local, multicast, broadcast or unspecified: no machine is reached there"
	// +required
	Address string `json:"address"`
	// Port of SSH; the profile's connection.port when absent. That of WinRM is winRM.port.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`
	// Transport of the first contact. With WinRM, and until a host key is pinned, the operator logs in over HTTPS, has OpenSSH installed and started
	// with the key, and pins the host key that it reads there; everything else goes over SSH.
	// +kubebuilder:default=SSH
	// +optional
	Transport Transport `json:"transport,omitempty"`
	// WinRM says how the machine is reached with transport WinRM.
	// +optional
	WinRM *WinRMSpec `json:"winRM,omitempty"`
	// Username of an administrator on the machine. A domain user is written DOMAIN\user.
	// +kubebuilder:default=Administrator
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="!self.matches('[\\\\s\"]')",message="username must not hold blanks or quotes"
	// +optional
	Username string `json:"username,omitempty"`
	// CredentialsRef names the Secret in this namespace whose key private-key.pem logs in as Username. For transport WinRM it also holds
	// winrm-ca.crt, the certificates that may have signed the machine's (PEM), and either winrm-password or winrm-tls.crt and winrm-tls.key, a client
	// certificate that the machine maps to an administrator (PEM).
	// +optional
	CredentialsRef *SecretReference `json:"credentialsRef,omitempty"`
	// HostKeys are the public keys that the machine may show, each as a line of authorized_keys ("ssh-ed25519 AAAA…").
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=8192
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,2}( .*)?$`
	// +listType=atomic
	// +optional
	HostKeys []string `json:"hostKeys,omitempty"`
	// NodeIP is the address that the node registers with; Address when absent and an IP address.
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="isIP(self) && (ip(self).isGlobalUnicast() || ip(self).isLoopback())",message="nodeIP must be an IP address that is not link-local, multicast, broadcast or unspecified"
	// +optional
	NodeIP string `json:"nodeIP,omitempty"`
	// NodeName is the name of the Node; the machine's host name in lower case when absent.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Label().validate(self).hasValue()",message="nodeName must be a DNS label in lower case"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="nodeName cannot change; delete the WindowsHost and make a new one"
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// ProfileRef names the WindowsNodeProfile.
	// +kubebuilder:default={name: default}
	// +optional
	ProfileRef ProfileReference `json:"profileRef,omitzero"`
	// MachineRef ties the host to a Machine; written by the operator.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="machineRef cannot change"
	// +optional
	MachineRef *MachineReference `json:"machineRef,omitempty"`
	// Paused stops all work on the host; a Ready node stays Ready.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// WinRMSpec is how a machine is reached over WinRM. It is HTTPS always; the certificate is verified against winrm-ca.crt of the Secret.
type WinRMSpec struct {
	// Port of the HTTPS listener.
	// +kubebuilder:default=5986
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self != 5985",message="5985 is the port of plain HTTP, which is not spoken; make an HTTPS listener (5986)"
	// +optional
	Port int32 `json:"port,omitempty"`
	// ServerName is the name, or IP address, in the machine's certificate; spec.address when absent.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="isIP(self) || !format.dns1123Subdomain().validate(self).hasValue()",message="serverName must be an IP address or a DNS name in lower case"
	// +optional
	ServerName string `json:"serverName,omitempty"`
}

// SecretReference names a Secret in the same namespace.
type SecretReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// ProfileReference names a WindowsNodeProfile.
type ProfileReference struct {
	// Name of the WindowsNodeProfile.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// MachineReference identifies a Machine of machine.openshift.io.
type MachineReference struct {
	// Namespace of the Machine.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Namespace string `json:"namespace"`
	// Name of the Machine.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// UID of the Machine: another Machine of the same name is another host.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	UID string `json:"uid"`
}

// MaxMachineAddresses bounds status.machineAddresses, MaxAddressLength each of them.
const (
	MaxMachineAddresses = 256
	MaxAddressLength    = 253
)

// WindowsHostStatus is what the operator has seen.
type WindowsHostStatus struct {
	// Conditions: Ready (summary), Reachable, Trusted, PreflightPassed, InSync, Registered, Deleting, Paused.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the metadata.generation that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Step is the step under way or the one that failed, for example "5/9 join-network".
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Step string `json:"step,omitempty"`
	// HostKey is the key that was pinned: on first use, or as it was read over WinRM.
	// +optional
	HostKey *PinnedHostKey `json:"hostKey,omitempty"`
	// MachineAddresses and names that a serving certificate may carry, as the Machine's status has them; empty for a
	// host made by hand.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	MachineAddresses []string `json:"machineAddresses,omitempty"`
	// MachineProvisioned is when the Machine was first seen Provisioned; trust on first use ends 30 minutes later.
	// +optional
	MachineProvisioned *metav1.Time `json:"machineProvisioned,omitempty"`
	// OS of the machine.
	// +optional
	OS *OSStatus `json:"os,omitempty"`
	// Node of the host.
	// +optional
	Node *NodeStatus `json:"node,omitempty"`
	// Plan that the machine is to have.
	// +optional
	Plan *PlanStatus `json:"plan,omitempty"`
	// Ticket is the bootstrap credential that is out.
	// +optional
	Ticket *TicketStatus `json:"ticket,omitempty"`
	// KubeProxyToken is the credential of the node's kube-proxy, where the operator runs it.
	// +optional
	KubeProxyToken *KubeProxyTokenStatus `json:"kubeProxyToken,omitempty"`
	// Order of the newest request that may change the machine; it grows with each, and the machine refuses a request whose order is lower
	// than that of one before. It is the time in milliseconds since 1970, or a little more.
	// +optional
	Order int64 `json:"order,omitempty"`
	// BootID of the machine when it was last seen.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	BootID string `json:"bootID,omitempty"`
	// Failures counts the passes that failed in a row for the same reason.
	// +optional
	Failures int32 `json:"failures,omitempty"`
}

// HostKeySource says where a pinned key is from.
// +kubebuilder:validation:Enum=FirstUse;WinRM
type HostKeySource string

// Sources of a pinned key.
const (
	// HostKeyFromFirstUse: the first key that the machine showed.
	HostKeyFromFirstUse HostKeySource = "FirstUse"
	// HostKeyFromWinRM: read on the machine, over HTTPS with a verified certificate.
	HostKeyFromWinRM HostKeySource = "WinRM"
)

// PinnedHostKey is a host key that was accepted.
type PinnedHostKey struct {
	// Source of the key; FirstUse when absent.
	// +optional
	Source HostKeySource `json:"source,omitempty"`
	// Key as a line of authorized_keys.
	// +kubebuilder:validation:MaxLength=8192
	// +required
	Key string `json:"key"`
	// Fingerprint as ssh-keygen prints it.
	// +kubebuilder:validation:MaxLength=128
	// +required
	Fingerprint string `json:"fingerprint"`
	// PinnedAt is when.
	// +required
	PinnedAt metav1.Time `json:"pinnedAt"`
}

// OSStatus names the version of Windows.
type OSStatus struct {
	// Build number, for example 20348.
	// +optional
	Build int32 `json:"build,omitempty"`
	// UBR is the update revision.
	// +optional
	UBR int32 `json:"ubr,omitempty"`
	// Name, for example "Windows Server 2022".
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Name string `json:"name,omitempty"`
}

// NodeStatus is the host's Node.
type NodeStatus struct {
	// Name that the node has or will have, fixed before the first ticket.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`
	// UID of the Node that registered.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	UID string `json:"uid,omitempty"`
	// ManagementIP that the machine reported over the trusted connection before the ticket was issued.
	// +kubebuilder:validation:MaxLength=45
	// +optional
	ManagementIP string `json:"managementIP,omitempty"`
}

// PlanStatus is the plan that the machine is to have, and the one that it has.
type PlanStatus struct {
	// Digest of the desired plan (SHA-256, hexadecimal).
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Digest string `json:"digest,omitempty"`
	// Short is the first 8 digits of Digest.
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Short string `json:"short,omitempty"`
	// Generation fences: it grows with each new plan.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// Applied is the digest of the plan that the machine was last seen in sync with.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Applied string `json:"applied,omitempty"`
	// Seq is the sequence number of the agent's newest journal entry that the status speaks of.
	// +optional
	Seq int64 `json:"seq,omitempty"`
	// KubeletStarted is when the plan in progress reached the kubelet.
	// +optional
	KubeletStarted *metav1.Time `json:"kubeletStarted,omitempty"`
}

// KubeProxyTokenStatus describes the newest token of ServiceAccount windows-kube-proxy that was issued for the machine; the token itself is never
// stored. Another one is handed over after a third of its lifetime.
type KubeProxyTokenStatus struct {
	// Issued is when.
	// +required
	Issued metav1.MicroTime `json:"issued"`
	// Expires is when the token ends.
	// +required
	Expires metav1.Time `json:"expires"`
	// LifetimeSeconds that the API server granted. 7776000, 90 days, are asked for; its flag --service-account-max-token-expiration can make it
	// fewer.
	// +kubebuilder:validation:Minimum=1
	// +required
	LifetimeSeconds int64 `json:"lifetimeSeconds"`
	// NodeUID is the UID of the Node that the token ends with; empty when the API server cannot bind tokens to Nodes.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	NodeUID string `json:"nodeUID,omitempty"`
	// PlanGeneration is that of the plan that the token went with, where the machine did not have that plan before; it has the token when it has
	// the plan.
	// +optional
	PlanGeneration int64 `json:"planGeneration,omitempty"`
	// HandedOver is when the machine was seen to have accepted it.
	// +optional
	HandedOver *metav1.Time `json:"handedOver,omitempty"`
}

// TicketStatus describes the bootstrap credential; the credential itself is never stored.
type TicketStatus struct {
	// ServiceAccount in the bootstrap namespace.
	// +kubebuilder:validation:MaxLength=253
	// +required
	ServiceAccount string `json:"serviceAccount"`
	// ID changes with each ticket; one client certificate is approved for each.
	// +kubebuilder:validation:MaxLength=64
	// +required
	ID string `json:"id"`
	// Expires is when the newest token of the ticket ends.
	// +required
	Expires metav1.Time `json:"expires"`
	// ApprovedCSR is the name of the request that was approved for this ticket.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ApprovedCSR string `json:"approvedCSR,omitempty"`
	// ApprovedAt is when; a kubelet that has not registered its node some minutes later gets another ticket.
	// +optional
	ApprovedAt *metav1.Time `json:"approvedAt,omitempty"`
	// ApprovedBoot is the machine's boot id on record at that time; a kubelet that another boot has started may have lost its key.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	ApprovedBoot string `json:"approvedBoot,omitempty"`
	// EarlierCSR is the name of the last request that was approved for an earlier ticket of the host: its machine may hold that certificate.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	EarlierCSR string `json:"earlierCSR,omitempty"`
}
