package ssh

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/transport"
	"github.com/windowsmachine/operator/pkg/transport/ssh/sshtest"
)

func dial(t testing.TB, s *sshtest.Server) transport.Conn {
	t.Helper()
	c, err := (&Dialer{}).Dial(t.Context(), s.Target())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeConn(t, c) })
	return c
}

func closeConn(t testing.TB, c transport.Conn) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
	select {
	case <-c.Done():
	default:
		t.Error("Done is open after Close")
	}
}

// newKey makes a private key that no server knows.
func newKey(t testing.TB) []byte {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return []byte(openSSH(t, must(t, k, err)))
}

func TestDial(t *testing.T) {
	s := sshtest.New(t, sshtest.Options{})
	var seen transport.HostKey
	target := s.Target()
	target.Verify = func(k transport.HostKey) error {
		if len(s.Attempts()) > 0 {
			t.Error("a credential was sent before the host key was verified")
		}
		seen = k
		return nil
	}
	c, err := (&Dialer{}).Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	public := sshtest.HostSigner().PublicKey()
	want := transport.HostKey{Algorithm: "ssh-ed25519", Key: public.Marshal(), Fingerprint: ssh.FingerprintSHA256(public)}
	if d := cmp.Diff(want, seen); d != "" {
		t.Error(d)
	}
	if st := c.Stats(); st.Sent < 500 || st.Received < 500 || st.Channels != 0 {
		t.Errorf("a handshake counts as %+v", st)
	}
	if err := c.Err(); err != nil {
		t.Errorf("a live connection has the error %v", err)
	}
	closeConn(t, c)
	if err := c.Err(); err != nil {
		t.Errorf("a connection that we closed has the error %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if _, err := c.Run(t.Context(), transport.Command{Path: `C:\a.exe`}); !errors.Is(err, transport.ErrDisconnected) {
		t.Errorf("running on a closed connection gave %v", err)
	}
}

// TestAdmit: a host that says nothing does not ask to be admitted; one that does logs in when it is let, however long that takes.
func TestAdmit(t *testing.T) {
	var d Dialer
	deaf, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	s := sshtest.New(t, sshtest.Options{})
	silent := s.Target()
	silent.Port = deaf.Addr().(*net.TCPAddr).Port
	silent.Admit = func(context.Context) error {
		t.Error("a host that says nothing is admitted")
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := d.Dial(ctx, silent)
		ended <- err
	}()
	asked, let, verified := make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	target := s.Target()
	target.Timeout = 10 * time.Second
	target.Admit = func(context.Context) error {
		close(asked)
		<-let
		return nil
	}
	verify := target.Verify
	target.Verify = func(k transport.HostKey) error {
		verified <- struct{}{}
		return verify(k)
	}
	login := make(chan error, 1)
	go func() {
		c, err := d.Dial(t.Context(), target)
		if err == nil {
			err = c.Close()
		}
		login <- err
	}()
	<-asked
	if len(verified) != 0 {
		t.Error("keys were exchanged before the host was admitted")
	}
	close(let)
	if err := <-login; err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, transport.ErrUnreachable) {
		t.Errorf("a host that says nothing: %v", err)
	}
}

// TestAdmitGivenUp: who waits to be admitted and is told to stop leaves nothing open.
func TestAdmitGivenUp(t *testing.T) {
	s := sshtest.New(t, sshtest.Options{})
	target := s.Target()
	asked := make(chan struct{})
	target.Admit = func(ctx context.Context) error {
		close(asked)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := (&Dialer{}).Dial(ctx, target)
		ended <- err
	}()
	<-asked
	cancel()
	if err := <-ended; !errors.Is(err, transport.ErrUnreachable) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	eventually(t, "the connection is closed", func() bool { return s.Open() == 0 })
}

func TestW40OneAttemptAKey(t *testing.T) {
	// The server offers methods that cannot work and is quick to cut a client off.
	hostile := func(c *ssh.ServerConfig) {
		c.MaxAuthTries = 2
		c.PasswordCallback = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, errors.New("no") }
		c.KeyboardInteractiveCallback = func(ssh.ConnMetadata, ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			return nil, errors.New("fails before any prompt")
		}
	}
	for _, tc := range []struct {
		name     string
		config   func(*ssh.ServerConfig)
		keys     func(*testing.T) [][]byte
		want     error
		attempts []string
		message  []string
	}{
		{
			"right key", hostile,
			func(*testing.T) [][]byte { return [][]byte{sshtest.UserKey()} },
			nil,
			[]string{"publickey"},
			nil,
		},
		{
			"wrong key", hostile,
			func(t *testing.T) [][]byte { return [][]byte{newKey(t)} },
			transport.ErrAuth,
			[]string{"publickey"},
			[]string{"publickey", "password", "keyboard-interactive", "none of the keys"},
		},
		{
			"wrong key twice", hostile,
			func(t *testing.T) [][]byte { k := newKey(t); return [][]byte{k, k} },
			transport.ErrAuth,
			[]string{"publickey"},
			nil,
		},
		{
			"old key and new key", hostile,
			func(t *testing.T) [][]byte { return [][]byte{newKey(t), sshtest.UserKey()} },
			nil,
			[]string{"publickey", "publickey"},
			nil,
		},
		{
			"no public keys allowed", func(c *ssh.ServerConfig) { hostile(c); c.PublicKeyCallback = nil },
			func(*testing.T) [][]byte { return [][]byte{sshtest.UserKey()} },
			transport.ErrAuth, nil,
			[]string{"password", "does not let a key try"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := sshtest.New(t, sshtest.Options{Config: tc.config})
			target := s.Target()
			target.PrivateKeys = tc.keys(t)
			c, err := (&Dialer{}).Dial(t.Context(), target)
			if !errors.Is(err, tc.want) {
				t.Fatalf("got %v", err)
			}
			if err == nil {
				closeConn(t, c)
			}
			if d := cmp.Diff(tc.attempts, s.Attempts(), cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
			for _, m := range tc.message {
				if !strings.Contains(err.Error(), m) {
					t.Errorf("%q does not name %q", err, m)
				}
			}
		})
	}
}

// A banner that comes late is waited for, up to the timeout.
func TestW40LateBanner(t *testing.T) {
	late := make(chan struct{})
	s := sshtest.New(t, sshtest.Options{BannerDelay: late})
	target := s.Target()
	// The time is up once the server is waited for, however slow this machine is.
	ctx, cancel := context.WithCancelCause(t.Context())
	target.Verify = func(transport.HostKey) error { cancel(context.DeadlineExceeded); return nil }
	_, err := (&Dialer{}).Dial(ctx, target)
	if !errors.Is(err, transport.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "authentication") {
		t.Errorf("a banner that does not come gave %v", err)
	}
	target.Timeout = time.Minute
	verified := make(chan struct{})
	target.Verify = func(transport.HostKey) error { close(verified); return nil }
	go func() {
		<-verified
		close(late)
	}()
	c, err := (&Dialer{}).Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	closeConn(t, c)
}

func TestW42HostKeys(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ecSigner, err2 := ssh.NewSignerFromKey(must(t, ec, err))
	both := []ssh.Signer{sshtest.HostSigner(), must(t, ecSigner, err2)}
	changed := errors.New("the key has changed")
	for _, tc := range []struct {
		name   string
		prefer []string
		verify error
		seen   string
		want   error
	}{
		{"no preference", nil, nil, ssh.KeyAlgoED25519, nil},
		{"pinned key of the other type", []string{ssh.KeyAlgoECDSA256}, nil, ssh.KeyAlgoECDSA256, nil},
		{"pinned key that is gone", []string{ssh.KeyAlgoRSA}, nil, ssh.KeyAlgoED25519, nil},
		{"changed key", nil, changed, ssh.KeyAlgoED25519, transport.ErrHostKey},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := sshtest.New(t, sshtest.Options{HostKeys: both})
			target := s.Target()
			target.HostKeyAlgorithms = tc.prefer
			var seen string
			target.Verify = func(k transport.HostKey) error { seen = k.Algorithm; return tc.verify }
			c, err := (&Dialer{}).Dial(t.Context(), target)
			if !errors.Is(err, tc.want) || !errors.Is(err, tc.verify) || seen != tc.seen {
				t.Errorf("got %v with key %s", err, seen)
			}
			if err == nil {
				closeConn(t, c)
			} else if got := s.Attempts(); len(got) > 0 {
				t.Errorf("credentials were sent to a host that is not trusted: %v", got)
			}
		})
	}
	target := sshtest.New(t, sshtest.Options{}).Target()
	target.Verify = nil
	if _, err := (&Dialer{}).Dial(t.Context(), target); !errors.Is(err, transport.ErrHostKey) {
		t.Errorf("a target without Verify gave %v", err)
	}
}

func TestW42Addresses(t *testing.T) {
	refused := errors.New("refused")
	for _, tc := range []struct {
		address string
		port    int
		want    string
	}{
		{"192.0.2.10", 22, "192.0.2.10:22"},
		{"fd00::10", 2222, "[fd00::10]:2222"},
		{"win-1.example.test", 22, "win-1.example.test:22"},
	} {
		var got string
		d := &Dialer{Net: func(_ context.Context, _, address string) (net.Conn, error) {
			got = address
			return nil, refused
		}}
		target := sshtest.New(t, sshtest.Options{}).Target()
		target.Address, target.Port = tc.address, tc.port
		_, err := d.Dial(t.Context(), target)
		if got != tc.want || !errors.Is(err, transport.ErrUnreachable) || !errors.Is(err, refused) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("dialed %s: %v", got, err)
		}
		if want := "Administrator@" + tc.want; target.String() != want {
			t.Errorf("the target is printed as %s", target)
		}
	}
}

func TestDialErrors(t *testing.T) {
	canary := "c2VjcmV0LWNhbmFyeS1zZWNyZXQtY2FuYXJ5"
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	port := silent.Addr().(*net.TCPAddr).Port
	talker := func(text string) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			go func() {
				_, _ = io.Copy(theirs, strings.NewReader(text))
				theirs.Close()
			}()
			return ours, nil
		}
	}
	for _, tc := range []struct {
		name   string
		dialer Dialer
		change func(*transport.Target)
		want   error
	}{
		{"no keys", Dialer{}, func(t *transport.Target) { t.PrivateKeys = nil }, ErrKeyEmpty},
		{"bad key", Dialer{}, func(t *transport.Target) {
			t.PrivateKeys = append(t.PrivateKeys, []byte("-----BEGIN RSA PRIVATE KEY-----\n"+canary+"\n-----END RSA PRIVATE KEY-----\n"))
		}, ErrKeyFormat},
		{"no answer", Dialer{}, func(t *transport.Target) {
			t.Address, t.Port, t.Timeout = "127.0.0.1", port, 30*time.Millisecond
		}, transport.ErrUnreachable},
		{"not SSH", Dialer{Net: talker("HTTP/1.1 400 Bad Request\r\n\r\n")}, func(*transport.Target) {}, transport.ErrUnreachable},
		{"closed at once", Dialer{Net: talker("")}, func(*transport.Target) {}, transport.ErrUnreachable},
		{"endless greeting", Dialer{Net: talker(strings.Repeat("x", 1<<20))}, func(*transport.Target) {}, transport.ErrUnreachable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			target := sshtest.New(t, sshtest.Options{}).Target()
			tc.change(&target)
			_, err := tc.dialer.Dial(t.Context(), target)
			if !errors.Is(err, tc.want) || strings.Contains(err.Error(), canary) {
				t.Errorf("got %v", err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&Dialer{}).Dial(ctx, sshtest.New(t, sshtest.Options{}).Target()); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context gave %v", err)
	}
}

func TestAlgorithms(t *testing.T) {
	insecure := ssh.InsecureAlgorithms()
	for _, a := range hostKeyAlgorithms(nil) {
		if slices.Contains(insecure.HostKeys, a) {
			t.Errorf("host keys may be proved with %s", a)
		}
	}
	for _, c := range ciphers() {
		if slices.Contains(insecure.Ciphers, c) {
			t.Errorf("cipher %s is offered", c)
		}
	}
	c := clientConfig(transport.Target{}, nil, &attempt{})
	for _, k := range c.KeyExchanges {
		if slices.Contains(insecure.KeyExchanges, k) {
			t.Errorf("key exchange %s is offered", k)
		}
	}
	got := hostKeyAlgorithms([]string{ssh.KeyAlgoRSA, ssh.KeyAlgoECDSA256})
	want := []string{
		ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoECDSA256,
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	s := sshtest.New(t, sshtest.Options{Config: func(c *ssh.ServerConfig) { c.KeyExchanges = insecure.KeyExchanges }})
	if _, err := (&Dialer{}).Dial(t.Context(), s.Target()); !errors.Is(err, transport.ErrUnreachable) {
		t.Errorf("a server with insecure key exchange only gave %v", err)
	}
}

// A connection that lives long exchanges keys anew; its host key is asked about once and must stay the same.
func TestRekey(t *testing.T) {
	s := sshtest.New(t, sshtest.Options{Exec: echo, Config: func(c *ssh.ServerConfig) { c.RekeyThreshold = 64 << 10 }})
	target := s.Target()
	asked := 0
	target.Verify = func(transport.HostKey) error { asked++; return nil }
	c, err := (&Dialer{}).Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	exit, err := c.Run(t.Context(), transport.Command{Path: program, Stdin: strings.NewReader(strings.Repeat("x", 1<<20))})
	if exit != 7 || err != nil {
		t.Errorf("exit %d, %v", exit, err)
	}
	closeConn(t, c)
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	a := &attempt{}
	accept := func(transport.HostKey) error { return nil }
	if err := a.verify(sshtest.HostSigner().PublicKey(), accept); err != nil {
		t.Error(err)
	}
	if err := a.verify(sshtest.HostSigner().PublicKey(), nil); err != nil {
		t.Errorf("the same key again gave %v", err)
	}
	if err := a.verify(sshtest.UserSigner().PublicKey(), accept); !errors.Is(err, errRekey) {
		t.Errorf("another key gave %v", err)
	}
}
