package fake

import (
	"context"
	"fmt"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

// Event is something that the outside of a machine notices.
type Event int

// The events, in the order in which a reboot and a new virtual switch show them.
const (
	// EventDown: the machine is off; every connection to it is gone.
	EventDown Event = iota + 1
	// EventUp: it is up again and its services start.
	EventUp
	// EventLinkDown: an adapter has lost its address; connections to it are cut.
	EventLinkDown
	// EventLinkUp: the address can be used again.
	EventLinkUp
)

// Watch calls f at each event, in order, until cancel is called. f must not call the machine and must not block.
func (m *Machine) Watch(f func(Event)) (cancel func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nextWatch++
	id := m.nextWatch
	m.watchers[id] = f
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, id)
	}
}

// tell is called with m.mu held.
func (m *Machine) tell(e Event) {
	for _, f := range m.watchers {
		f(e)
	}
}

// Tear is what a power cut leaves of bytes that were written but not synced.
type Tear int

const (
	// TearZeros: the file has its size, and zeros where the bytes were. NTFS logs the size and not the data, so this is
	// what is found after a power cut on real disks.
	TearZeros Tear = iota
	// TearTruncate: the file ends where it was last synced.
	TearTruncate
)

// Reboot asks services to stop, waits for them as long as Windows does, switches off and on again. It returns when
// services start. Written bytes are kept, as an orderly shutdown flushes them.
func (m *Machine) Reboot(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.power != powerUp || m.closed {
		return ErrPoweredOff
	}
	m.power = powerGoingDown
	for _, s := range m.services {
		if s.inst != nil {
			s.inst.askToStop()
		}
	}
	m.until(m.opts.Timing.Shutdown, func() bool {
		for _, s := range m.services {
			if s.inst != nil {
				return false
			}
		}
		return true
	})
	if m.power != powerGoingDown {
		return ErrPoweredOff // the power was cut meanwhile
	}
	m.cutLocked()
	for _, d := range m.drives {
		flush(d)
	}
	return m.powerOnLocked(ctx)
}

// shutdownNotice is how long a machine goes on after it was asked to reboot, so that who asked mostly learns of it.
const shutdownNotice = 100 * time.Millisecond

// RequestReboot is `shutdown /r /t 0`: it returns at once and the machine reboots by itself.
func (m *Machine) RequestReboot() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.goWork(func() {
		if m.opts.Clock.Sleep(m.life, shutdownNotice) != nil {
			return
		}
		if err := m.Reboot(m.life); err != nil {
			m.opts.Logf("reboot: %v", err)
		}
	})
}

// PowerCut switches the machine off at once; bytes that were not synced are torn. PowerOn brings it back.
func (m *Machine) PowerCut(t Tear) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.power == powerOff {
		return
	}
	m.cutLocked()
	for _, d := range m.drives {
		m.tear(d, t)
	}
}

// PowerOn boots a machine that is off, and returns when its services start.
func (m *Machine) PowerOn(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.power != powerOff || m.closed {
		return fmt.Errorf("power on: the machine is on or closed")
	}
	return m.powerOnLocked(ctx)
}

func (m *Machine) powerOnLocked(ctx context.Context) error {
	m.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(m.life, cancel)
	err := m.opts.Clock.Sleep(ctx, m.opts.Timing.Boot)
	stop()
	cancel()
	m.mu.Lock()
	if err != nil {
		return err
	}
	if m.closed || m.power != powerOff {
		return ErrPoweredOff
	}
	m.bootLocked()
	m.tell(EventUp)
	return nil
}

// cutLocked ends everything that runs.
func (m *Machine) cutLocked() {
	m.power = powerOff
	m.bootEnd()
	for _, p := range m.processes {
		p.lost = true
		p.endLocked(killedExit, true)
	}
	for _, s := range m.services {
		s.state, s.pid, s.inst = system.ServiceStopped, 0, nil
	}
	m.broadcast()
	m.tell(EventDown)
}

// bootLocked starts a new boot: pending features are enabled, services that were marked for deletion are gone, networks
// that do not persist are gone, links are up.
func (m *Machine) bootLocked() {
	m.power = powerUp
	m.boots++
	m.bootCtx, m.bootEnd = context.WithCancel(context.Background())
	for name, f := range m.features {
		if f.Pending {
			m.features[name] = Feature{Enabled: true}
		}
	}
	for name, s := range m.services {
		s.exit, s.failures, s.holds = 0, 0, 0
		if s.marked {
			delete(m.services, name)
		}
	}
	m.bootNetworks()
	m.autoStart()
	m.broadcast()
}

// flush makes all content durable.
func flush(n *node) {
	for _, c := range n.children {
		flush(c)
	}
	if n.dirty {
		n.synced, n.dirty = n.data.snapshot(), false
	}
}

// tear makes unsynced content what a power cut leaves of it.
func (m *Machine) tear(n *node, t Tear) {
	for _, c := range n.children {
		m.tear(c, t)
	}
	n.locked, n.holds = false, 0
	if n.dir || !n.dirty {
		return
	}
	size := n.data.size
	torn := n.synced.snapshot()
	if size < torn.size || t == TearZeros {
		torn.truncate(size)
	}
	m.used += torn.size - size
	n.data, n.synced, n.dirty = torn, torn.snapshot(), false
}
