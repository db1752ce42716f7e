package hostsim

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

// serverVersion is what OpenSSH for Windows of Server 2022 says.
const serverVersion = "SSH-2.0-OpenSSH_for_Windows_8.1"

// loginGrace bounds the time until a client has logged in (LoginGraceTime).
const loginGrace = 120 * time.Second

var (
	errKey      = errors.New("key is not authorized")
	errPassword = errors.New("wrong password")
	errPrompt   = errors.New("no prompt to answer")
)

// serverConn is one client's connection.
type serverConn struct {
	h      *Host
	shaped *shapedConn
	// number counts connections from 1.
	number int

	mu       sync.Mutex
	failures int
	sessions int
	procs    map[*fake.Process]bool
	ended    bool
}

func (c *serverConn) cut() { c.shaped.cut() }

// serve talks to one client until the connection ends, and then ends what the client had started: sshd keeps its
// sessions in one job.
func (h *Host) serve(raw net.Conn) {
	h.mu.Lock()
	knobs := h.knobs
	c := &serverConn{h: h, procs: map[*fake.Process]bool{}}
	c.shaped = shape(raw, knobs, func(n int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.sent += int64(n)
	})
	h.conns[c] = true
	h.accepted++
	c.number = h.accepted
	h.stats.Turns++ // TCP's own
	closed := h.closed || !h.linkUp
	h.mu.Unlock()
	if closed {
		c.cut()
	}
	defer func() {
		c.killAll()
		c.shaped.finish()
		h.mu.Lock()
		delete(h.conns, c)
		h.mu.Unlock()
	}()
	h.trace(MomentConnect, "")
	if knobs.BannerDelay > 0 && !wait(knobs.BannerDelay, c.shaped.deadline) {
		return
	}
	grace := time.AfterFunc(loginGrace, c.cut)
	login := &loginConn{Conn: c.shaped, turn: h.turn}
	conn, channels, requests, err := ssh.NewServerConn(login, c.serverConfig())
	grace.Stop()
	if err != nil {
		return
	}
	login.done.Store(true)
	h.trace(MomentLogin, "")
	h.work.Go(func() { ssh.DiscardRequests(requests) })
	var sessions sync.WaitGroup
	for ch := range channels {
		c.accept(ch, &sessions)
	}
	_ = conn.Close()
	c.killAll()
	sessions.Wait()
}

func (c *serverConn) serverConfig() *ssh.ServerConfig {
	h := c.h
	h.mu.Lock()
	defer h.mu.Unlock()
	cfg := &ssh.ServerConfig{
		MaxAuthTries:      h.opts.MaxAuthTries,
		ServerVersion:     serverVersion,
		PublicKeyCallback: h.checkKey,
		AuthLogCallback:   c.countAuth,
	}
	if h.opts.OfferPassword {
		cfg.PasswordCallback = h.checkPassword
	}
	if h.opts.OfferInteractive {
		// The service offers the method and fails it without a prompt (PowerShell/Win32-OpenSSH#1554).
		cfg.KeyboardInteractiveCallback = func(ssh.ConnMetadata, ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			return nil, errPrompt
		}
	}
	cfg.AddHostKey(h.hostKey)
	return cfg
}

// countAuth ends the connection at the MaxAuthTries-th failure. OpenSSH counts a key that is only asked about as well, which
// x/crypto does not at first.
func (c *serverConn) countAuth(_ ssh.ConnMetadata, method string, err error) {
	if method == "none" {
		return
	}
	c.h.count(func(s *Stats) { s.AuthAttempts++ })
	if err == nil {
		return
	}
	c.mu.Lock()
	c.failures++
	over := c.failures >= c.h.opts.MaxAuthTries
	c.mu.Unlock()
	if over {
		_ = c.shaped.Close()
	}
}

func (h *Host) checkKey(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.keys {
		if h.known(meta.User()) && bytes.Equal(k.Marshal(), key.Marshal()) {
			return &ssh.Permissions{}, nil
		}
	}
	return nil, errKey
}

func (h *Host) checkPassword(meta ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
	for user, p := range h.opts.Passwords {
		if strings.EqualFold(user, meta.User()) && p == string(password) {
			return &ssh.Permissions{}, nil
		}
	}
	return nil, errPassword
}

// known compares account names as Windows does.
func (h *Host) known(user string) bool {
	for _, u := range h.opts.Users {
		if strings.EqualFold(u, user) {
			return true
		}
	}
	return false
}

// accept takes a session channel, at most MaxSessions at a time on one connection.
func (c *serverConn) accept(ch ssh.NewChannel, sessions *sync.WaitGroup) {
	if ch.ChannelType() != "session" {
		_ = ch.Reject(ssh.UnknownChannelType, "only sessions")
		return
	}
	c.h.mu.Lock()
	refuse := c.h.knobs.RefuseSessions
	c.h.mu.Unlock()
	c.mu.Lock()
	refuse = refuse || c.sessions >= c.h.opts.MaxSessions
	if !refuse {
		c.sessions++
	}
	c.mu.Unlock()
	c.h.count(func(s *Stats) {
		if refuse {
			s.Refused++
		} else {
			s.Sessions++
		}
	})
	if refuse {
		_ = ch.Reject(ssh.ConnectionFailed, "open failed") // session_open of OpenSSH beyond max_sessions
		return
	}
	c.h.turn()
	channel, requests, err := ch.Accept()
	if err != nil {
		c.release()
		return
	}
	sessions.Go(func() {
		defer c.release()
		c.session(channel, requests)
	})
}

func (c *serverConn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions--
}

func (h *Host) count(f func(*Stats)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(&h.stats)
}

// keep notes a process of the connection; it is killed at once when the connection has ended.
func (c *serverConn) keep(p *fake.Process) {
	c.h.own(p, c.number)
	c.mu.Lock()
	ended := c.ended
	c.procs[p] = true
	c.mu.Unlock()
	if ended {
		p.Kill()
	}
}

func (c *serverConn) drop(p *fake.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.procs, p)
}

func (c *serverConn) killAll() {
	c.mu.Lock()
	c.ended = true
	procs := make([]*fake.Process, 0, len(c.procs))
	for p := range c.procs {
		procs = append(procs, p)
	}
	c.mu.Unlock()
	for _, p := range procs {
		p.Kill()
	}
}
