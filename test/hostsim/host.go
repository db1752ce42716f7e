package hostsim

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/test/hostsim/node"
)

// Host is one simulated machine. It is safe for concurrent use.
type Host struct {
	opts    Options
	machine *fake.Machine
	node    *node.Node
	addr    netip.AddrPort
	hold    *reservation
	unwatch func()
	// events carries the machine's life to the goroutine that opens and closes the network.
	events chan fake.Event
	stop   chan struct{}
	work   sync.WaitGroup

	mu       sync.Mutex
	hostKey  ssh.Signer
	keys     []ssh.PublicKey
	knobs    Knobs
	listener net.Listener
	conns    map[*serverConn]bool
	owners   owners
	accepted int
	linkUp   bool
	closed   bool
	stats    Stats
	sent     int64
}

// Stats counts what clients did to a machine since it was made.
type Stats struct {
	// Connections were accepted, Open are open now, AuthAttempts were made (a key that is only asked about counts), Sessions
	// are SSH session channels, Refused are those over MaxSessions.
	Connections, Open, AuthAttempts, Sessions, Refused int
	// Commands are the command lines that were run, in order, and those that came to `wmcb serve`, as if each had been run by itself.
	Commands []string
	// Subsystems counts starts of the SFTP server.
	Subsystems int
	// Received are the bytes that clients sent.
	Received int64
	// SFTPRequests are the requests to the SFTP server.
	SFTPRequests int
	// Turns are how often clients had to wait for an answer; see turns.go.
	Turns int
}

// New starts a machine. Close ends it.
func New(o Options) (*Host, error) {
	o = o.withDefaults()
	hold, listener, err := reserve(o.IP, o.Port)
	if err != nil {
		return nil, fmt.Errorf("reserving an address: %w", err)
	}
	h := &Host{
		opts: o, addr: hold.addr, hold: hold, listener: listener, keys: slices.Clone(o.AuthorizedKeys), hostKey: o.HostKey,
		conns: map[*serverConn]bool{}, linkUp: true, events: make(chan fake.Event, 64), stop: make(chan struct{}),
	}
	if h.hostKey == nil {
		if h.hostKey, err = NewHostKey(); err != nil {
			_ = listener.Close()
			hold.release()
			return nil, err
		}
	}
	h.node = node.New(node.Options{Logf: o.Logf})
	mo := o.machineOptions(h.addr.Addr().String())
	mo.Resolve = h.resolve(mo.Resolve)
	h.machine = fake.New(mo)
	h.unwatch = h.machine.Watch(func(e fake.Event) {
		select {
		case h.events <- e:
		case <-h.stop:
		}
	})
	h.work.Go(func() { h.accept(listener) })
	h.work.Go(h.live)
	return h, nil
}

// NewHostKey makes an SSH host key.
func NewHostKey() (ssh.Signer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a host key: %w", err)
	}
	return ssh.NewSignerFromKey(key)
}

// Addr is where the SSH server listens.
func (h *Host) Addr() (ip string, port int) { return h.addr.Addr().String(), int(h.addr.Port()) }

// HostKey is the SSH server's public key as a line of authorized_keys, without a comment or newline.
func (h *Host) HostKey() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(h.hostKey.PublicKey())))
}

// SetHostKey swaps the key for connections made from now on.
func (h *Host) SetHostKey(key ssh.Signer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hostKey = key
}

// SetAuthorizedKeys replaces the keys that may log in, as user data does when it runs late.
func (h *Host) SetAuthorizedKeys(keys ...ssh.PublicKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys = slices.Clone(keys)
}

// Machine is the modelled Windows behind the server.
func (h *Host) Machine() *fake.Machine { return h.machine }

// Stats returns the counts so far.
func (h *Host) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stats
	s.Open, s.Commands, s.Received = len(h.conns), slices.Clone(h.stats.Commands), h.sent
	return s
}

// Close switches the machine off and waits until everything that it started has ended.
func (h *Host) Close() {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		h.work.Wait()
		return
	}
	h.closed = true
	h.mu.Unlock()
	close(h.stop)
	h.unwatch()
	h.shut()
	h.machine.Close()
	h.node.Close()
	h.work.Wait()
	h.hold.release()
}

// live follows the machine's life: off closes the door, a dropped link cuts what is open.
func (h *Host) live() {
	for {
		select {
		case <-h.stop:
			return
		case e := <-h.events:
			h.follow(e)
		}
	}
}

func (h *Host) follow(e fake.Event) {
	switch e {
	case fake.EventDown:
		h.setLink(true)
		h.shut()
	case fake.EventUp:
		h.open()
	case fake.EventLinkDown:
		h.setLink(false)
		h.Disconnect()
	case fake.EventLinkUp:
		h.setLink(true)
	}
}

func (h *Host) setLink(up bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.linkUp = up
}

// shut closes the listener and every connection.
func (h *Host) shut() {
	h.mu.Lock()
	l := h.listener
	h.listener = nil
	h.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
	h.Disconnect()
}

// Disconnect cuts every connection, as a network does: without a goodbye.
func (h *Host) Disconnect() {
	h.mu.Lock()
	conns := make([]*serverConn, 0, len(h.conns))
	for c := range h.conns {
		conns = append(conns, c)
	}
	h.mu.Unlock()
	for _, c := range conns {
		c.cut()
	}
}

func (h *Host) open() {
	l, err := net.Listen("tcp", net.JoinHostPort(h.addr.Addr().String(), strconv.Itoa(int(h.addr.Port()))))
	if err != nil {
		h.opts.Logf("host %s cannot listen again: %v", h.addr, err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		_ = l.Close()
		return
	}
	h.listener = l
	h.work.Go(func() { h.accept(l) })
}

func (h *Host) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		h.mu.Lock()
		ok := h.linkUp && !h.closed
		if ok {
			h.stats.Connections++
			h.work.Go(func() { h.serve(c) })
		}
		h.mu.Unlock()
		if !ok {
			abort(c)
		}
	}
}

// resolve finds programs: the agent by its digest, the payload by what the files hold.
func (h *Host) resolve(next func(fake.Image) (fake.Program, bool)) func(fake.Image) (fake.Program, bool) {
	return func(i fake.Image) (fake.Program, bool) {
		if version, ok := h.opts.Agents[i.Digest]; ok {
			return agentProgram(version, h.served), true
		}
		if p, ok := h.node.Resolve(i); ok {
			return p, true
		}
		if next != nil {
			return next(i)
		}
		return nil, false
	}
}
