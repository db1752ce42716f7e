package csr

import (
	"net/netip"
	"strings"
	"time"
)

// Expected is what is known of one WindowsHost and of the Node that has its name.
type Expected struct {
	// Host names the host in messages, HostUID identifies it.
	Host    string
	HostUID string
	// NodeName is the name that the node has or will have; a host whose NodeName is empty matches no subject.
	NodeName string
	// Deleting is whether the host is being deleted.
	Deleting bool

	// TicketUser is the user name of the host's ticket ("system:serviceaccount:windows-machine-bootstrap:…"), TicketID the UID
	// of that ServiceAccount, TicketExpires when its newest token ends. All are empty when no ticket is out.
	TicketUser    string
	TicketID      string
	TicketExpires time.Time
	// TicketApprovedCSR is the name of the request that this ticket was used for.
	TicketApprovedCSR string
	// KubeletReached is whether the plan in progress has reached the kubelet.
	KubeletReached bool

	// NodeUID is the UID of the Node that was recorded as this host's, empty before it registered.
	NodeUID string
	// Node is the Node named NodeName, as the cluster has it.
	Node Node

	// Names and Addresses are what a serving certificate may carry beside NodeName: from the host's spec, the Machine's
	// status and the frozen management address, never from Node.status.
	Names     []string
	Addresses []netip.Addr
	// AddressesComplete is whether Names and Addresses are all there: a host of a Machine has them once the Machine's
	// status was read.
	AddressesComplete bool
	// AllowLoopback lets a host live on a loopback address; for tests and demonstrations in one machine.
	AllowLoopback bool
	// Claims are names and addresses of others; nil means that they are not known, and no serving certificate is approved.
	Claims *Claims
}

// Node is the Node object that has the expected name.
type Node struct {
	Exists bool
	UID    string
	// HostUID is the value of the Node's host annotation.
	HostUID string
	// LastSeen is the newest sign of life: the lease's renewTime or the kubelet's last heartbeat; zero when it never lived.
	LastSeen time.Time
}

// Claims are names and addresses that are not this host's, each with a word about the owner for messages.
type Claims struct {
	// ServerNames, ServerAddresses and ServerPrefixes belong to the API server or to Services; no node may ever have them.
	// Names are in lower case.
	ServerNames     map[string]string
	ServerAddresses map[netip.Addr]string
	ServerPrefixes  []netip.Prefix
	// OtherNames and OtherAddresses are claimed by other nodes and hosts. Since a node writes its own status, such a claim
	// delays a certificate and makes an event, but does not deny it.
	OtherNames     map[string]string
	OtherAddresses map[netip.Addr]string
}

// ownership is how a Node relates to the host that expects its name.
type ownership int

const (
	absent ownership = iota
	ours
	unclaimed
	foreign
)

// owner tells whose the Node is. The UID that the operator recorded counts first; the annotation, which a kubelet can
// write on its own Node, counts only together with the name and while no other UID was recorded.
func (e Expected) owner() ownership {
	switch {
	case !e.Node.Exists:
		return absent
	case e.Node.HostUID != "" && e.Node.HostUID != e.HostUID:
		return foreign
	case e.NodeUID != "" && e.NodeUID == e.Node.UID:
		return ours
	case e.NodeUID == "" && e.Node.HostUID != "":
		return ours
	default:
		return unclaimed
	}
}

// allowsName is whether a serving certificate may carry the DNS name. DNS names are compared without regard to ASCII
// case, as TLS clients do, and otherwise whole.
func (e Expected) allowsName(name string) bool {
	if strings.EqualFold(name, e.NodeName) && isASCII(name) {
		return true
	}
	for _, n := range e.Names {
		if isASCII(name) && strings.EqualFold(name, n) {
			return true
		}
	}
	return false
}

func (e Expected) allowsAddress(a netip.Addr) bool {
	for _, b := range e.Addresses {
		if a == b.Unmap() {
			return true
		}
	}
	return false
}

// isASCII keeps strings.EqualFold from folding letters outside ASCII (U+212A KELVIN SIGN equals k there).
func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// server returns whose the name is when it belongs to the API server or a Service.
func (c *Claims) serverName(name string) (string, bool) {
	owner, ok := c.ServerNames[strings.ToLower(name)]
	return owner, ok
}

func (c *Claims) serverAddress(a netip.Addr) (string, bool) {
	if owner, ok := c.ServerAddresses[a]; ok {
		return owner, true
	}
	for _, p := range c.ServerPrefixes {
		if p.Contains(a) {
			return "the service network " + p.String(), true
		}
	}
	return "", false
}
