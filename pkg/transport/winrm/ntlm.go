package winrm

import (
	"context"
	"crypto"
	_ "crypto/sha256" // hash functions of certificates
	_ "crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/bodgit/ntlmssp"

	"github.com/windowsmachine/operator/pkg/transport"
)

// maxChallenge bounds the server's NTLM message, in bytes of base64.
const maxChallenge = 8 << 10

// ntlm proves a password by NTLM version 2 (MS-NLMP), as the Negotiate scheme takes it. The password itself is never sent, and the proof holds for
// this TLS channel only, so that nobody can pass it on (RFC 5929, tls-server-end-point). It authenticates a connection: later requests on it need
// nothing more.
type ntlm struct{ user, password string }

func (n *ntlm) send(ctx context.Context, c *client, body []byte) (*http.Response, error) {
	res, err := c.request(ctx, body, "")
	if err != nil || res.StatusCode != http.StatusUnauthorized {
		return res, err
	}
	scheme := pick(res.Header)
	if scheme == "" {
		// Basic would show the password to whoever has the certificate's key. The way out is the caller's.
		return res, nil
	}
	client, err := n.client()
	if err != nil {
		return nil, errors.Join(err, res.Body.Close())
	}
	// Two more messages: ours that opens, and the one that answers the challenge.
	for range 2 {
		token, err := next(client, scheme, res)
		if err != nil {
			return nil, err
		}
		if res, err = c.request(ctx, body, scheme+" "+token); err != nil || res.StatusCode != http.StatusUnauthorized {
			return res, err
		}
	}
	return res, nil
}

func (n *ntlm) client() (*ntlmssp.Client, error) {
	domain, user, found := strings.Cut(n.user, `\`)
	if !found {
		domain, user = "", n.user
	}
	// Level 3 sends NTLM version 2 only.
	c, err := ntlmssp.NewClient(ntlmssp.SetCompatibilityLevel(3), ntlmssp.SetUserInfo(user, n.password), ntlmssp.SetDomain(domain))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", transport.ErrOpening, err)
	}
	return c, nil
}

// next is our next message, after the challenge in res if there is one. It reads res to its end.
func next(c *ntlmssp.Client, scheme string, res *http.Response) (string, error) {
	if _, err := drain(res); err != nil {
		return "", err
	}
	challenge, err := challengeOf(res.Header, scheme)
	if err != nil {
		return "", err
	}
	answer, err := authenticate(c, challenge, binding(res.TLS))
	if err != nil {
		return "", fmt.Errorf("%w: NTLM: %w", transport.ErrAuth, err)
	}
	return base64.StdEncoding.EncodeToString(answer), nil
}

var errChallenge = errors.New("the challenge cannot be read")

// authenticate makes our next message. The library trusts lengths within a challenge, and one that lies must not end the operator.
func authenticate(c *ntlmssp.Client, challenge []byte, b *ntlmssp.ChannelBindings) (out []byte, err error) {
	defer func() {
		if recover() != nil {
			err = errChallenge
		}
	}()
	return c.Authenticate(challenge, b)
}

// schemes are those that carry NTLM, the better one first. Windows' Negotiate takes its messages as they are.
var schemes = [...]string{"Negotiate", "NTLM"}

// pick is the scheme to use among those that a 401 offers, "" when there is none.
func pick(h http.Header) string {
	for _, s := range schemes {
		for _, v := range h.Values("WWW-Authenticate") {
			if word, _, _ := strings.Cut(v, " "); strings.EqualFold(word, s) {
				return s
			}
		}
	}
	return ""
}

// challengeOf is the message behind the scheme's name, nil when there is none.
func challengeOf(h http.Header, scheme string) ([]byte, error) {
	for _, v := range h.Values("WWW-Authenticate") {
		word, token, _ := strings.Cut(v, " ")
		if !strings.EqualFold(word, scheme) || token == "" {
			continue
		}
		if len(token) > maxChallenge {
			return nil, fmt.Errorf("%w: NTLM: a challenge of %d characters", transport.ErrAuth, len(token))
		}
		b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(token))
		if err != nil {
			return nil, fmt.Errorf("%w: NTLM: the challenge is not base64: %w", transport.ErrAuth, err)
		}
		return b, nil
	}
	return nil, nil
}

// offered lists the schemes of a 401.
func offered(h http.Header) string {
	var out []string
	for _, v := range h.Values("WWW-Authenticate") {
		word, _, _ := strings.Cut(v, " ")
		out = append(out, clean(word))
	}
	if len(out) == 0 {
		return "no scheme"
	}
	return strings.Join(out[:min(len(out), 8)], ", ")
}

// binding names the TLS channel by the server's certificate.
func binding(state *tls.ConnectionState) *ntlmssp.ChannelBindings {
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil
	}
	cert := state.PeerCertificates[0]
	h := bindingHash(cert.SignatureAlgorithm).New()
	h.Write(cert.Raw)
	return &ntlmssp.ChannelBindings{ApplicationData: append([]byte(ntlmssp.TLSServerEndPoint+":"), h.Sum(nil)...)}
}

// bindingHash is the hash of the certificate's signature; SHA-256 stands in for MD5, SHA-1 and what has none (RFC 5929, 4.1).
func bindingHash(a x509.SignatureAlgorithm) crypto.Hash {
	switch a {
	case x509.SHA384WithRSA, x509.ECDSAWithSHA384, x509.SHA384WithRSAPSS:
		return crypto.SHA384
	case x509.SHA512WithRSA, x509.ECDSAWithSHA512, x509.SHA512WithRSAPSS:
		return crypto.SHA512
	}
	return crypto.SHA256
}
