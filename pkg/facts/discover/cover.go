package discover

import (
	"net/netip"
	"strings"
)

// cover is the smallest range over those given, one an address family, IPv4 first. What is no range is left out.
func cover(ranges []string) []string {
	var v4, v6 netip.Prefix
	for _, r := range ranges {
		p, err := netip.ParsePrefix(strings.TrimSpace(r))
		if err != nil {
			continue
		}
		if p = p.Masked(); p.Addr().Is4() {
			v4 = span(v4, p)
		} else {
			v6 = span(v6, p)
		}
	}
	var out []string
	for _, p := range []netip.Prefix{v4, v6} {
		if p.IsValid() {
			out = append(out, p.String())
		}
	}
	return out
}

// span is the smallest range over two of a family; a may be the zero value.
func span(a, b netip.Prefix) netip.Prefix {
	if !a.IsValid() {
		return b
	}
	bits := min(a.Bits(), b.Bits())
	for !netip.PrefixFrom(a.Addr(), bits).Masked().Contains(b.Addr()) {
		bits--
	}
	return netip.PrefixFrom(a.Addr(), bits).Masked()
}

// addressRanges are addresses as ranges of one.
func addressRanges(addresses []string) []string {
	var out []string
	for _, s := range addresses {
		if a, err := netip.ParseAddr(s); err == nil {
			out = append(out, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()).String())
		}
	}
	return out
}
