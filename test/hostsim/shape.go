package hostsim

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// maxInFlight and minInFlight bound the bytes on the simulated wire in each direction. A line of limited bandwidth holds what it carries in a
// quarter of a second, and in its latency.
const (
	maxInFlight = 1 << 20
	minInFlight = 64 << 10
)

func inFlight(k Knobs) int {
	if k.Bandwidth <= 0 {
		return maxInFlight
	}
	held := float64(k.Bandwidth) * (0.25 + k.Latency.Seconds())
	return int(min(max(held, minInFlight), maxInFlight))
}

var errCut = errors.New("connection was cut")

// shapedConn is a connection with the network's troubles: each direction is a queue of segments with the time when they
// arrive.
type shapedConn struct {
	net.Conn
	knobs    Knobs
	in, out  *wire
	onBytes  func(n int)
	deadline chan struct{}
	once     sync.Once
	work     sync.WaitGroup

	mu   sync.Mutex
	hang chan struct{} // closed when it does not hang
}

// shape starts the two directions. A connection without any trouble is passed through.
func shape(c net.Conn, k Knobs, onBytes func(n int)) *shapedConn {
	s := &shapedConn{Conn: c, knobs: k, onBytes: onBytes, deadline: make(chan struct{}), hang: make(chan struct{})}
	if !k.Hang {
		close(s.hang)
	}
	s.in, s.out = newWire(k), newWire(k)
	s.work.Go(s.receive)
	s.work.Go(s.send)
	return s
}

func (s *shapedConn) setHang(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.hang:
		if on {
			s.hang = make(chan struct{})
		}
	default:
		if !on {
			close(s.hang)
		}
	}
}

// flowing waits while the connection hangs; false when it has ended.
func (s *shapedConn) flowing() bool {
	s.mu.Lock()
	hang := s.hang
	s.mu.Unlock()
	select {
	case <-hang:
		return true
	case <-s.deadline:
		return false
	}
}

func (s *shapedConn) receive() {
	defer s.in.end(io.EOF)
	left := s.knobs.CutAfter
	buf := make([]byte, 64<<10)
	for s.flowing() {
		n, err := s.Conn.Read(buf)
		if !s.flowing() {
			return
		}
		cut := s.knobs.CutAfter > 0 && int64(n) >= left
		if cut {
			n = int(left)
		}
		left -= int64(n)
		s.onBytes(n)
		s.in.push(buf[:n])
		if cut {
			s.in.end(errCut)
			s.cut()
			return
		}
		if err != nil {
			return
		}
	}
}

func (s *shapedConn) send() {
	for {
		b, err := s.out.pop(nil)
		if err != nil || !s.flowing() {
			_ = s.Conn.Close()
			return
		}
		if err := s.write(b); err != nil {
			s.out.end(err)
			return
		}
	}
}

func (s *shapedConn) write(b []byte) error {
	if s.knobs.Drip == 0 {
		_, err := s.Conn.Write(b)
		return err
	}
	for i := range b {
		if !wait(s.knobs.Drip, s.deadline) {
			return errCut
		}
		if _, err := s.Conn.Write(b[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// Read implements net.Conn.
func (s *shapedConn) Read(p []byte) (int, error) {
	b, err := s.in.pop(p)
	return len(b), err
}

// Write implements net.Conn.
func (s *shapedConn) Write(p []byte) (int, error) {
	if !s.out.push(p) {
		return 0, net.ErrClosed
	}
	return len(p), nil
}

// Close sends what is still on the wire, and closes.
func (s *shapedConn) Close() error {
	s.out.end(io.EOF)
	s.in.end(net.ErrClosed)
	return nil
}

// cut ends the connection at once, with a reset.
func (s *shapedConn) cut() {
	s.once.Do(func() { close(s.deadline) })
	abort(s.Conn)
	s.out.end(errCut)
	s.in.end(errCut)
	s.out.drop()
}

// finish waits until both directions have ended; what is still to be sent has little time.
func (s *shapedConn) finish() {
	_ = s.Close()
	t := time.AfterFunc(time.Second, s.cut)
	defer t.Stop()
	s.work.Wait()
	s.once.Do(func() { close(s.deadline) })
	s.in.drop()
	s.out.drop()
}

// abort closes with a reset instead of an orderly end.
func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// wait is false when stop was closed first.
func wait(d time.Duration, stop <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-stop:
		return false
	}
}

type segment struct {
	data []byte
	due  time.Time
}

// wire is one direction.
type wire struct {
	latency time.Duration
	rate    int64
	limit   int
	stop    chan struct{}
	mu      sync.Mutex
	cond    *sync.Cond
	queue   []segment
	size    int
	free    time.Time // when the line is free for the next segment
	err     error
	dropped bool
}

func newWire(k Knobs) *wire {
	w := &wire{latency: k.Latency, rate: k.Bandwidth, limit: inFlight(k), stop: make(chan struct{})}
	w.cond = sync.NewCond(&w.mu)
	return w
}

// push queues a copy of p; it waits while too much is in flight and is false when the wire has ended.
func (w *wire) push(p []byte) bool {
	if len(p) == 0 {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.size > w.limit && w.err == nil {
		w.cond.Wait()
	}
	if w.err != nil {
		return false
	}
	now := time.Now()
	if w.free.Before(now) {
		w.free = now
	}
	if w.rate > 0 {
		w.free = w.free.Add(time.Duration(int64(len(p)) * int64(time.Second) / w.rate))
	}
	w.queue = append(w.queue, segment{data: append([]byte(nil), p...), due: w.free.Add(w.latency)})
	w.size += len(p)
	w.cond.Broadcast()
	return true
}

// pop takes what has arrived: into p as much as fits, or one whole segment when p is nil. After the end it answers with
// the end's error once the queue is empty.
func (w *wire) pop(p []byte) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.queue) == 0 && w.err == nil {
			w.cond.Wait()
		}
		if len(w.queue) == 0 {
			return nil, w.err
		}
		d := time.Until(w.queue[0].due)
		if d <= 0 {
			break
		}
		w.mu.Unlock()
		ok := wait(d, w.stop)
		w.mu.Lock()
		if !ok {
			return nil, w.err
		}
	}
	s := &w.queue[0]
	out := s.data
	if p != nil {
		out = p[:copy(p, s.data)]
		s.data = s.data[len(out):]
	} else {
		s.data = nil
	}
	w.size -= len(out)
	if len(s.data) == 0 {
		w.queue = w.queue[1:]
	}
	w.cond.Broadcast()
	return out, nil
}

// end lets nothing more in; what is queued still arrives.
func (w *wire) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.cond.Broadcast()
}

// drop loses what is queued.
func (w *wire) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.dropped {
		w.dropped = true
		close(w.stop)
	}
	w.queue, w.size = nil, 0
	if w.err == nil {
		w.err = errCut
	}
	w.cond.Broadcast()
}
