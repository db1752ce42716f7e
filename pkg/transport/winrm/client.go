package winrm

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	wsman "github.com/masterzen/winrm"
	"github.com/masterzen/winrm/soap"

	"github.com/windowsmachine/operator/pkg/transport"
)

const (
	// maxAnswer bounds one answer, in bytes. The server keeps to what a request says (envelopeSize); HTTP errors come as pages of any size.
	maxAnswer = 256 << 10
	// maxRequest bounds one request, in bytes: less than the smallest MaxEnvelopeSizekb that a service may be set to (32).
	maxRequest = 32 << 10
	// envelopeSize is how large an answer may be, in bytes; Windows' own default for MaxEnvelopeSizekb is 500.
	envelopeSize = 153600
	// operationTimeout is how long the service holds a Receive back while a command prints nothing (ISO 8601); then it answers with a fault of its own.
	operationTimeout = "PT20S"
	// requestTimeout bounds one request with its answer; longer than operationTimeout.
	requestTimeout = 60 * time.Second
	// handshakeTimeout bounds TCP and TLS, each.
	handshakeTimeout = 20 * time.Second
	contentType      = "application/soap+xml;charset=UTF-8"
)

// errAnswer: the answer is not one of WS-Management.
var errAnswer = errors.New("answer cannot be read")

// client speaks with the WS-Management service of one host. It is for one goroutine.
type client struct {
	http *http.Client
	url  string
	auth authenticator
	// params are this client's own: the library's default ones are shared by all who use them.
	params *wsman.Parameters
}

// authenticator sends a request and proves who sends it.
type authenticator interface {
	send(ctx context.Context, c *client, body []byte) (*http.Response, error)
}

func newClient(o transport.Opening, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*client, error) {
	cfg, auth, err := security(o)
	if err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "https", Host: net.JoinHostPort(o.Address, strconv.Itoa(o.Port)), Path: "/wsman"}
	return &client{
		url: u.String(), auth: auth,
		params: wsman.NewParameters(operationTimeout, "en-US", envelopeSize),
		http: &http.Client{
			// A verified host has no reason to send us elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				// No proxy: the host is on our own network. NTLM authenticates a connection, so there is one, and it is not HTTP/2.
				Proxy: nil, DialContext: within(dial), TLSClientConfig: cfg, TLSHandshakeTimeout: handshakeTimeout,
				MaxConnsPerHost: 1, ForceAttemptHTTP2: false, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
				DisableCompression: true,
			},
		},
	}, nil
}

// within bounds the TCP connection in time.
func within(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		return dial(ctx, network, address)
	}
}

// security is how the host proves itself, and how we do.
func security(o transport.Opening) (*tls.Config, authenticator, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(o.CA) {
		return nil, nil, fmt.Errorf("%w: CA holds no certificate in PEM form", transport.ErrOpening)
	}
	cfg := &tls.Config{RootCAs: roots, ServerName: o.ServerName, MinVersion: tls.VersionTLS12}
	if cfg.ServerName == "" {
		cfg.ServerName = o.Address
	}
	if len(o.ClientCert) == 0 {
		return cfg, &ntlm{user: o.User, password: o.Password}, nil
	}
	pair, err := tls.X509KeyPair(o.ClientCert, o.ClientKey)
	if err != nil {
		// The error names what is wrong and holds nothing of the key.
		return nil, nil, fmt.Errorf("%w: client certificate and key: %w", transport.ErrOpening, err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	// http.sys asks for the certificate after it has seen the path: by a renegotiation in TLS 1.2, by post-handshake authentication in TLS 1.3, which
	// crypto/tls does not have (https://learn.microsoft.com/windows-server/security/tls/tls-ssl-schannel-ssp-overview).
	cfg.MaxVersion, cfg.Renegotiation = tls.VersionTLS12, tls.RenegotiateOnceAsClient
	return cfg, certificate{}, nil
}

// certificate is the authentication that the TLS handshake has done already.
type certificate struct{}

// mutual says so (DSP0226, C.3.1, profile https/mutual).
const mutual = "http://schemas.dmtf.org/wbem/wsman/1/wsman/secprofile/https/mutual"

func (certificate) send(ctx context.Context, c *client, body []byte) (*http.Response, error) {
	return c.request(ctx, body, mutual)
}

// request sends one HTTP request.
func (c *client) request(ctx context.Context, body []byte, authorization string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("User-Agent", "WindowsMachineOperator")
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return c.http.Do(req)
}

// post sends a message and reads its answer. A fault is an error of type *Fault.
func (c *client) post(ctx context.Context, m *soap.SoapMessage) (*envelope, error) {
	body := []byte(m.String())
	if len(body) > maxRequest {
		return nil, fmt.Errorf("%w: a request of %d bytes is larger than %d", transport.ErrOpening, len(body), maxRequest)
	}
	limited, cancel := context.WithTimeoutCause(ctx, requestTimeout, fmt.Errorf("%w: no answer within %s", transport.ErrUnreachable, requestTimeout))
	defer cancel()
	res, err := c.auth.send(limited, c, body)
	if err != nil {
		return nil, explain(limited, err, len(c.tls().Certificates) > 0)
	}
	answer, err := drain(res)
	if err != nil {
		return nil, explain(limited, err, false)
	}
	return read(res, answer)
}

func (c *client) tls() *tls.Config { return c.http.Transport.(*http.Transport).TLSClientConfig }

// close ends the connection.
func (c *client) close() { c.http.CloseIdleConnections() }

// drain reads a whole answer, so that its connection can be used again.
func drain(res *http.Response) ([]byte, error) {
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	if len(answer) > maxAnswer {
		return nil, fmt.Errorf("%w: it is larger than %d bytes", errAnswer, maxAnswer)
	}
	return answer, nil
}

// read decides what an answer is. Faults come with status 500, some with 400.
func read(res *http.Response, answer []byte) (*envelope, error) {
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("%w: WinRM answers 401 and offers %s", transport.ErrAuth, offered(res.Header))
	case strings.HasPrefix(res.Header.Get("Content-Type"), "application/soap+xml"):
		return parse(answer)
	case res.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("%w: WinRM answers 403; a client certificate must be mapped to a local account (winrm enumerate winrm/config/service/certmapping)", transport.ErrAuth)
	}
	return nil, fmt.Errorf("%w: %w: HTTP status %d, and not a message of WS-Management", transport.ErrUnreachable, errAnswer, res.StatusCode)
}

// explain turns an error of HTTP, TLS or TCP into one of transport's.
func explain(ctx context.Context, err error, withCert bool) error {
	var untrusted *tls.CertificateVerificationError
	var op *net.OpError
	switch {
	case errors.As(err, &untrusted):
		return fmt.Errorf("%w: %w", transport.ErrCertificate, untrusted.Err)
	case errors.Is(err, transport.ErrAuth), errors.Is(err, transport.ErrOpening):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", transport.ErrUnreachable, context.Cause(ctx))
	case withCert && errors.As(err, &op) && op.Op == "remote error":
		// A TLS alert in the handshake in which our certificate was shown.
		return fmt.Errorf("%w: the client certificate: %w", transport.ErrAuth, op.Err)
	case errors.Is(err, errAnswer):
		return fmt.Errorf("%w: %w", transport.ErrDisconnected, err)
	}
	return fmt.Errorf("%w: %w", transport.ErrUnreachable, err)
}
