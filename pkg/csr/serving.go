package csr

import (
	"net/netip"
	"strings"
)

func sanPresentRule(c candidate) (Decision, bool) {
	if len(c.p.cr.DNSNames)+len(c.p.cr.IPAddresses) == 0 {
		return deny(NoSAN, "a serving certificate needs at least one DNS name or IP address")
	}
	return next()
}

// sanRule judges every name and address: first what nobody may have, then what this host has, then who else claims it.
// A denial outweighs a wait, so all are looked at.
func sanRule(c candidate) (Decision, bool) {
	var held Decision
	holding := false
	keep := func(d Decision, done bool) bool {
		if done && d.Verdict == Wait && !holding {
			held, holding = d, true
		}
		return done && d.Verdict == Deny
	}
	for _, n := range c.p.cr.DNSNames {
		if d, done := nameRule(c.e, n); keep(d, done) {
			return d, true
		}
	}
	for _, ip := range c.p.cr.IPAddresses {
		if d, done := addressRule(c.e, ip); keep(d, done) {
			return d, true
		}
	}
	return held, holding
}

func nameRule(e Expected, name string) (Decision, bool) {
	if owner, is := reservedName(name); is {
		return deny(SANForbidden, "DNS name %s belongs to %s", quote(name), owner)
	}
	if e.Claims == nil {
		return wait(Incomplete, waitShort, "the names of the API server and of other nodes are not known yet")
	}
	if owner, is := e.Claims.serverName(name); is {
		return deny(SANForbidden, "DNS name %s belongs to %s", quote(name), owner)
	}
	if !e.allowsName(name) {
		return notAllowed(e, "DNS name "+quote(name))
	}
	if owner, is := e.Claims.OtherNames[strings.ToLower(name)]; is {
		return wait(Contested, waitLong, "DNS name %s is claimed by %s too", quote(name), owner)
	}
	return next()
}

func addressRule(e Expected, ip []byte) (Decision, bool) {
	a, ok := netip.AddrFromSlice(ip)
	a = a.Unmap()
	if !ok || !a.IsGlobalUnicast() && (!e.AllowLoopback || !a.IsLoopback()) {
		// Unspecified, loopback, link-local and multicast addresses, and 255.255.255.255, name no node.
		return deny(SANForbidden, "IP address %s is not an address that a node can have", a)
	}
	if e.Claims == nil {
		return wait(Incomplete, waitShort, "the addresses of the API server and of other nodes are not known yet")
	}
	if owner, is := e.Claims.serverAddress(a); is {
		return deny(SANForbidden, "IP address %s belongs to %s", a, owner)
	}
	if !e.allowsAddress(a) {
		return notAllowed(e, "IP address "+a.String())
	}
	if owner, is := e.Claims.OtherAddresses[a]; is {
		return wait(Contested, waitLong, "IP address %s is claimed by %s too", a, owner)
	}
	return next()
}

func notAllowed(e Expected, what string) (Decision, bool) {
	if !e.AddressesComplete {
		return wait(Incomplete, waitShort, "%s is not known to be one of %s, whose addresses are not all known yet", what, e.Host)
	}
	return deny(SANNotAllowed, "%s is not one of %s (its spec, its Machine, its management address)", what, e.Host)
}

// reservedName are names that mean the API server or a Service in every cluster, or the caller itself.
func reservedName(name string) (string, bool) {
	n := strings.ToLower(strings.TrimSuffix(name, "."))
	switch {
	case n == "localhost":
		return "every machine", true
	case n == "kubernetes", n == "kubernetes.default", strings.HasSuffix(n, ".svc"), strings.Contains(n, ".svc."):
		return "the API server or a Service", true
	default:
		return "", false
	}
}
