package csr

import (
	"net/netip"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/csr"
)

// neverUpdated is the reason that the node lifecycle controller writes on a Node whose kubelet has not reported; the
// heartbeat time beside it is the Node's creation.
const neverUpdated = "NodeStatusNeverUpdated"

// nodeName is the name that was fixed over the trusted connection, or that the spec demands.
func nodeName(h *v1alpha1.WindowsHost) string {
	if n := h.Status.Node; n != nil && n.Name != "" {
		return n.Name
	}
	return h.Spec.NodeName
}

// expected translates a host. Node and Claims are added by the caller.
func expected(h *v1alpha1.WindowsHost, allowLoopback bool) csr.Expected {
	e := csr.Expected{
		Host: "WindowsHost " + h.Name, HostUID: string(h.UID), NodeName: nodeName(h),
		Deleting:       !h.DeletionTimestamp.IsZero(),
		KubeletReached: h.Status.Plan != nil && h.Status.Plan.KubeletStarted != nil,
		// A Machine always has an address by the time its host exists; without one its status was not read yet.
		AddressesComplete: h.Spec.MachineRef == nil || len(h.Status.MachineAddresses) > 0,
		AllowLoopback:     allowLoopback,
	}
	if n := h.Status.Node; n != nil {
		e.NodeUID = n.UID
	}
	if t := h.Status.Ticket; t != nil {
		e.TicketUser, e.TicketID = csr.TicketUser(t.ServiceAccount), t.ID
		e.TicketExpires, e.TicketApprovedCSR = t.Expires.Time, t.ApprovedCSR
	}
	e.Names, e.Addresses = split(ownAddresses(h))
	return e
}

// ownAddresses are the names and addresses that are the host's by what people, the Machine API, or the machine over the
// trusted connection before its ticket said.
func ownAddresses(h *v1alpha1.WindowsHost) []string {
	out := append([]string{h.Spec.Address, h.Spec.NodeIP}, h.Status.MachineAddresses...)
	if h.Status.Node != nil {
		out = append(out, h.Status.Node.ManagementIP)
	}
	return out
}

// split sorts addresses from names; empty texts are dropped.
func split(texts []string) (names []string, addresses []netip.Addr) {
	for _, t := range texts {
		if a, err := netip.ParseAddr(t); err == nil {
			addresses = append(addresses, a.WithZone("").Unmap())
		} else if t != "" {
			names = append(names, t)
		}
	}
	return names, addresses
}

// seen translates a Node and its lease, nil where there is none. The newest sign of life of either counts: a kubelet that
// cannot write its lease may still write its status.
func seen(n *corev1.Node, l *coordinationv1.Lease) csr.Node {
	out := csr.Node{Exists: true, UID: string(n.UID), HostUID: n.Annotations[v1alpha1.HostUIDAnnotation]}
	var last time.Time
	if l != nil && l.Spec.RenewTime != nil {
		last = l.Spec.RenewTime.Time
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Reason != neverUpdated && c.LastHeartbeatTime.After(last) {
			last = c.LastHeartbeatTime.Time
		}
	}
	out.LastSeen = last
	return out
}
