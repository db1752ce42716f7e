package csr

// Verdict is what is to be done about a request.
type Verdict string

// The verdicts.
const (
	Ignore  Verdict = "Ignore"
	Approve Verdict = "Approve"
	Deny    Verdict = "Deny"
	Wait    Verdict = "Wait"
)

// Reason names the rule that led to a verdict. Reasons are stable: they are metric labels and part of condition
// messages.
type Reason string

// Reasons of Approve.
const (
	// FirstClient: the first client certificate of a host that has the ticket.
	FirstClient Reason = "FirstClientCertificate"
	// Renewal: a node of ours renews its client certificate.
	Renewal Reason = "ClientRenewal"
	// Serving: a node of ours gets a serving certificate for its own names and addresses.
	Serving Reason = "ServingCertificate"
)

// Reasons of Ignore.
const (
	// NotKubelet: the signer is not one of the two kubelet signers.
	NotKubelet Reason = "NotKubeletSigner"
	// Decided: the request is approved, denied, failed or issued already.
	Decided Reason = "AlreadyDecided"
	// TooOld: the request is older than MaxAge; kubelets send new ones.
	TooOld Reason = "TooOld"
	// NotOurs: neither subject nor requester is one of our hosts.
	NotOurs Reason = "NotOurs"
	// NodeNotOurs: the name is expected, but the Node of that name belongs to another host.
	NodeNotOurs Reason = "NodeNotOurs"
)

// Reasons of Deny: the shape of the request.
const (
	// Malformed: not exactly one PEM block of a parsable request of at most MaxRequest bytes with nothing around it.
	Malformed Reason = "MalformedRequest"
	// WrongSubject: the subject is not exactly one common name and one organization system:nodes.
	WrongSubject Reason = "WrongSubject"
	// ExtraExtension: an extension other than one plain subjectAltName, or a kind of name in it that is neither DNS nor IP.
	ExtraExtension Reason = "ExtraExtension"
	// WeakKey: the key is not RSA of 2048 to 8192 bits or ECDSA on P-256, P-384 or P-521.
	WeakKey Reason = "WeakKey"
	// BadSignature: the request is not signed by its own key with SHA-2.
	BadSignature Reason = "BadSignature"
	// WrongUsages: the usages are not exactly what the signer is for.
	WrongUsages Reason = "WrongUsages"
	// TooLong: spec.expirationSeconds is above MaxLifetime.
	TooLong Reason = "LifetimeTooLong"
	// WrongGroups: the requester lacks the groups that such a user has.
	WrongGroups Reason = "WrongGroups"
)

// Reasons of Deny: who asks for what.
const (
	// WrongRequester: somebody who is neither the host's ticket nor its node asks in the name of our host.
	WrongRequester Reason = "WrongRequester"
	// NotItself: a node or ticket asks for a certificate of another name than its own.
	NotItself Reason = "RequesterIsNotSubject"
	// TicketUsed: a certificate was approved for this ticket before.
	TicketUsed Reason = "TicketUsed"
	// NodeOfOther: the Node of this name is marked as another host's.
	NodeOfOther Reason = "NodeOfAnotherHost"
	// ClientSAN: a client certificate with subject alternative names.
	ClientSAN Reason = "ClientWithSubjectAltNames"
	// NoSAN: a serving certificate without any.
	NoSAN Reason = "NoSubjectAltNames"
	// SANForbidden: a name or address of the API server or of a Service, or one that no node can have.
	SANForbidden Reason = "SubjectAltNameForbidden"
	// SANNotAllowed: a name or address that is not this host's.
	SANNotAllowed Reason = "SubjectAltNameNotAllowed"
)

// Reasons of Wait. TicketUnknown and TicketNotCurrent turn into Deny once the request is older than Settle.
const (
	// TicketUnknown: an account of the bootstrap namespace that is no host's ticket, as far as is known.
	TicketUnknown Reason = "TicketUnknown"
	// TicketNotCurrent: the account was deleted and made again since, or the host's status does not show it yet.
	TicketNotCurrent Reason = "TicketNotCurrent"
	// TicketExpired: the ticket has ended; a new one is on its way.
	TicketExpired Reason = "TicketExpired"
	// Superseded: the same ticket sent a newer request, whose key the machine holds.
	Superseded Reason = "Superseded"
	// KubeletNotReached: the plan in progress has not reached the kubelet yet.
	KubeletNotReached Reason = "KubeletNotReached"
	// NodeAlive: the Node's lease is fresh, so its machine still runs with the certificate that it has.
	NodeAlive Reason = "NodeAlive"
	// NodeUnclaimed: a Node of this name exists and is not known to be this host's.
	NodeUnclaimed Reason = "NodeUnclaimed"
	// NodeMissing: the Node does not exist (yet).
	NodeMissing Reason = "NodeMissing"
	// NameAmbiguous: two hosts expect the same node name.
	NameAmbiguous Reason = "NodeNameAmbiguous"
	// HostDeleting: the host is being deleted.
	HostDeleting Reason = "HostDeleting"
	// Incomplete: what is needed to decide is not known yet.
	Incomplete Reason = "DataIncomplete"
	// Contested: the address or name is this host's, but another node or host claims it too.
	Contested Reason = "AddressContested"
)
