package host

import (
	"context"
	"sync"
	"time"

	"github.com/windowsmachine/operator/pkg/transport"
)

// turnLimit is how long a session has its turn at most: a machine that answers and then stalls costs the others one place for so long.
const turnLimit = 3 * time.Second

// asks says whether a verb is a part of asking a machine what there is to do. The others take as long as they take, and many of them at once are
// what the operator is for.
func asks(v Verb) bool { return v == VerbConnect || v == VerbFacts }

// takeTurn waits for a place among the sessions that ask. After a start all machines are to be asked: a connection with its buffers lives from the
// login until the pass that has read the answer lets it rest, so it is that whole time that is bounded, not the login alone.
func (s *Session) takeTurn(ctx context.Context) error {
	select {
	case s.pool.asking <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	give := sync.OnceFunc(func() { <-s.pool.asking })
	late := time.AfterFunc(turnLimit, give)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveTurn()
	s.endTurn = func() {
		late.Stop()
		give()
	}
	return nil
}

// connectFor connects for a verb, which keeps its turn only if it asks.
func (s *Session) connectFor(ctx context.Context, v Verb, t transport.Target) (transport.Conn, error) {
	c, err := s.connect(ctx, t)
	if err != nil || !asks(v) {
		s.yieldTurn()
	}
	return c, err
}

// yieldTurn ends the session's turn, if it has one.
func (s *Session) yieldTurn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveTurn()
}

// leaveTurn is yieldTurn with mu held.
func (s *Session) leaveTurn() {
	if s.endTurn != nil {
		s.endTurn()
		s.endTurn = nil
	}
}
