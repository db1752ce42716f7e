package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/transport"
)

// errStopped ends a verb when its session is disconnected, forgotten or closed.
var errStopped = fmt.Errorf("%w: ended by the operator", transport.ErrDisconnected)

// Session is the operator's relation to one machine: at most one connection and one verb at a time. It is safe for concurrent use.
type Session struct {
	key  string
	pool *Pool
	// wg counts the goroutines of verbs and connections.
	wg sync.WaitGroup

	mu     sync.Mutex
	closed bool
	// cancel ends the verb under way, nil when idle.
	cancel context.CancelCauseFunc
	idle   *time.Timer
	// endTurn gives the session's place among those that ask back; nil when it has none.
	endTurn func()
	conn    transport.Conn
	// target identifies what conn is connected to, asked what the newest verb was to connect to.
	target, asked targetID
	// running is the agent's console over conn, nil before the first command.
	running *console
	// agentPut is whether the agent was seen to be in its place over conn.
	agentPut bool
	// replaced is whether the agent's file was replaced since the last verb that went well.
	replaced   bool
	snap       Snapshot
	progressAt time.Time
	// toSend is what the machine lacked when it was asked for the last time, in compressed bytes.
	toSend int64
}

// Args are the arguments of a verb; each verb reads those that it needs.
type Args struct {
	// Target is where to connect; all verbs.
	Target transport.Target
	// Opening is for VerbOpen.
	Opening transport.Opening
	// FactsRequest is for VerbFacts.
	FactsRequest plan.FactsRequest
	// Blobs are the digests for VerbStage.
	Blobs []string
	// Claim is for VerbStage and VerbRemove; an Envelope has its own.
	Claim plan.Claim
	// Envelope is for VerbApply. Its secrets are sent and not kept.
	Envelope plan.Envelope
}

// String names the target only: Args hold secrets.
func (a Args) String() string { return a.Target.String() }

// GoString is String, so that no format verb prints secrets.
func (a Args) GoString() string { return a.String() }

// Start begins a verb and returns at once; false when one is under way or the session has ended. A live connection to the same
// address, port, user and keys is used again, whatever its Verify said: when trust has changed, Disconnect first.
func (s *Session) Start(v Verb, a Args) bool {
	s.pool.wake(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.cancel != nil {
		return false
	}
	s.stopIdle()
	ctx, cancel := context.WithCancelCause(context.Background())
	s.cancel, s.snap.Busy = cancel, v
	if v == VerbApply {
		s.snap.Trail = nil
	}
	if id := a.id(); id != s.asked {
		s.asked = id
		s.forgive()
	}
	s.wg.Go(func() {
		defer cancel(nil)
		s.finish(v, s.do(ctx, v, a))
	})
	return true
}

// forgive starts the counts of failures anew; mu is held.
func (s *Session) forgive() {
	for v, o := range s.snap.Last {
		o.Failures = 0
		s.snap.Last[v] = o
	}
}

// Snapshot returns what is known now. What its pointers point to is never changed.
func (s *Session) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.snap
	out.Last, out.Trail = maps.Clone(s.snap.Last), slices.Clone(s.snap.Trail)
	if s.conn != nil {
		out.Stats = s.conn.Stats()
	}
	return out
}

// Rest says that there is nothing to do for this machine. Its connection is kept for a while all the same, unless too many rest.
func (s *Session) Rest() {
	s.mu.Lock()
	idle := s.idle != nil
	s.leaveTurn()
	s.mu.Unlock()
	if idle {
		s.pool.rest(s)
	}
}

// Disconnect cancels the verb under way and closes the connection, without waiting.
func (s *Session) Disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel(errStopped)
	}
	if c := s.detach(); c != nil {
		s.wg.Go(func() { _ = c.Close() })
	}
}

// close ends the session and waits for its goroutines.
func (s *Session) close() {
	s.mu.Lock()
	s.closed = true
	s.stopIdle()
	if s.cancel != nil {
		s.cancel(errStopped)
	}
	c := s.detach()
	s.mu.Unlock()
	s.pool.wake(s)
	if c != nil {
		_ = c.Close()
	}
	s.wg.Wait()
}

// do carries a verb out within its deadline.
func (s *Session) do(ctx context.Context, v Verb, a Args) error {
	if v == VerbStage {
		// Waiting for a place does not count.
		select {
		case s.pool.stagings <- struct{}{}:
			defer func() { <-s.pool.stagings }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	limit := s.pool.cfg.Deadlines.of(v)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: %s did not end within %s", transport.ErrUnreachable, v, limit))
	defer cancel()
	c, err := s.perform(ctx, v, a)
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx)
	}
	if c != nil && (ctx.Err() != nil || errors.Is(err, transport.ErrDisconnected)) {
		s.drop(c)
	}
	return err
}

// perform carries a verb out, over the session's connection if it takes one.
func (s *Session) perform(ctx context.Context, v Verb, a Args) (transport.Conn, error) {
	if v == VerbOpen {
		return nil, s.open(ctx, a.Opening)
	}
	c, err := s.connectFor(ctx, v, a.Target)
	if err == nil {
		err = s.verb(ctx, c, v, a)
	}
	return c, err
}

func (s *Session) verb(ctx context.Context, c transport.Conn, v Verb, a Args) error {
	switch v {
	case VerbConnect:
		return nil
	case VerbFacts:
		return s.facts(ctx, c, a.FactsRequest)
	case VerbStage:
		return s.stage(ctx, c, a.Claim, a.Blobs)
	case VerbApply:
		return s.apply(ctx, c, a.Envelope)
	case VerbFollow:
		return s.follow(ctx, c)
	case VerbRemove:
		return s.remove(ctx, c, a.Claim)
	case VerbReboot:
		return s.reboot(ctx, c)
	}
	return fmt.Errorf("unknown verb %q", v)
}

// finish notes the outcome of a verb.
func (s *Session) finish(v Verb, err error) {
	now := s.pool.cfg.Now()
	s.mu.Lock()
	if s.snap.Last == nil {
		s.snap.Last = map[Verb]Outcome{}
	}
	o := Outcome{Verb: v, Err: err, At: now}
	if err != nil {
		o.Failures = s.snap.Last[v].Failures + 1
	} else if v != VerbConnect {
		s.replaced = false
	}
	s.snap.Last[v] = o
	if err == nil && (v == VerbReboot || v == VerbRemove) {
		// What the machine said before no longer holds.
		s.snap.Facts, s.snap.Report, s.snap.Trail = nil, nil, nil
	}
	s.snap.Busy, s.cancel = "", nil
	if s.conn != nil && !s.closed {
		s.idle = time.AfterFunc(s.pool.cfg.IdleTimeout, s.expire)
	}
	s.mu.Unlock()
	s.notify()
}

// stopIdle stops the idle timer; mu is held.
func (s *Session) stopIdle() {
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
}

// expire closes a connection that nobody has used for a while.
func (s *Session) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A verb may have begun since the timer fired; then idle is nil.
	if s.closed || s.cancel != nil || s.idle == nil {
		return
	}
	s.idle = nil
	if c := s.detach(); c != nil {
		s.wg.Go(func() { _ = c.Close() })
	}
}

// update changes the snapshot and tells about it.
func (s *Session) update(change func(*Snapshot)) {
	s.mu.Lock()
	change(&s.snap)
	s.mu.Unlock()
	s.notify()
}

func (s *Session) notify() { s.pool.cfg.Notify(s.key) }
