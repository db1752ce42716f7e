package host

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/windowsmachine/operator/pkg/transport"
)

// targetID identifies where a connection leads and as whom, without keeping the keys.
type targetID [sha256.Size]byte

func identify(t transport.Target) targetID {
	h := sha256.New()
	field := func(b []byte) {
		// The length in front keeps two fields from being read as others.
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	field([]byte(t.Address))
	field([]byte(t.User))
	field(binary.BigEndian.AppendUint64(nil, uint64(t.Port)))
	for _, k := range t.PrivateKeys {
		field(k)
	}
	return targetID(h.Sum(nil))
}

// connect returns the live connection to t, or makes one.
func (s *Session) connect(ctx context.Context, t transport.Target) (transport.Conn, error) {
	id := identify(t)
	if c := s.reuse(id); c != nil {
		return c, nil
	}
	var key transport.HostKey
	if verify := t.Verify; verify != nil {
		t.Verify = func(k transport.HostKey) error {
			if err := verify(k); err != nil {
				return err
			}
			key = k
			return nil
		}
	}
	t.Admit = s.takeTurn
	c, err := s.pool.cfg.Dialer.Dial(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := s.attach(ctx, c, id, key); err != nil {
		_ = c.Close()
		return nil, err
	}
	s.notify()
	return c, nil
}

// reuse returns the connection when it lives and leads to id; another one is closed.
func (s *Session) reuse(id targetID) transport.Conn {
	s.mu.Lock()
	c := s.conn
	if c != nil && s.target == id && !ended(c) {
		s.mu.Unlock()
		return c
	}
	c = s.detach()
	s.mu.Unlock()
	if c != nil {
		_ = c.Close()
	}
	return nil
}

func ended(c transport.Conn) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// attach makes c the session's connection and watches it.
func (s *Session) attach(ctx context.Context, c transport.Conn, id targetID, key transport.HostKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || ctx.Err() != nil {
		// Disconnect or close came while we dialed.
		return context.Cause(ctx)
	}
	s.conn, s.target, s.agentPut = c, id, false
	if s.snap.HostKey.Fingerprint != key.Fingerprint {
		// Another key is another machine; what the old one said does not hold for it.
		s.snap.Facts, s.snap.Report, s.snap.Trail = nil, nil, nil
	}
	s.snap.Connected, s.snap.HostKey = true, key
	s.wg.Go(func() {
		<-c.Done()
		s.lost(c)
	})
	return nil
}

// detach takes the connection out of the session and returns it for closing; mu is held.
func (s *Session) detach() transport.Conn {
	c := s.conn
	if c != nil {
		s.snap.Stats = c.Stats()
	}
	s.conn, s.snap.Connected, s.agentPut = nil, false, false
	s.leaveTurn()
	s.running.hangUp(errStopped)
	s.running = nil
	return c
}

// lost notes that a connection has ended by itself.
func (s *Session) lost(c transport.Conn) {
	s.mu.Lock()
	ours := s.conn == c
	if ours {
		s.detach()
	}
	s.mu.Unlock()
	_ = c.Close()
	if ours {
		s.notify()
	}
}

// drop closes a connection that is of no more use.
func (s *Session) drop(c transport.Conn) {
	s.mu.Lock()
	if s.conn == c {
		s.detach()
	}
	s.mu.Unlock()
	_ = c.Close()
}

// putAgent puts the agent in its place, once a connection.
func (s *Session) putAgent(ctx context.Context, c transport.Conn) error {
	if s.hasAgent() {
		return nil
	}
	a := s.pool.cfg.Agent
	if _, err := c.Put(ctx, s.agentPath(), a.Size, func() (io.ReadCloser, error) { return a.Open() }); err != nil {
		return fmt.Errorf("putting the agent: %w", err)
	}
	s.setAgent(c, true)
	return nil
}

func (s *Session) hasAgent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agentPut
}

func (s *Session) setAgent(c transport.Conn, put bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agentPut = put && s.conn == c
}
