package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/transport"
)

const (
	defaultTimeout   = 30 * time.Second
	defaultKeepalive = 15 * time.Second
	defaultGrace     = 5 * time.Second
	// clientVersion is what the machine's log shows.
	clientVersion = "SSH-2.0-WindowsMachineOperator"
)

// Dialer connects to machines by SSH. The zero value is ready for use.
type Dialer struct {
	// Net makes the TCP connection; nil is a net.Dialer.
	Net func(ctx context.Context, network, address string) (net.Conn, error)
	// Keepalive is how often an idle connection is asked whether it lives; after three questions without any answer it is
	// lost. 0 is 15 s.
	Keepalive time.Duration
	// Grace is how long a call whose context has ended waits for the machine to close its channel; then the whole connection
	// is given up. 0 is 5 s.
	Grace time.Duration
	// ticks makes the keepalive's clock; nil is a time.Ticker.
	ticks func(time.Duration) (c <-chan time.Time, stop func())
}

var _ transport.Dialer = (*Dialer)(nil)

// Dial connects within t.Timeout and authenticates within another; waiting for t.Admit does not count.
func (d *Dialer) Dial(ctx context.Context, t transport.Target) (transport.Conn, error) {
	signers, err := parseKeys(t.PrivateKeys)
	if err != nil {
		return nil, err
	}
	if t.Verify == nil {
		return nil, fmt.Errorf("%w: nothing says which key to trust", transport.ErrHostKey)
	}
	// JoinHostPort puts the brackets around an IPv6 address.
	address := net.JoinHostPort(t.Address, strconv.Itoa(t.Port))
	nc, client, err := d.connect(ctx, address, t, signers)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", address, err)
	}
	ticks, stop := d.keepaliveTicks()
	return newConn(client, nc, ticks, stop, orDefault(d.Grace, defaultGrace)), nil
}

func (d *Dialer) connect(ctx context.Context, address string, t transport.Target, signers []ssh.Signer) (*countingConn, *ssh.Client, error) {
	limit := orDefault(t.Timeout, defaultTimeout)
	nc, err := d.reach(ctx, address, limit)
	if err != nil {
		return nil, nil, err
	}
	if t.Admit != nil {
		if err := t.Admit(ctx); err != nil {
			nc.Close()
			return nil, nil, (&attempt{}).explain(ctx, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client, err := handshake(ctx, nc, address, t, signers)
	return nc, client, err
}

// reach connects and waits for the first byte: a server says its version before it is asked (RFC 4253 4.2 lets both begin; OpenSSH's does).
func (d *Dialer) reach(ctx context.Context, address string, limit time.Duration) (*countingConn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dial := d.Net
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	raw, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", transport.ErrUnreachable, err)
	}
	nc := &countingConn{Conn: raw}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	err = nc.greet()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		nc.Close()
		return nil, (&attempt{}).explain(ctx, err)
	}
	return nc, nil
}

func (d *Dialer) keepaliveTicks() (<-chan time.Time, func()) {
	period := orDefault(d.Keepalive, defaultKeepalive)
	if d.ticks != nil {
		return d.ticks(period)
	}
	t := time.NewTicker(period)
	return t.C, t.Stop
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

func parseKeys(texts [][]byte) ([]ssh.Signer, error) {
	var signers []ssh.Signer
	for i, text := range texts {
		s, err := ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("private key %d of %d: %w", i+1, len(texts), err)
		}
		// A key that is listed twice would be counted as a second attempt.
		if !slices.ContainsFunc(signers, func(o ssh.Signer) bool { return sameKey(o.PublicKey(), s.PublicKey()) }) {
			signers = append(signers, s)
		}
	}
	if len(signers) == 0 {
		return nil, ErrKeyEmpty
	}
	return signers, nil
}

func sameKey(a, b ssh.PublicKey) bool { return string(a.Marshal()) == string(b.Marshal()) }

// errRekey: the host showed another key in the middle of a connection.
var errRekey = errors.New("the host key has changed within the connection")

// attempt is what became known during a handshake.
type attempt struct {
	hostKeyErr error
	verified   bool
	// key is the verified key in wire format.
	key []byte
	// methods are those that the server offers, known once it has refused the opening request without credentials.
	methods []string
	tried   bool
}

// verify asks about the host's key once. SSH proves the key again at each new key exchange, after a gigabyte or so; then it must
// be the same, whatever the answer to a new one would be.
func (a *attempt) verify(key ssh.PublicKey, ask func(transport.HostKey) error) error {
	if a.verified {
		if !bytes.Equal(a.key, key.Marshal()) {
			return errRekey
		}
		return nil
	}
	a.hostKeyErr = ask(hostKey(key))
	a.verified, a.key = a.hostKeyErr == nil, key.Marshal()
	return a.hostKeyErr
}

func handshake(ctx context.Context, nc net.Conn, address string, t transport.Target, signers []ssh.Signer) (*ssh.Client, error) {
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	a := &attempt{}
	c, chans, reqs, err := ssh.NewClientConn(nc, address, clientConfig(t, signers, a))
	if !stop() && err == nil {
		// The context ended in the same moment; the connection is closed under us.
		err = errors.Join(context.Cause(ctx), ignoreClosed(c.Close()))
	}
	if err != nil {
		nc.Close()
		return nil, a.explain(ctx, err)
	}
	return ssh.NewClient(c, chans, reqs), nil
}

func clientConfig(t transport.Target, signers []ssh.Signer, a *attempt) *ssh.ClientConfig {
	return &ssh.ClientConfig{
		Config:            ssh.Config{Ciphers: ciphers(), KeyExchanges: ssh.SupportedAlgorithms().KeyExchanges},
		User:              t.User,
		ClientVersion:     clientVersion,
		HostKeyAlgorithms: hostKeyAlgorithms(t.HostKeyAlgorithms),
		// The banner may be of any length and content; it is of no use to us.
		BannerCallback:  func(string) error { return nil },
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error { return a.verify(key, t.Verify) },
		AuthCallback: func(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
			a.methods = c.AllowedMethods
			if a.tried || !slices.Contains(c.AllowedMethods, "publickey") {
				return nil, nil
			}
			a.tried = true
			return ssh.PublicKeys(signers...), nil
		},
	}
}

func hostKey(key ssh.PublicKey) transport.HostKey {
	return transport.HostKey{Algorithm: key.Type(), Key: key.Marshal(), Fingerprint: ssh.FingerprintSHA256(key)}
}

// ciphers puts AES-GCM first: with the processor's help it is twice as fast as ChaCha20.
func ciphers() []string {
	return []string{
		ssh.CipherAES128GCM, ssh.CipherAES256GCM, ssh.CipherChaCha20Poly1305,
		ssh.CipherAES128CTR, ssh.CipherAES192CTR, ssh.CipherAES256CTR,
	}
}

// hostKeyAlgorithms returns the signature algorithms that a host may prove its key with, those of preferred key types first.
// None uses SHA-1.
func hostKeyAlgorithms(preferred []string) []string {
	all := []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
	rank := func(algorithm string) int {
		if algorithm == ssh.KeyAlgoRSASHA512 || algorithm == ssh.KeyAlgoRSASHA256 {
			algorithm = ssh.KeyAlgoRSA
		}
		if i := slices.Index(preferred, algorithm); i >= 0 {
			return i
		}
		return len(preferred)
	}
	slices.SortStableFunc(all, func(a, b string) int { return rank(a) - rank(b) })
	return all
}

// explain turns a handshake's error into one of transport's.
func (a *attempt) explain(ctx context.Context, err error) error {
	switch {
	case a.hostKeyErr != nil:
		return fmt.Errorf("%w: %w", transport.ErrHostKey, a.hostKeyErr)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: no answer in time during %s: %w", transport.ErrUnreachable, a.stage(), context.Cause(ctx))
	case !a.verified || isLoss(err):
		return fmt.Errorf("%w: the connection ended during %s: %w", transport.ErrUnreachable, a.stage(), err)
	}
	return fmt.Errorf("%w: it offers the methods %s and %s: %w", transport.ErrAuth, a.offered(), a.what(), err)
}

func (a *attempt) stage() string {
	if a.verified {
		return "authentication"
	}
	return "key exchange"
}

func (a *attempt) offered() string {
	if len(a.methods) == 0 {
		return "[unknown]"
	}
	return "[" + clip(strings.Join(a.methods, ", ")) + "]"
}

func (a *attempt) what() string {
	if a.tried {
		return "accepts none of the keys"
	}
	return "does not let a key try"
}

// isLoss tells an ended connection from an answer.
func isLoss(err error) bool {
	var ne net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.As(err, &ne)
}

// ignoreClosed makes closing what is closed a success.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// clip bounds a text that the machine sent.
func clip(s string) string {
	const limit = 256
	if len(s) > limit {
		s = s[:limit] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}

// countingConn counts the bytes on the wire.
type countingConn struct {
	net.Conn
	sent, received atomic.Int64
	// greeting is what was read before anybody asked.
	greeting []byte
}

// greet reads the first byte and keeps it for the first Read.
func (c *countingConn) greet() error {
	first := make([]byte, 1)
	if _, err := io.ReadFull(c.Conn, first); err != nil {
		return err
	}
	c.received.Add(1)
	c.greeting = first
	return nil
}

// Read implements net.Conn.
func (c *countingConn) Read(p []byte) (int, error) {
	if len(c.greeting) > 0 && len(p) > 0 {
		n := copy(p, c.greeting)
		c.greeting = c.greeting[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

// Write implements net.Conn.
func (c *countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	return n, err
}
