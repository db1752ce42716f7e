package machine

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	machinev1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

// The label that makes a Machine ours, and its one value; both are OpenShift's.
const (
	OSLabel      = "machine.openshift.io/os-id"
	OSLabelValue = "Windows"
)

// netBIOSLimit is the number of characters Windows keeps of a computer's NetBIOS name; Azure and vSphere refuse or cut
// longer names of Windows machines.
const netBIOSLimit = 15

// claim is what a Machine's labels and state ask of us.
type claim int

const (
	// claimNone: not a Windows Machine, or not one we may touch.
	claimNone claim = iota
	// claimWait: ours, but there is nothing to connect to yet.
	claimWait
	// claimHost: ours, provisioned.
	claimHost
	// claimLeaving: ours and being deleted.
	claimLeaving
)

// classify says what m asks for. The label must match to the letter: a Machine with os-id=windows is somebody else's.
func classify(m *machinev1.Machine) claim {
	switch {
	case m.Labels[OSLabel] != OSLabelValue || m.Labels[v1alpha1.IgnoreLabel] == "true":
		return claimNone
	case !m.DeletionTimestamp.IsZero():
		return claimLeaving
	case m.Status.Phase == nil:
		return claimWait
	}
	switch *m.Status.Phase {
	case machinev1.PhaseProvisioned, machinev1.PhaseRunning:
		return claimHost
	}
	return claimWait
}

// pickAddress chooses where to connect, whatever the order of the list: the lowest usable IPv4 InternalIP, else the lowest usable
// IPv6 InternalIP, else the first InternalDNS name by alphabet. Link-local, loopback (unless allowLoopback), unspecified and multicast
// addresses are never usable, nor are names that the API does not take. It returns "" when there is nothing.
func pickAddress(addrs []corev1.NodeAddress, allowLoopback bool) string {
	var ips []netip.Addr
	var names []string
	for _, a := range addrs {
		switch a.Type {
		case corev1.NodeInternalIP:
			if ip, err := netip.ParseAddr(a.Address); err == nil && usable(ip, allowLoopback) {
				ips = append(ips, ip)
			}
		case corev1.NodeInternalDNS:
			if n := strings.ToLower(a.Address); len(validation.IsDNS1123Subdomain(n)) == 0 && !numeric(n) {
				names = append(names, n)
			}
		}
	}
	slices.SortFunc(ips, func(a, b netip.Addr) int {
		return cmp.Or(cmp.Compare(a.BitLen(), b.BitLen()), a.Compare(b))
	})
	slices.Sort(names)
	switch {
	case len(ips) > 0:
		return ips[0].String()
	case len(names) > 0:
		return names[0]
	}
	return ""
}

// numeric reports whether a name ends in a label of digits, as a mistyped address does and no host's name may (RFC 1123, 2.1).
func numeric(name string) bool {
	return strings.Trim(name[strings.LastIndexByte(name, '.')+1:], "0123456789") == ""
}

func usable(ip netip.Addr, allowLoopback bool) bool {
	if ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip.Zone() != "" {
		return false
	}
	return allowLoopback || !ip.IsLoopback()
}

// certificateNames lists the addresses and names of the Machine that its node's serving certificate may carry, sorted, each once, as many
// as the host's status takes.
func certificateNames(m *machinev1.Machine) []string {
	var out []string
	for _, a := range m.Status.Addresses {
		switch a.Type {
		case corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeInternalDNS, corev1.NodeExternalDNS, corev1.NodeHostName:
			if len(a.Address) <= v1alpha1.MaxAddressLength {
				out = append(out, strings.ToLower(a.Address))
			}
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), v1alpha1.MaxMachineAddresses)]
}

// username is the administrator that the platform's Windows images have; an override of the profile wins.
// Azure's machine provider makes the user "capi", the others' images have Administrator.
func username(m *machinev1.Machine, override string) string {
	switch {
	case override != "":
		return override
	case providerKind(m) == "AzureMachineProviderSpec":
		return "capi"
	}
	return "Administrator"
}
