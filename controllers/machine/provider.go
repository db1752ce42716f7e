package machine

import (
	"encoding/json"
	"strings"

	machinev1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
)

// providerKind is the kind of the Machine's providerSpec, "" when it has none.
func providerKind(m *machinev1.Machine) string {
	if m.Spec.ProviderSpec.Value == nil {
		return ""
	}
	var t struct {
		Kind string `json:"kind"`
	}
	// A providerSpec that is not JSON cannot be stored; a kind that is missing is "".
	_ = json.Unmarshal(m.Spec.ProviderSpec.Value.Raw, &t)
	return t.Kind
}

// normalizeProviderID makes provider IDs comparable: Azure spells the same machine with three or four slashes behind the
// scheme, and its resource path is not case-sensitive. Other providers' identifiers keep their case.
func normalizeProviderID(id string) string {
	scheme, rest, ok := strings.Cut(id, "://")
	if !ok {
		return id
	}
	scheme = strings.ToLower(scheme)
	rest = strings.TrimLeft(rest, "/")
	if scheme == "azure" {
		rest = strings.ToLower(rest)
	}
	return scheme + ":///" + rest
}

// nodeOf finds the Node of m: by nodeRef, else by an InternalIP that both have, else by provider ID; never by an equal name, since
// Windows may have cut the computer's name. It returns nil when there is none.
func nodeOf(m *machinev1.Machine, nodes []corev1.Node) *corev1.Node {
	for _, match := range []func(*machinev1.Machine, *corev1.Node) bool{byRef, byAddress, byProviderID} {
		for i := range nodes {
			if match(m, &nodes[i]) {
				return &nodes[i]
			}
		}
	}
	return nil
}

func byRef(m *machinev1.Machine, n *corev1.Node) bool {
	ref := m.Status.NodeRef
	return ref != nil && ref.Name == n.Name && (ref.UID == "" || ref.UID == n.UID)
}

func byAddress(m *machinev1.Machine, n *corev1.Node) bool {
	if m.Status.NodeRef != nil {
		return false
	}
	for _, a := range m.Status.Addresses {
		for _, b := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP && b.Type == corev1.NodeInternalIP && a.Address == b.Address {
				return true
			}
		}
	}
	return false
}

func byProviderID(m *machinev1.Machine, n *corev1.Node) bool {
	if m.Status.NodeRef != nil || m.Spec.ProviderID == nil || *m.Spec.ProviderID == "" || n.Spec.ProviderID == "" {
		return false
	}
	return normalizeProviderID(*m.Spec.ProviderID) == normalizeProviderID(n.Spec.ProviderID)
}
