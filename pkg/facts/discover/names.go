package discover

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windowsmachine/operator/pkg/facts"
)

// hostOf is the host of a URL, in lower case and without brackets; addresses in their shortest form. "" when there is none.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return canonicalHost(u.Hostname())
}

func canonicalHost(host string) string {
	host = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(host)), ".")
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().WithZone("").String()
	}
	return host
}

// clusterIPs are the addresses of a Service, none when it is headless.
func clusterIPs(svc *corev1.Service) []string {
	ips := svc.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{svc.Spec.ClusterIP}
	}
	return slices.DeleteFunc(slices.Clone(ips), func(ip string) bool { return ip == "" || ip == corev1.ClusterIPNone })
}

// serviceNames are the names and addresses of Service default/kubernetes, which only pods and nodes can use.
func serviceNames(s sources) []string {
	out := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	if s.api != nil {
		for _, ip := range clusterIPs(s.api) {
			out = append(out, canonicalHost(ip))
		}
	}
	return out
}

// endpointURLs are the URLs of the API servers behind default/kubernetes, sorted.
func endpointURLs(s sources) []string {
	var out []string
	for _, slice := range s.endpoints {
		port := int32(443)
		if len(slice.Ports) > 0 && slice.Ports[0].Port != nil {
			port = *slice.Ports[0].Port
		}
		for _, e := range slice.Endpoints {
			for _, a := range e.Addresses {
				out = append(out, "https://"+net.JoinHostPort(a, strconv.Itoa(int(port))))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// serverNames are the names and addresses that belong to the API server or to its Service; a node that could get a certificate
// for one of them could pose as the API server.
func serverNames(in Input, s sources, l ladder, domain string) []string {
	out := append(serviceNames(s), "openshift", "openshift.default", "openshift.default.svc")
	if domain != "" {
		out = append(out, "kubernetes.default.svc."+domain, "openshift.default.svc."+domain)
	}
	urls := append([]string{in.OwnAPIServer}, endpointURLs(s)...)
	for _, c := range l[facts.APIServer] {
		urls = append(urls, c.values...)
	}
	if s.infra != nil {
		urls = append(urls, s.infra.Status.APIServerURL)
	}
	for _, u := range urls {
		out = append(out, hostOf(u))
	}
	out = slices.DeleteFunc(out, func(n string) bool { return n == "" })
	slices.Sort(out)
	return slices.Compact(out)
}
