package hostsim

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// A turn is one time that a client cannot go on before the server has answered: one for TCP, one for each answer during login, one for each
// channel that is opened and each request on it that wants a reply, one for each time that a program answers after it was sent
// something, and one for each SFTP request, except that up to 64 WRITEs in a row, which clients send without waiting, count as one.
//
// What SSH itself says while bytes flow, window adjustments above all, is not counted: a client waits for it only when the window is
// empty. A run with and one without latency shows whether it did.

// writesInFlight is how many WRITEs OpenSSH's sftp, and pkg/sftp with concurrent writes, have under way.
const writesInFlight = 64

// Moment is something that a client did.
type Moment struct {
	At   time.Time
	Kind MomentKind
	// Command is the command line, for MomentStart and MomentEnd.
	Command string
}

// MomentKind says what happened.
type MomentKind string

// The kinds: a connection was accepted, its client has logged in, a command started, and ended.
const (
	MomentConnect MomentKind = "connect"
	MomentLogin   MomentKind = "login"
	MomentStart   MomentKind = "start"
	MomentEnd     MomentKind = "end"
)

func (h *Host) trace(kind MomentKind, command string) {
	h.opts.Trace(Moment{At: time.Now(), Kind: kind, Command: command})
}

func (h *Host) turn() { h.count(func(s *Stats) { s.Turns++ }) }

func (h *Host) sftpRequest(turn bool) {
	h.count(func(s *Stats) {
		s.SFTPRequests++
		if turn {
			s.Turns++
		}
	})
}

// answers sees one direction end and the other begin.
type answers struct {
	mu    sync.Mutex
	asked bool
}

func (a *answers) read(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = a.asked || n > 0
}

// wrote is true for the first bytes of an answer.
func (a *answers) wrote() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.asked
	a.asked = false
	return was
}

// loginConn counts turns until done.
type loginConn struct {
	net.Conn
	turn func()
	done atomic.Bool
	a    answers
}

// Read implements net.Conn.
func (c *loginConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.a.read(n)
	return n, err
}

// Write implements net.Conn.
func (c *loginConn) Write(p []byte) (int, error) {
	if c.a.wrote() && !c.done.Load() {
		c.turn()
	}
	return c.Conn.Write(p)
}

// talk counts the turns between a client and a program.
type talk struct {
	ssh.Channel
	turn func()
	a    answers
}

// Read implements ssh.Channel.
func (t *talk) Read(p []byte) (int, error) {
	n, err := t.Channel.Read(p)
	t.a.read(n)
	return n, err
}

// Write implements ssh.Channel.
func (t *talk) Write(p []byte) (int, error) {
	if t.a.wrote() {
		t.turn()
	}
	return t.Channel.Write(p)
}

// packets counts the requests that an SFTP client sends: each is a length of four bytes and that many bytes, of which the first is the type.
type packets struct {
	ssh.Channel
	request func(turn bool)

	head   [5]byte
	filled int
	// skip is what is left of the request under way.
	skip   int64
	writes int
}

// typeWrite is SSH_FXP_WRITE.
const typeWrite = 6

// Read implements ssh.Channel. The SFTP server reads from one goroutine.
func (p *packets) Read(b []byte) (int, error) {
	n, err := p.Channel.Read(b)
	p.see(b[:n])
	return n, err
}

func (p *packets) see(b []byte) {
	for len(b) > 0 {
		if p.skip > 0 {
			k := min(p.skip, int64(len(b)))
			p.skip -= k
			b = b[k:]
			continue
		}
		k := copy(p.head[p.filled:], b)
		p.filled += k
		b = b[k:]
		if p.filled == len(p.head) {
			p.filled = 0
			p.begin()
		}
	}
}

// begin counts the request whose head is complete.
func (p *packets) begin() {
	size := int64(p.head[0])<<24 | int64(p.head[1])<<16 | int64(p.head[2])<<8 | int64(p.head[3])
	p.skip = max(0, size-1)
	if p.head[4] != typeWrite {
		p.writes = 0
		p.request(true)
		return
	}
	p.writes++
	p.request(p.writes%writesInFlight == 1)
}
