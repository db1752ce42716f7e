package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/util/cert"
)

// server is the kubelet's own port.
type server struct {
	http  *http.Server
	certs *certificates
	work  sync.WaitGroup
}

var errNoServingCert = errors.New("no serving certificate available for the kubelet")

// serve opens the kubelet's port with the serving certificate, which is asked for once the Node exists; handshakes fail until it is
// issued. A connection from outside gets through only where the firewall has a rule for the port.
func (k *kubelet) serve(ctx context.Context, c *client) (*server, error) {
	s := &server{}
	get, err := k.servingCertificate(ctx, c, s)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(k.nodeIP, strconv.Itoa(int(k.port))))
	if err != nil {
		s.close(k)
		return nil, fmt.Errorf("failed to listen and serve: %w", err)
	}
	s.http = &http.Server{
		Handler: http.HandlerFunc(k.answer), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: log.New(k.p.Stderr(), "", 0),
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: k.caPool,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return get() },
		},
	}
	s.work.Go(func() { _ = s.http.ServeTLS(firewalled{l, k}, "", "") })
	return s, nil
}

func (k *kubelet) servingCertificate(ctx context.Context, c *client, s *server) (func() (*tls.Certificate, error), error) {
	if !k.serverTLSBootstrap {
		certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(k.nodeName, []net.IP{net.ParseIP(k.nodeIP)}, nil)
		if err != nil {
			return nil, err
		}
		pair, err := parsePair(certPEM, keyPEM)
		return func() (*tls.Certificate, error) { return pair, nil }, err
	}
	certs, err := k.servingCertificates(ctx, c)
	if err != nil {
		return nil, err
	}
	s.certs = certs
	return func() (*tls.Certificate, error) {
		if c := certs.current(); c != nil {
			return c, nil
		}
		return nil, errNoServingCert
	}, nil
}

// answer serves /healthz to clients with a certificate of the client CA; everything else is not here.
func (k *kubelet) answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.TLS == nil || len(r.TLS.VerifiedChains) == 0:
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
	case r.URL.Path == "/healthz":
		_, _ = w.Write([]byte("ok"))
	default:
		http.NotFound(w, r)
	}
}

func (s *server) close(k *kubelet) {
	if s.http != nil {
		_ = s.http.Close()
		s.work.Wait()
	}
	if s.certs != nil {
		k.end(s.certs)
	}
}

// firewalled drops connections that no firewall rule lets in.
type firewalled struct {
	net.Listener
	k *kubelet
}

// Accept implements net.Listener.
func (f firewalled) Accept() (net.Conn, error) {
	for {
		c, err := f.Listener.Accept()
		if err != nil || f.k.reachable() {
			return c, err
		}
		_ = c.Close()
	}
}

func (k *kubelet) reachable() bool {
	return k.p.Machine().PortOpen("TCP", int(k.port))
}
