package plan

import (
	"bytes"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

func (v *validator) certificates(certs []Certificate) {
	v.count("certificates", len(certs))
	for i, c := range certs {
		it := item("certificate", c.Store+" #"+strconv.Itoa(i+1))
		if c.Store != "ROOT" && c.Store != "CA" {
			v.add(it, "store %q, must be ROOT or CA", bounded(c.Store))
		}
		der, text := oneCertificate(c.PEM)
		if text != "" {
			v.add(it, "%s", text)
			continue
		}
		v.unique("certificate in a store", it, c.Store+"\x00"+string(der))
	}
}

// oneCertificate returns the DER bytes of a PEM text that is exactly one certificate.
func oneCertificate(s string) (der []byte, problem string) {
	if len(s) > MaxSecret {
		return nil, "is longer than 64 KiB"
	}
	block, rest := pem.Decode([]byte(s))
	switch {
	case block == nil:
		return nil, "is not PEM"
	case block.Type != "CERTIFICATE":
		return nil, "is not a CERTIFICATE block"
	case len(block.Headers) > 0:
		return nil, "has PEM headers"
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, "something follows the first block"
	case !strings.HasPrefix(s, "-----BEGIN"):
		return nil, "something stands before the block"
	}
	var seq asn1.RawValue
	rest, err := asn1.Unmarshal(block.Bytes, &seq)
	if err != nil || len(rest) > 0 || seq.Tag != asn1.TagSequence || !seq.IsCompound {
		return nil, "does not hold one DER sequence"
	}
	return block.Bytes, ""
}

func (v *validator) firewall(rules []FirewallRule) {
	v.count("firewall", len(rules))
	for _, r := range rules {
		it := item("firewall rule", r.Name)
		if !ruleName.MatchString(r.Name) {
			v.add(it, "name must match %s", ruleName)
		}
		v.unique("firewall rule", it, r.Name)
		if r.Protocol != "TCP" && r.Protocol != "UDP" {
			v.add(it, "protocol %q, must be TCP or UDP", bounded(r.Protocol))
		}
		if r.Port < 1 || r.Port > 65535 {
			v.add(it, "port %d, must be 1 to 65535", r.Port)
		}
	}
}

// defender keeps exclusions within the product's folders: an exclusion of C:\ would turn the protection off.
func (v *validator) defender(list []DefenderExclusion) {
	v.count("defender", len(list))
	for _, d := range list {
		it := item("defender exclusion", d.Process+d.Path)
		switch {
		case (d.Process == "") == (d.Path == ""):
			v.add(it, "set exactly one of process and path")
			continue
		case d.Process != "":
			v.filePath(it, d.Process)
			v.exeSuffix(it, d.Process)
		default:
			v.path(it, d.Path)
		}
		v.unique("defender exclusion", it, d.Process+"\x00"+d.Path)
	}
}

func (v *validator) exeSuffix(it, p string) {
	if !strings.HasSuffix(fold(p), ".EXE") {
		v.add(it, "path %q does not end in .exe", bounded(p))
	}
}

func (v *validator) networks(p Plan) {
	v.count("networks", len(p.Networks))
	for _, n := range p.Networks {
		it := item("network", n.Name)
		if !nameRule.MatchString(n.Name) {
			v.add(it, "name must match %s", nameRule)
		}
		v.unique("network", it, n.Name)
		v.networkType(it, n)
		v.networkAddresses(it, n)
		v.hostEndpoint(it, n, p.Requires)
		v.remotes(it, n, p.Requires)
	}
}

func (v *validator) networkType(it string, n Network) {
	switch {
	case n.Type == NetworkL2Bridge && n.VSID != 0:
		v.add(it, "vsid %d, an L2Bridge network has none", n.VSID)
	// Windows refuses virtual subnets below 4096; 24 bits minus the reserved top value.
	case n.Type == NetworkOverlay && (n.VSID < 4096 || n.VSID > 16777214):
		v.add(it, "vsid %d, must be 4096 to 16777214", n.VSID)
	case n.Type != NetworkL2Bridge && n.Type != NetworkOverlay:
		v.add(it, "type %q, must be %s or %s", bounded(n.Type), NetworkL2Bridge, NetworkOverlay)
	}
}

func (v *validator) networkAddresses(it string, n Network) {
	if !plainAddr(n.ManagementIP) {
		v.add(it, "management IP %q is not an IP address", bounded(n.ManagementIP))
	}
	if n.Reach != "" && !hostPort(n.Reach) {
		v.add(it, "reach %q is not host:port", bounded(n.Reach))
	}
	prefix, err := netip.ParsePrefix(n.Prefix)
	if err != nil || prefix.Masked() != prefix {
		v.add(it, "prefix %q is not a network such as 10.244.1.0/24", bounded(n.Prefix))
		return
	}
	gw, err := netip.ParseAddr(n.Gateway)
	if err != nil || !prefix.Contains(gw) || gw == prefix.Addr() {
		v.add(it, "gateway %q is not an address within %s", bounded(n.Gateway), prefix)
	}
}

func (v *validator) hostEndpoint(it string, n Network, requires []string) {
	e := n.HostEndpoint
	if e == nil {
		return
	}
	v.needs(it, "hostEndpoint", CapabilityHostEndpoint, requires)
	if n.Type != NetworkL2Bridge {
		v.add(it, "hostEndpoint goes with type %s only", NetworkL2Bridge)
	}
	if !nameRule.MatchString(e.Name) {
		v.add(it, "host endpoint's name must match %s", nameRule)
	}
	v.unique("host endpoint", it, e.Name)
	prefix, err := netip.ParsePrefix(n.Prefix)
	if err != nil {
		return
	}
	if a, err := netip.ParseAddr(e.Address); err != nil || !prefix.Contains(a) || a == prefix.Masked().Addr() || e.Address == n.Gateway {
		v.add(it, "host endpoint's address %q is not a free one within %s", bounded(e.Address), prefix)
	}
}

func (v *validator) needs(it, what, capability string, requires []string) {
	if !slices.Contains(requires, capability) {
		v.add(it, "%s needs the capability %q in requires", what, capability)
	}
}

func (v *validator) remotes(it string, n Network, requires []string) {
	if len(n.Remotes) == 0 {
		return
	}
	v.needs(it, "remotes", CapabilityPeers, requires)
	v.countTo(it+" remotes", len(n.Remotes), MaxPeers)
	if n.Type != NetworkOverlay {
		v.add(it, "remotes go with type %s only", NetworkOverlay)
	}
	own, _ := netip.ParsePrefix(n.Prefix)
	for _, r := range n.Remotes {
		v.remote(it+" remote "+strconv.Quote(bounded(r.Prefix)), n, own, r)
	}
}

func (v *validator) remote(it string, n Network, own netip.Prefix, r RemoteSubnet) {
	prefix, err := netip.ParsePrefix(r.Prefix)
	switch {
	case err != nil || prefix.Masked() != prefix:
		v.add(it, "is not a network such as 10.244.1.0/24")
	case own.IsValid() && prefix.Overlaps(own):
		v.add(it, "overlaps the network's own %s", own)
	}
	if !plainAddr(r.ProviderAddress) || r.ProviderAddress == n.ManagementIP {
		v.add(it, "provider address %q is not the address of another node", bounded(r.ProviderAddress))
	}
	if !macRule.MatchString(r.MAC) {
		v.add(it, "mac %q must match %s", bounded(r.MAC), macRule)
	}
	if r.VSID != n.VSID {
		v.add(it, "vsid %d is not the network's %d", r.VSID, n.VSID)
	}
	v.unique("remote of "+n.Name, it, r.Prefix)
}

// plainAddr reports whether s is an IP address without a zone in canonical form.
func plainAddr(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Zone() == "" && !a.IsUnspecified()
}

func (v *validator) routes(p Plan) {
	v.countTo("routes", len(p.Routes), MaxPeers)
	if len(p.Routes) > MaxItems {
		v.needs("routes", "more than "+strconv.Itoa(MaxItems), CapabilityPeers, p.Requires)
	}
	for _, r := range p.Routes {
		it := item("route", r.Destination)
		dst, err := netip.ParsePrefix(r.Destination)
		if err != nil || dst.Masked() != dst {
			v.add(it, "destination is not a network such as 10.244.1.0/24")
		}
		hop, hopErr := netip.ParseAddr(r.NextHop)
		if hopErr != nil || hop.Zone() != "" {
			v.add(it, "next hop %q is not an IP address", bounded(r.NextHop))
		}
		if err == nil && hopErr == nil && dst.Addr().Is4() != hop.Is4() {
			v.add(it, "next hop %s is of another family", hop)
		}
		v.unique("route", it, r.Destination)
	}
}

// hostPort reports whether s is a host name or IP address and a port.
func hostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || len(host) > 253 || strings.ContainsAny(host, " \t\r\n/\\\"'%") {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n > 0 && n < 65536
}
