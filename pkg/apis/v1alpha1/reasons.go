package v1alpha1

// Condition types of a WindowsHost. All are positive: True is what one wants to see, but for Deleting and Paused.
const (
	// ConditionReady sums up the others and the Node: True when the Node is Ready and the machine equals its plan.
	ConditionReady = "Ready"
	// ConditionTrusted says whether the machine's host key is one that may be talked to.
	ConditionTrusted = "Trusted"
	// ConditionReachable says whether the operator can log in.
	ConditionReachable = "Reachable"
	// ConditionPreflightPassed says whether cluster and machine have what is needed, checked before anything is changed.
	ConditionPreflightPassed = "PreflightPassed"
	// ConditionInSync says whether the machine equals the plan.
	ConditionInSync = "InSync"
	// ConditionRegistered says whether the Node exists and is this host's.
	ConditionRegistered = "Registered"
	// ConditionDeleting is there while the host is being deleted.
	ConditionDeleting = "Deleting"
	// ConditionPaused is there while nothing is done.
	ConditionPaused = "Paused"
)

// Condition types of a WindowsNodeProfile.
const (
	// ConditionFactsComplete is True when all facts about the cluster were found.
	ConditionFactsComplete = "FactsComplete"
	// ConditionBindingsSafe is True when no ClusterRoleBinding lets bootstrap identities join under any name.
	ConditionBindingsSafe = "BindingsSafe"
)

// Reasons of ConditionReady that no other condition has; where another condition is not True, Ready carries its reason.
const (
	// ReasonNodeReady surfaces when the Node is Ready and the machine is in sync.
	ReasonNodeReady = "NodeReady"
	// ReasonNodeNotReady surfaces when the Node is registered and its kubelet says it is not ready.
	ReasonNodeNotReady = "NodeNotReady"
	// ReasonNodeUninitialized surfaces between the machine's being in sync and the end of the taint UninitializedTaint.
	ReasonNodeUninitialized = "NodeUninitialized"
	// ReasonNotChecked surfaces on a condition that an earlier one keeps from being looked at.
	ReasonNotChecked = "NotChecked"
)

// Reasons of ConditionTrusted.
const (
	// ReasonHostKeyPinned surfaces when the machine showed a key of spec.hostKeys.
	ReasonHostKeyPinned = "HostKeyPinned"
	// ReasonHostKeyTrustedOnFirstUse surfaces when the key is the one pinned in status.hostKey.
	ReasonHostKeyTrustedOnFirstUse = "HostKeyTrustedOnFirstUse"
	// ReasonHostKeyReadOverWinRM surfaces when the key is the one that was read over WinRM, through a TLS channel with a verified certificate.
	ReasonHostKeyReadOverWinRM = "HostKeyReadOverWinRM"
	// ReasonCertificateUntrusted surfaces when the machine's WinRM certificate is not one that winrm-ca.crt has signed for its name.
	ReasonCertificateUntrusted = "CertificateUntrusted"
	// ReasonHostKeyUnknown surfaces when no key is pinned and the profile's policy is Strict.
	ReasonHostKeyUnknown = "HostKeyUnknown"
	// ReasonHostKeyChanged surfaces when the machine shows another key than the pinned one. It ends when a person acts.
	ReasonHostKeyChanged = "HostKeyChanged"
	// ReasonTrustWindowClosed surfaces when a Machine's key was not seen within 30 minutes of its being Provisioned.
	ReasonTrustWindowClosed = "TrustWindowClosed"
	// ReasonHostKeyInvalid surfaces when a line of spec.hostKeys is not a public key.
	ReasonHostKeyInvalid = "HostKeyInvalid"
)

// Reasons of ConditionReachable.
const (
	// ReasonConnected surfaces when the operator has logged in.
	ReasonConnected = "Connected"
	// ReasonConnecting surfaces while the first connection is being made.
	ReasonConnecting = "Connecting"
	// ReasonUnreachable surfaces when nothing answers at the address.
	ReasonUnreachable = "Unreachable"
	// ReasonAuthenticationFailed surfaces when the machine refuses user and key.
	ReasonAuthenticationFailed = "AuthenticationFailed"
	// ReasonConnectionLost surfaces when the connection ended in the middle of an answer.
	ReasonConnectionLost = "ConnectionLost"
	// ReasonOpeningSSH surfaces while OpenSSH is being installed and started over WinRM.
	ReasonOpeningSSH = "OpeningSSH"
	// ReasonOpenSSHMissing surfaces when OpenSSH cannot be made to run on a machine with transport WinRM; the message names the way out.
	ReasonOpenSSHMissing = "OpenSSHMissing"
	// ReasonCredentialsMissing surfaces when the Secret or its key private-key.pem is not there.
	ReasonCredentialsMissing = "CredentialsMissing"
	// ReasonCredentialsInvalid surfaces when private-key.pem is not a usable private key.
	ReasonCredentialsInvalid = "CredentialsInvalid"
	// ReasonNotAllowed surfaces on a host outside the operator's namespace, or at an address that may not be used.
	ReasonNotAllowed = "NotAllowed"
	// ReasonAgentFailed surfaces when the agent could not be put on the machine or did not answer sensibly.
	ReasonAgentFailed = "AgentFailed"
)

// Reasons of ConditionPreflightPassed and of a profile's ConditionFactsComplete.
const (
	// ReasonPreflightPassed surfaces when nothing is missing.
	ReasonPreflightPassed = "PreflightPassed"
	// ReasonPreflightFailed surfaces when the machine cannot be a node as it is; the message lists every finding.
	ReasonPreflightFailed = "PreflightFailed"
	// ReasonProfileMissing surfaces when spec.profileRef names no WindowsNodeProfile.
	ReasonProfileMissing = "ProfileMissing"
	// ReasonFactsComplete surfaces when all facts were found.
	ReasonFactsComplete = "FactsComplete"
	// ReasonFactsMissing surfaces when a fact about the cluster was not found and not set in the profile.
	ReasonFactsMissing = "FactsMissing"
	// ReasonFactsForbidden surfaces when the operator may not read a source; the message names verb and resource.
	ReasonFactsForbidden = "FactsForbidden"
	// ReasonFactsDisagree surfaces when two sources contradict each other; the first in order is used.
	ReasonFactsDisagree = "FactsDisagree"
	// ReasonFactsGuessed surfaces when a fact follows only from what is in use; the message says how to set it.
	ReasonFactsGuessed = "FactsGuessed"
	// ReasonNetworkUnfit surfaces when Windows nodes cannot be, or may not be, part of the cluster's pod network as it is; the message
	// names what to change.
	ReasonNetworkUnfit = "NetworkUnfit"
	// ReasonIgnitionMissing surfaces when the named Secret, ConfigMap or MachineConfig, or its key, is not there.
	ReasonIgnitionMissing = "IgnitionMissing"
	// ReasonIgnitionInvalid surfaces when the worker ignition cannot be read.
	ReasonIgnitionInvalid = "IgnitionInvalid"
	// ReasonPlanInvalid surfaces when no valid plan can be made from facts and profile.
	ReasonPlanInvalid = "PlanInvalid"
)

// Reasons of ConditionPreflightPassed that are about the pod ranges of Nodes, where the network mode needs one for each.
const (
	// ReasonPodCIDRUnchecked surfaces until the ranges of all Nodes and the addresses of their pods have been compared.
	ReasonPodCIDRUnchecked = "PodCIDRUnchecked"
	// ReasonNodeCIDRsNotAllocated surfaces when no Node has spec.podCIDR; the message lists the evidence and what mends it.
	ReasonNodeCIDRsNotAllocated = "NodeCIDRsNotAllocated"
	// ReasonNodeCIDRsIncomplete surfaces when some Nodes have spec.podCIDR and others wait for theirs.
	ReasonNodeCIDRsIncomplete = "NodeCIDRsIncomplete"
	// ReasonPodCIDRRangeExhausted surfaces when there is no range left to give.
	ReasonPodCIDRRangeExhausted = "PodCIDRRangeExhausted"
	// ReasonControllerManagerSilent surfaces when the controller manager that gives ranges has not renewed its lease.
	ReasonControllerManagerSilent = "ControllerManagerSilent"
	// ReasonPodCIDROverlap surfaces when a Node's range holds addresses that others have; it is not used.
	ReasonPodCIDROverlap = "PodCIDROverlap"
	// ReasonPodCIDRMismatch surfaces when the pods of a Node are not in the range that its spec says; the message names the override.
	ReasonPodCIDRMismatch = "PodCIDRMismatch"
	// ReasonPodCIDRTwoWriters surfaces when the operator is to give ranges and somebody else does.
	ReasonPodCIDRTwoWriters = "PodCIDRTwoWriters"
)

// Reasons of a profile's ConditionBindingsSafe.
const (
	// ReasonNoRiskyBindings surfaces when there is none.
	ReasonNoRiskyBindings = "NoRiskyBindings"
	// ReasonRiskyBinding surfaces, also as an event, when there are some; the message names each.
	ReasonRiskyBinding = "RiskyBinding"
)

// Reasons of ConditionInSync.
const (
	// ReasonInSync surfaces when the machine equals the plan.
	ReasonInSync = "InSync"
	// ReasonStaging surfaces while payload is sent.
	ReasonStaging = "Staging"
	// ReasonStagingFailed surfaces when the machine refused the payload.
	ReasonStagingFailed = "StagingFailed"
	// ReasonApplying surfaces while the agent applies the plan.
	ReasonApplying = "Applying"
	// ReasonStepFailed surfaces when a step failed; the agent tries again by itself.
	ReasonStepFailed = "StepFailed"
	// ReasonTicketFailed surfaces when no bootstrap credential can be issued.
	ReasonTicketFailed = "TicketFailed"
	// ReasonKubeProxyTokenFailed surfaces when no token can be issued for a kube-proxy that has none, or whose token has ended.
	ReasonKubeProxyTokenFailed = "KubeProxyTokenFailed"
	// ReasonPlanRefused surfaces when the agent refused the plan: another or newer owner, or an older agent.
	ReasonPlanRefused = "PlanRefused"
	// ReasonRebooting surfaces while the machine restarts.
	ReasonRebooting = "Rebooting"
	// ReasonRebootNeeded surfaces when a registered node needs a reboot, which waits for a person.
	ReasonRebootNeeded = "RebootNeeded"
)

// Reasons of ConditionRegistered.
const (
	// ReasonRegistered surfaces when the Node exists and is this host's.
	ReasonRegistered = "Registered"
	// ReasonWaitingForKubelet surfaces until the kubelet has been started.
	ReasonWaitingForKubelet = "WaitingForKubelet"
	// ReasonWaitingForCertificate surfaces until the kubelet's first certificate was asked for and approved.
	ReasonWaitingForCertificate = "WaitingForCertificate"
	// ReasonWaitingForNode surfaces between the certificate and the Node.
	ReasonWaitingForNode = "WaitingForNode"
	// ReasonNodeConflict surfaces when a Node of that name exists and is not this host's.
	ReasonNodeConflict = "NodeConflict"
)

// Reasons of ConditionDeleting.
const (
	// ReasonCleaning surfaces while the machine is brought back to what it was.
	ReasonCleaning = "Cleaning"
	// ReasonCleaningFailed surfaces when it cannot be; the message says how to go on without.
	ReasonCleaningFailed = "CleaningFailed"
)

// Reasons of ConditionPaused.
const (
	// ReasonPaused surfaces while spec.paused or the paused annotation is set.
	ReasonPaused = "Paused"
)

// Reasons of events, beside those of the conditions.
const (
	// EventHostCreated surfaces on a Machine when its WindowsHost was made.
	EventHostCreated = "WindowsHostCreated"
	// EventNameConflict surfaces on a Machine whose name a WindowsHost of another origin has.
	EventNameConflict = "NameConflict"
	// EventNoAddress surfaces on a Machine that has no address the operator could use.
	EventNoAddress = "NoUsableAddress"
	// EventNameTooLong surfaces on a Machine whose name Windows cuts to 15 characters.
	EventNameTooLong = "NameTooLong"
	// EventForeignNode surfaces on a Machine that already has a Node which somebody else set up.
	EventForeignNode = "ForeignNode"
	// EventMachineReleased surfaces on a Machine that lost the os-id label or gained the ignore label.
	EventMachineReleased = "MachineReleased"
	// EventHostKeyPinned surfaces on a host whose key was pinned on first use.
	EventHostKeyPinned = "HostKeyPinned"
	// EventTicketIssued surfaces when a bootstrap ticket was issued.
	EventTicketIssued = "TicketIssued"
	// EventKubeProxyTokenIssued surfaces when a token was issued for the machine's kube-proxy, EventKubeProxyTokenShort when the API server grants
	// less than the 90 days that are asked for.
	EventKubeProxyTokenIssued = "KubeProxyTokenIssued"
	EventKubeProxyTokenShort  = "KubeProxyTokenShort"
	// EventRebooting surfaces when the operator restarts a machine.
	EventRebooting = "Rebooting"
	// EventStep surfaces when a step begins.
	EventStep = "StepStarted"
	// EventCSRApproved and EventCSRDenied surface on a host.
	EventCSRApproved = "CertificateApproved"
	EventCSRDenied   = "CertificateDenied"
	// EventCSRWaiting surfaces on a host whose node's certificate waits for something that a person may have to do.
	EventCSRWaiting = "CertificateWaiting"
)

// SkipCleaningAnnotation on a WindowsHost lets its deletion finish though the machine cannot be cleaned, while its
// value is "true".
const SkipCleaningAnnotation = Group + "/skip-cleaning"
