package winrmtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// certificates are a CA, the service's certificate and a client's.
type certificates struct {
	ca                []byte
	server            tls.Certificate
	client, clientKey []byte
}

func (c *certificates) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(c.ca)
	return p
}

func newCertificates(hosts []string) (*certificates, error) {
	root, rootKey, err := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "CA of a test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "host"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, h)
		}
	}
	server, serverKey, err := issue(leaf, root, rootKey)
	if err != nil {
		return nil, err
	}
	client, clientKey, err := issue(&x509.Certificate{Subject: pkix.Name{CommonName: "operator"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, root, rootKey)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(clientKey)
	if err != nil {
		return nil, err
	}
	return &certificates{
		ca:     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw}),
		server: tls.Certificate{Certificate: [][]byte{server.Raw}, PrivateKey: serverKey},
		client: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: client.Raw}), clientKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}, nil
}

// issue signs a certificate, with itself when there is no parent.
func issue(template, parent *x509.Certificate, signer crypto.Signer) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}
