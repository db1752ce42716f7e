package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	// backdate makes certificates valid for programs whose clock is behind.
	backdate   = time.Hour
	caLifetime = 10 * 365 * 24 * time.Hour
	lifetime   = 365 * 24 * time.Hour
)

// authority is the certificate authority of one control plane. It signs the API server's certificate, client certificates,
// and, in the controller manager's hands, the requests of kubelets.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// certPEM is the certificate, keyPEM the key as PKCS #8.
	certPEM, keyPEM []byte
}

// pair is a certificate and its key as PEM.
type pair struct {
	cert, key []byte
}

func newAuthority() (*authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: "windowsmachine-test-ca"}, caLifetime)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the CA certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the CA certificate back: %w", err)
	}
	return &authority{cert: cert, key: key, certPEM: encodeCert(der), keyPEM: keyPEM}, nil
}

// client issues a client certificate: the user is the common name, the groups are the organizations.
func (a *authority) client(user string, groups ...string) (pair, error) {
	return a.issue(pkix.Name{CommonName: user, Organization: groups}, x509.ExtKeyUsageClientAuth, nil, nil)
}

// server issues a serving certificate.
func (a *authority) server(name string, dns []string, ips []net.IP) (pair, error) {
	return a.issue(pkix.Name{CommonName: name}, x509.ExtKeyUsageServerAuth, dns, ips)
}

func (a *authority) issue(subject pkix.Name, usage x509.ExtKeyUsage, dns []string, ips []net.IP) (pair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return pair{}, err
	}
	template, err := newTemplate(subject, lifetime)
	if err != nil {
		return pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	template.DNSNames, template.IPAddresses = dns, ips
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("signing the certificate of %s: %w", subject.CommonName, err)
	}
	return pair{cert: encodeCert(der), key: keyPEM}, nil
}

func newTemplate(subject pkix.Name, valid time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: now.Add(-backdate), NotAfter: now.Add(valid)}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// newSigningKey makes the key pair of service account tokens: the private and the public key as PEM.
func newSigningKey() (private, public []byte, err error) {
	key, private, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a public key: %w", err)
	}
	return private, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
