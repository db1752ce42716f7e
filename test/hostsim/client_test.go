package hostsim_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/hostsim"
)

// agentFile stands for the bytes of wmcb.exe.
func agentFile() []byte { return []byte("the agent, version 1") }

func newKey(t testing.TB) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newHost returns a machine that the key may log in to.
func newHost(t testing.TB, key ssh.Signer, change ...func(*hostsim.Options)) *hostsim.Host {
	t.Helper()
	o := hostsim.Options{
		AuthorizedKeys: []ssh.PublicKey{key.PublicKey()}, Logf: t.Logf,
		Agents: map[string]string{hostsim.Agent(agentFile()): "v0.1.0"},
	}
	for _, c := range change {
		c(&o)
	}
	h, err := hostsim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func target(h *hostsim.Host) string {
	ip, port := h.Addr()
	return net.JoinHostPort(ip, strconv.Itoa(port))
}

func tryDial(h *hostsim.Host, key ssh.Signer, change ...func(*ssh.ClientConfig)) (*ssh.Client, error) {
	pinned, _, _, _, err := ssh.ParseAuthorizedKey([]byte(h.HostKey()))
	if err != nil {
		return nil, err
	}
	cfg := &ssh.ClientConfig{
		User: "administrator", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(pinned), Timeout: 10 * time.Second,
	}
	for _, c := range change {
		c(cfg)
	}
	raw, err := net.DialTimeout("tcp", target(h), cfg.Timeout)
	if err != nil {
		return nil, err
	}
	if err := raw.SetDeadline(time.Now().Add(cfg.Timeout)); err != nil {
		return nil, err
	}
	conn, channels, requests, err := ssh.NewClientConn(raw, target(h), cfg)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return ssh.NewClient(conn, channels, requests), raw.SetDeadline(time.Time{})
}

func dial(t testing.TB, h *hostsim.Host, key ssh.Signer) *ssh.Client {
	t.Helper()
	c, err := tryDial(h, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// result is how a command ended; exit is -1 when the exit status was lost.
type result struct {
	exit           int
	stdout, stderr string
}

func run(t testing.TB, c *ssh.Client, line string, stdin io.Reader) result {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var stdout, stderr bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = stdin, &stdout, &stderr
	if err = s.Start(line); err == nil {
		err = s.Wait()
	}
	r := result{stdout: stdout.String(), stderr: stderr.String()}
	var exit *ssh.ExitError
	var missing *ssh.ExitMissingError
	switch {
	case errors.As(err, &exit):
		r.exit = exit.ExitStatus()
	case errors.As(err, &missing):
		r.exit = -1
	case err != nil:
		t.Fatal(err)
	}
	return r
}

func newSFTP(t testing.TB, c *ssh.Client) *sftp.Client {
	t.Helper()
	s, err := sftp.NewClient(c, sftp.UseConcurrentWrites(true))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// sftpPath is "/C:/k/x" for `C:\k\x`.
func sftpPath(p string) string { return "/" + strings.ReplaceAll(p, `\`, "/") }

func upload(t testing.TB, s *sftp.Client, to string, data []byte) {
	t.Helper()
	to = sftpPath(to)
	if err := s.MkdirAll(path.Dir(to)); err != nil {
		t.Fatal(err)
	}
	f, err := s.OpenFile(to+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadFrom(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.PosixRename(to+".tmp", to); err != nil {
		t.Fatal(err)
	}
}

// installAgent uploads the agent and returns its path.
func installAgent(t testing.TB, c *ssh.Client) string {
	t.Helper()
	at := plan.AgentPath(hostsim.Agent(agentFile()))
	upload(t, newSFTP(t, c), at, agentFile())
	return at
}

// eventually waits until ok, without being in a hurry.
func eventually(t testing.TB, what string, within time.Duration, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within %s", what, within)
		case <-tick.C:
		}
	}
}
