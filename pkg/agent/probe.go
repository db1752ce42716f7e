package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/windowsmachine/operator/pkg/plan"
)

// probeTimeout bounds the connection to the API server.
const probeTimeout = 5 * time.Second

// probe connects to the API server as the kubelet will: by the name in the URL, which its certificate must be for, and with the
// machine's clock, by which the certificate must be valid.
func (a *Agent) probe(ctx context.Context, req plan.FactsRequest) *plan.ProbeResult {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := a.handshake(ctx, req)
	r := &plan.ProbeResult{Code: probeCode(err)}
	if err != nil {
		r.Detail = Detail(err.Error())
	}
	return r
}

var errBadCA = errors.New("no certificate in the CA bundle")

func (a *Agent) handshake(ctx context.Context, req plan.FactsRequest) error {
	u, err := url.Parse(req.APIServer)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("%q is no https URL", Detail(req.APIServer))
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(req.CA) {
		return errBadCA
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	conn, err := a.sys.Machine.Dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer conn.Close()
	t := tls.Client(conn, &tls.Config{
		ServerName: u.Hostname(), RootCAs: pool, MinVersion: tls.VersionTLS12, Time: a.sys.Clock.Now,
	})
	if err := t.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	return nil
}

// probeCode sorts the error of a handshake.
func probeCode(err error) string {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	switch {
	case err == nil:
		return plan.ProbeOK
	case errors.As(err, &dns):
		return plan.ProbeDNS
	case errors.As(err, &cert), errors.Is(err, errBadCA):
		return plan.ProbeCertificate
	}
	return plan.ProbeConnect
}
