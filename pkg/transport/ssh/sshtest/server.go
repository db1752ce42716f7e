package sshtest

import (
	"crypto/ed25519"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/transport"
)

// Options of a Server. The zero value accepts UserKey and runs every program with exit code 0.
type Options struct {
	// Config changes the server's configuration before it starts.
	Config func(*ssh.ServerConfig)
	// HostKeys replace the default host key.
	HostKeys []ssh.Signer
	// BannerDelay holds the banner, and with it the answer to the first authentication request, until it is closed.
	BannerDelay <-chan struct{}
	// MaxSessions bounds the open channels of a connection; 0 is no bound. OpenSSH for Windows allows 10.
	MaxSessions int
	// Exec runs a program; nil is a program that does nothing and exits with 0.
	Exec func(*Exec) (exit int)
	// NoSFTP refuses the subsystem.
	NoSFTP bool
}

// NoStatus as the result of Options.Exec ends the program without an exit status, as a machine does that goes down.
const NoStatus = -1

// Server is a running server. It ends with its test.
type Server struct {
	// Files are those of SFTP.
	Files *Files

	opts     Options
	config   *ssh.ServerConfig
	listener net.Listener
	wg       sync.WaitGroup

	mu       sync.Mutex
	conns    map[*wire]bool
	accepted int
	attempts []string
	sessions int
	lines    []string
}

// New starts a server.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Files: newFiles(), opts: o, listener: l, conns: map[*wire]bool{}}
	s.config = s.serverConfig()
	s.wg.Go(s.accept)
	t.Cleanup(s.close)
	return s
}

func (s *Server) serverConfig() *ssh.ServerConfig {
	c := &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if string(key.Marshal()) == string(UserSigner().PublicKey().Marshal()) {
				return nil, nil
			}
			return nil, errors.New("unknown key")
		},
		AuthLogCallback: func(_ ssh.ConnMetadata, method string, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.attempts = append(s.attempts, method)
		},
		BannerCallback: func(ssh.ConnMetadata) string {
			if s.opts.BannerDelay != nil {
				<-s.opts.BannerDelay
			}
			return "Authorised use only\r\n"
		},
	}
	keys := s.opts.HostKeys
	if keys == nil {
		keys = []ssh.Signer{HostSigner()}
	}
	for _, k := range keys {
		c.AddHostKey(k)
	}
	if s.opts.Config != nil {
		s.opts.Config(c)
	}
	return c
}

// Target connects to s with the key that it accepts, and trusts any host key.
func (s *Server) Target() transport.Target {
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		panic(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		panic(err)
	}
	return transport.Target{
		Address: host, Port: n, User: "Administrator", PrivateKeys: [][]byte{UserKey()},
		Verify: func(transport.HostKey) error { return nil }, Timeout: 20 * time.Second,
	}
}

// Open is the number of open connections, Accepted that of all so far.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Accepted is the number of connections that were accepted so far.
func (s *Server) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Attempts are the methods of all authentication attempts so far, in order, without the opening "none".
func (s *Server) Attempts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.attempts), func(m string) bool { return m == "none" })
}

// Lines are the command lines of all programs so far.
func (s *Server) Lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}

// Cut ends all connections at once, as a machine does that loses its power.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

// Freeze makes all connections silent: nothing is read or answered any more, and nothing is closed.
func (s *Server) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.freeze()
	}
}

func (s *Server) close() {
	s.listener.Close()
	s.Cut()
	s.wg.Wait()
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		w := &wire{Conn: c, thaw: make(chan struct{})}
		s.mu.Lock()
		s.conns[w] = true
		s.accepted++
		s.mu.Unlock()
		s.wg.Go(func() { s.serve(w) })
	}
}

func (s *Server) serve(w *wire) {
	defer func() {
		w.Close()
		s.mu.Lock()
		delete(s.conns, w)
		s.mu.Unlock()
	}()
	conn, chans, reqs, err := ssh.NewServerConn(w, s.config)
	if err != nil {
		return
	}
	defer conn.Close()
	s.wg.Go(func() { ssh.DiscardRequests(reqs) })
	var open sync.WaitGroup
	defer open.Wait()
	for c := range chans {
		if !s.enter() {
			// OpenSSH's answer beyond MaxSessions is "open failed" (channels.c, server_input_channel_open).
			_ = c.Reject(ssh.ConnectionFailed, "open failed")
			continue
		}
		ch, requests, err := c.Accept()
		if err != nil {
			s.leave()
			continue
		}
		open.Go(func() {
			defer s.leave()
			s.session(w, ch, requests)
		})
	}
}

func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.MaxSessions > 0 && s.sessions >= s.opts.MaxSessions {
		return false
	}
	s.sessions++
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions--
}

// UserSigner is the user's key that a Server accepts by default, HostSigner its host key.
func UserSigner() ssh.Signer { return signer(1) }

// HostSigner is the host key of a Server by default.
func HostSigner() ssh.Signer { return signer(2) }

func signer(seed byte) ssh.Signer {
	s, err := ssh.NewSignerFromKey(key(seed))
	if err != nil {
		panic(err)
	}
	return s
}

func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(append(make([]byte, ed25519.SeedSize-1), seed))
}
