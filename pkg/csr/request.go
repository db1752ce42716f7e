package csr

import (
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// Prefixes of user names, groups and subjects, as the API server writes them
// (kubernetes.io/docs/reference/access-authn-authz/node, …/service-accounts-admin).
const (
	// BootstrapNamespace holds the ServiceAccounts that are tickets, one a host.
	BootstrapNamespace = "windows-machine-bootstrap"
	// NodePrefix followed by the node's name is the user name and the common name of a kubelet.
	NodePrefix = "system:node:"
	// NodesGroup is the organization of kubelets' certificates.
	NodesGroup = "system:nodes"

	ticketPrefix       = "system:serviceaccount:" + BootstrapNamespace + ":"
	ticketsGroup       = "system:serviceaccounts:" + BootstrapNamespace
	authenticatedGroup = "system:authenticated"
)

// TicketUser returns the user name of the account in the bootstrap namespace.
func TicketUser(serviceAccount string) string { return ticketPrefix + serviceAccount }

// Request is what the rules look at of a CertificateSigningRequest. All of it but PEM, Usages, SignerName and
// ExpirationSeconds was written by the API server and cannot be forged by the requester.
type Request struct {
	Name       string
	SignerName string
	// Username, UserUID and Groups of the requester.
	Username string
	UserUID  string
	Groups   []string
	Usages   []certificatesv1.KeyUsage
	// ExpirationSeconds asked for, nil for the signer's default.
	ExpirationSeconds *int32
	// PEM is the request itself.
	PEM     []byte
	Created time.Time
	// Decided is whether the request has a certificate or any condition (Approved, Denied, Failed).
	Decided bool
	// Superseded is whether the same requester (by UID) has a newer pending request for the same signer.
	Superseded bool
}

// FromObject reads a Request from the API object. It copies nothing and never fails; Superseded is the caller's to set.
func FromObject(o *certificatesv1.CertificateSigningRequest) Request {
	return Request{
		Name: o.Name, SignerName: o.Spec.SignerName,
		Username: o.Spec.Username, UserUID: o.Spec.UID, Groups: o.Spec.Groups,
		Usages: o.Spec.Usages, ExpirationSeconds: o.Spec.ExpirationSeconds,
		PEM: o.Spec.Request, Created: o.CreationTimestamp.Time,
		Decided: len(o.Status.Conditions) > 0 || len(o.Status.Certificate) > 0,
	}
}

// Kubelet is whether the signer is one of the two that serve kubelets, and nothing was decided yet: the cheap first check.
func (r Request) Kubelet() bool {
	return !r.Decided && (r.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName ||
		r.SignerName == certificatesv1.KubeletServingSignerName)
}

// NodeKey and UserKey name what a request may concern; see Keys.
func NodeKey(nodeName string) string { return "node/" + nodeName }

// UserKey is the key of a ticket's user name.
func UserKey(username string) string { return "user/" + username }

// Keys returns what the request may concern, for an index: the node that its subject names, the node that sent it, the
// ticket that sent it. It is empty for requests that cannot be ours.
func Keys(r Request) []string {
	if !r.Kubelet() {
		return nil
	}
	var keys []string
	if name, ok := strings.CutPrefix(r.Username, NodePrefix); ok && name != "" {
		keys = append(keys, NodeKey(name))
	}
	if strings.HasPrefix(r.Username, ticketPrefix) {
		keys = append(keys, UserKey(r.Username))
	}
	if p := parse(r.PEM); p.nodeName != "" && !slices.Contains(keys, NodeKey(p.nodeName)) {
		keys = append(keys, NodeKey(p.nodeName))
	}
	return keys
}
