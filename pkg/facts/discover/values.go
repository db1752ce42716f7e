package discover

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windowsmachine/operator/pkg/facts"
)

// maxValues bounds the values of one fact.
const maxValues = 64

// Errors about a value; they end a sentence.
var (
	errManyValues = errors.New("has too many values")
	errURL        = errors.New("is not an https:// URL of host and port only")
	errAddress    = errors.New("holds something that is not an IP address")
	errRange      = errors.New("holds something that is not a prefix such as 10.244.0.0/16")
	errDomain     = errors.New("is not a DNS name")
	errPEM        = errors.New("is not a bundle of PEM certificates")
)

// normal brings the values of a fact into one form, so that they can be compared and used.
func normal(fact string, values []string) ([]string, error) {
	if len(values) > maxValues {
		return nil, errManyValues
	}
	form := map[string]func(string) (string, error){
		facts.APIServer: normalURL, facts.ClusterDNS: normalAddress, facts.ClusterDomain: normalDomain,
		facts.PodCIDRs: normalRange, facts.ServiceCIDRs: normalRange,
		facts.APIServerCA: normalPEM, facts.KubeletClientCA: normalPEM,
	}[fact]
	if form == nil {
		return values, nil
	}
	var out []string
	for _, v := range values {
		n, err := form(strings.TrimSpace(v))
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out, nil
}

func normalURL(v string) (string, error) {
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		strings.Trim(u.Path, "/") != "" {
		return "", errURL
	}
	return "https://" + strings.ToLower(u.Host), nil
}

func normalAddress(v string) (string, error) {
	a, err := netip.ParseAddr(v)
	if err != nil || a.Zone() != "" {
		return "", errAddress
	}
	return a.Unmap().String(), nil
}

func normalRange(v string) (string, error) {
	p, err := netip.ParsePrefix(v)
	if err != nil {
		return "", errRange
	}
	return p.Masked().String(), nil
}

func normalDomain(v string) (string, error) {
	v = strings.TrimSuffix(strings.ToLower(v), ".")
	if len(validation.IsDNS1123Subdomain(v)) > 0 {
		return "", errDomain
	}
	return v, nil
}

// normalPEM keeps the certificates of a bundle, each once, and drops what stands between them. A block of another type is
// refused: a bundle with a private key in it is a mistake that must not be copied to machines.
func normalPEM(v string) (string, error) {
	if len(v) > maxText {
		return "", errPEM
	}
	var out bytes.Buffer
	seen := map[string]bool{}
	for rest := []byte(v); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return "", errPEM
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "", errPEM
		}
		if !seen[string(block.Bytes)] {
			seen[string(block.Bytes)] = true
			out.Write(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
		}
	}
	if len(seen) == 0 {
		return "", errPEM
	}
	return out.String(), nil
}

// agree says whether two normal values of a fact fit together. Certificate bundles do when they share a certificate, since one
// of them may be in the middle of a rotation; lists when one holds the other, since one may know one address family only; pod ranges when
// those of one lie within those of the other, since a source may know the part that is in use.
func agree(fact string, a, b []string) bool {
	if fact == facts.PodCIDRs {
		return inside(a, b) || inside(b, a)
	}
	if fact == facts.APIServerCA || fact == facts.KubeletClientCA {
		return slices.ContainsFunc(blocks(a), func(c string) bool { return slices.Contains(blocks(b), c) })
	}
	return within(a, b) || within(b, a)
}

func within(a, b []string) bool {
	return !slices.ContainsFunc(a, func(v string) bool { return !slices.Contains(b, v) })
}

// inside says whether each range lies within one of the others, as far as these are of its address family.
func inside(ranges, others []string) bool {
	for _, r := range ranges {
		p, _ := netip.ParsePrefix(r)
		var same, within bool
		for _, o := range others {
			q, _ := netip.ParsePrefix(o)
			same = same || q.Addr().Is4() == p.Addr().Is4()
			within = within || q.Bits() <= p.Bits() && q.Contains(p.Addr())
		}
		if same && !within {
			return false
		}
	}
	return true
}

func blocks(bundles []string) []string {
	var out []string
	for _, b := range bundles {
		out = append(out, strings.SplitAfter(b, "-----END CERTIFICATE-----\n")...)
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// bounded shortens text for a message.
func bounded(s string, limit int) string {
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "..."
	}
	return s
}
