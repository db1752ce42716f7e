package csr

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxRequest bounds the PEM text of a request, in bytes. A kubelet's request has less than 1 KiB.
const MaxRequest = 32 << 10

const (
	pemType  = "CERTIFICATE REQUEST"
	minRSA   = 2048
	maxRSA   = 8192
	minExp   = 65537
	maxNames = 64
)

// parsed is a request as far as it can be read. err says why it is not exactly one well-formed request; x509 and nodeName
// may be set all the same, so that the request can be told to concern a host.
type parsed struct {
	cr *x509.CertificateRequest
	// nodeName is the common name behind NodePrefix, "" when it has another form.
	nodeName string
	err      error
}

var (
	errSize   = fmt.Errorf("it has more than %d bytes", MaxRequest)
	errBlock  = errors.New("it is not a PEM block " + pemType)
	errAround = errors.New("there is something before or behind the PEM block, or a header in it")
)

func parse(data []byte) parsed {
	if len(data) > MaxRequest {
		return parsed{err: errSize}
	}
	block, rest := pem.Decode(data)
	if block == nil || block.Type != pemType {
		return parsed{err: errBlock}
	}
	// ParseCertificateRequest refuses bytes behind the DER structure.
	cr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return parsed{err: err}
	}
	p := parsed{cr: cr}
	p.nodeName, _ = strings.CutPrefix(cr.Subject.CommonName, NodePrefix)
	if p.nodeName == cr.Subject.CommonName {
		p.nodeName = ""
	}
	if len(bytes.TrimSpace(rest)) > 0 || len(block.Headers) > 0 || !bytes.HasPrefix(data, []byte("-----BEGIN ")) {
		p.err = errAround
	}
	return p
}

// checkSubject accepts exactly one common name and exactly one organization, system:nodes, and nothing else.
func checkSubject(cr *x509.CertificateRequest) error {
	var cn, org int
	for _, a := range cr.Subject.Names {
		switch {
		case a.Type.Equal(asn1.ObjectIdentifier{2, 5, 4, 3}):
			cn++
		case a.Type.Equal(asn1.ObjectIdentifier{2, 5, 4, 10}):
			org++
		default:
			return fmt.Errorf("the subject has an attribute of type %s", a.Type)
		}
	}
	if cn != 1 || org != 1 {
		return fmt.Errorf("the subject has %d common names and %d organizations", cn, org)
	}
	if !slices.Equal(cr.Subject.Organization, []string{NodesGroup}) {
		return fmt.Errorf("the organization is %s", quote(strings.Join(cr.Subject.Organization, ",")))
	}
	return nil
}

// checkExtensions accepts no extension but one plain subjectAltName with DNS names and IP addresses only. client-go's
// certificate manager, which every kubelet uses, never sends another; signers other than Kubernetes' own may honour them.
func checkExtensions(cr *x509.CertificateRequest) error {
	san := 0
	for _, e := range cr.Extensions {
		if !e.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
			return fmt.Errorf("it has an extension %s", e.Id)
		}
		if san++; san > 1 || e.Critical {
			return errors.New("it has more than one subjectAltName, or a critical one")
		}
		if err := checkSANKinds(e.Value); err != nil {
			return err
		}
	}
	return nil
}

// checkSANKinds walks the raw names, since crypto/x509 skips the kinds that it does not know (otherName, directoryName,
// registeredID; RFC 5280, 4.2.1.6).
func checkSANKinds(der []byte) error {
	const (
		dnsName   = 2
		ipAddress = 7
	)
	var names []asn1.RawValue
	rest, err := asn1.Unmarshal(der, &names)
	if err != nil || len(rest) > 0 {
		return errors.New("its subjectAltName cannot be read")
	}
	if len(names) > maxNames {
		return fmt.Errorf("it has %d subject alternative names, at most %d are looked at", len(names), maxNames)
	}
	for _, n := range names {
		if n.Class != asn1.ClassContextSpecific || n.Tag != dnsName && n.Tag != ipAddress {
			return fmt.Errorf("its subjectAltName holds a name that is neither DNS nor IP (tag %d)", n.Tag)
		}
	}
	return nil
}

// checkKey accepts what kubelets have made over the years: RSA, and since 1.8 ECDSA on P-256. Ed25519 is as strong but no
// kubelet makes such a key, so a request that has one was not made by a kubelet.
func checkKey(cr *x509.CertificateRequest) error {
	switch k := cr.PublicKey.(type) {
	case *rsa.PublicKey:
		if n := k.N.BitLen(); n < minRSA || n > maxRSA || k.E < minExp {
			return fmt.Errorf("RSA key of %d bits with exponent %d", n, k.E)
		}
		return nil
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() || k.Curve == elliptic.P384() || k.Curve == elliptic.P521() {
			return nil
		}
		return fmt.Errorf("ECDSA key on %s", k.Curve.Params().Name)
	default:
		return fmt.Errorf("%s key", cr.PublicKeyAlgorithm)
	}
}

// checkSignature proves that the requester holds the key. CheckSignature itself would take SHA-1 on requests.
func checkSignature(cr *x509.CertificateRequest) error {
	switch cr.SignatureAlgorithm {
	case x509.SHA256WithRSA, x509.SHA384WithRSA, x509.SHA512WithRSA,
		x509.SHA256WithRSAPSS, x509.SHA384WithRSAPSS, x509.SHA512WithRSAPSS,
		x509.ECDSAWithSHA256, x509.ECDSAWithSHA384, x509.ECDSAWithSHA512:
		return cr.CheckSignature()
	default:
		return fmt.Errorf("signature algorithm %s", cr.SignatureAlgorithm)
	}
}

// quote makes text from a request fit for messages: quoted, escaped, and short.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "..."
	}
	return fmt.Sprintf("%+q", s)
}
