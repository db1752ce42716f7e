package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync/atomic"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"
)

// certStore keeps a certificate and its key in the kubelet's cert-dir. The real one makes <pair>-current.pem a link; here it is a file.
type certStore struct {
	k    *kubelet
	pair string
}

func (s certStore) currentPath() string { return s.k.certDir + `\` + s.pair + "-current.pem" }

// Current implements certificate.Store.
func (s certStore) Current() (*tls.Certificate, error) {
	data, err := readFile(s.k.s, s.currentPath())
	if errors.Is(err, fs.ErrNotExist) {
		missing := certificate.NoCertKeyError("no certificate in " + s.k.certDir)
		return nil, &missing
	}
	if err != nil {
		return nil, err
	}
	return parsePair(data, data)
}

// Update implements certificate.Store.
func (s certStore) Update(cert, key []byte) (*tls.Certificate, error) {
	pair, err := parsePair(cert, key)
	if err != nil {
		return nil, err
	}
	both := append(bytes.Clone(cert), key...)
	dated := s.k.certDir + `\` + s.pair + "-" + s.k.s.Clock.Now().UTC().Format("2006-01-02-15-04-05") + ".pem"
	for _, path := range []string{dated, s.currentPath()} {
		if err := writeFile(s.k.s, path, both); err != nil {
			return nil, err
		}
	}
	return pair, nil
}

func parsePair(cert, key []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, err
		}
	}
	return &pair, nil
}

// certificates is client-go's certificate manager with an end. While the manager waits for a certificate's renewal it listens to its template
// only (not to its context), so ending it takes a template that it must act on; the client that it then asks for is the sign that it woke.
type certificates struct {
	manager  certificate.Manager
	stopping atomic.Bool
	woke     chan struct{}
}

// stopWait bounds the wait for the manager to notice a new template, which it looks at each second.
const stopWait = 1500 * time.Millisecond

var errStopping = errors.New("the kubelet ends")

func (k *kubelet) newCertificates(
	ctx context.Context, pair, signer string, getClient func(*tls.Certificate) (kubernetes.Interface, error), template func() *x509.CertificateRequest,
) (*certificates, error) {
	c := &certificates{woke: make(chan struct{}, 1)}
	usages := certificate.DefaultKubeletClientGetUsages
	if signer == certificatesv1.KubeletServingSignerName {
		usages = certificate.DefaultKubeletServingGetUsages
	}
	withoutEnd := context.WithoutCancel(ctx) // carries the logger; the manager would leave a goroutine per cancellation
	m, err := certificate.NewManager(&certificate.Config{
		Ctx: &withoutEnd, Name: pair, SignerName: signer, GetUsages: usages, CertificateStore: certStore{k: k, pair: pair},
		GetTemplate: func() *x509.CertificateRequest {
			if c.stopping.Load() {
				return &x509.CertificateRequest{Subject: pkix.Name{CommonName: "stopping"}}
			}
			return template()
		},
		ClientsetFn: func(current *tls.Certificate) (kubernetes.Interface, error) {
			if c.stopping.Load() {
				select {
				case c.woke <- struct{}{}:
				default:
				}
				return nil, errStopping
			}
			return getClient(current)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("certificate manager %s: %w", pair, err)
	}
	c.manager = m
	m.Start()
	return c, nil
}

func (c *certificates) current() *tls.Certificate { return c.manager.Current() }

func (c *certificates) stop() {
	c.stopping.Store(true)
	t := time.NewTimer(stopWait)
	defer t.Stop()
	select {
	case <-c.woke:
	case <-t.C:
	}
	c.manager.Stop()
}

// clientCertificates asks for the node's client certificate, with the bootstrap token as long as there is none, and renews it.
func (k *kubelet) clientCertificates(ctx context.Context, c *client) (*certificates, error) {
	name := pkix.Name{CommonName: "system:node:" + k.nodeName, Organization: []string{"system:nodes"}}
	certs, err := k.newCertificates(ctx, "kubelet-client", certificatesv1.KubeAPIServerClientKubeletSignerName,
		func(current *tls.Certificate) (kubernetes.Interface, error) {
			c.cert.Store(current)
			switch {
			case current != nil:
				return c.api, nil
			case c.bootstrap != nil:
				return c.bootstrap, nil
			}
			return nil, errNoCredentials
		},
		func() *x509.CertificateRequest { return &x509.CertificateRequest{Subject: name} })
	if err != nil {
		return nil, err
	}
	return certs, nil
}

// servingCertificates asks for the node's serving certificate as the real kubelet does: names and addresses of its Node object.
func (k *kubelet) servingCertificates(ctx context.Context, c *client) (*certificates, error) {
	template := &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: "system:node:" + k.nodeName, Organization: []string{"system:nodes"}},
		DNSNames:    []string{k.nodeName},
		IPAddresses: []net.IP{net.ParseIP(k.nodeIP)},
	}
	return k.newCertificates(ctx, "kubelet-server", certificatesv1.KubeletServingSignerName,
		func(*tls.Certificate) (kubernetes.Interface, error) { return c.api, nil },
		func() *x509.CertificateRequest { return template })
}
