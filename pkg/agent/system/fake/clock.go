package fake

import (
	"context"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

// RealClock is the time of the Go runtime; inside testing/synctest that is the bubble's.
type RealClock struct{}

// Now implements system.Clock.
func (RealClock) Now() time.Time { return time.Now() }

// Sleep implements system.Clock.
func (RealClock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// machineClock is the machine's clock: it runs as the base does, and may be wrong.
type machineClock struct {
	base system.Clock
	skew time.Duration
}

func (c machineClock) now() time.Time { return c.base.Now().Add(c.skew) }

type processClock struct{ view }

// Now never fails, also not in a process that has ended.
func (c processClock) Now() time.Time {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return c.m.clock.now()
}

// Sleep ends with ErrKilled when the process ends.
func (c processClock) Sleep(ctx context.Context, d time.Duration) error {
	if c.p == nil {
		return c.m.opts.Clock.Sleep(ctx, d)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.p.ctx, func() { cancel(ErrKilled) })
	defer stop()
	if err := c.m.opts.Clock.Sleep(ctx, d); err != nil {
		return context.Cause(ctx)
	}
	return nil
}

// SetSkew changes how wrong the machine's clock is.
func (m *Machine) SetSkew(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock.skew = d
}

// until waits for cond, which is evaluated with m.mu held, now and at each change of a service or process. It gives up
// after d of the machine's time or when the machine goes off; m.mu is held when it is called and when it returns.
func (m *Machine) until(d time.Duration, cond func() bool) bool {
	ctx, cancel := context.WithCancel(m.bootCtx)
	defer cancel()
	timeout := make(chan struct{})
	if !m.closed {
		m.work.Go(func() {
			_ = m.opts.Clock.Sleep(ctx, d)
			close(timeout)
		})
	}
	for !cond() {
		changed := m.changed
		m.mu.Unlock()
		ended := false
		select {
		case <-changed:
		case <-timeout:
			ended = true
		case <-ctx.Done():
			ended = true
		}
		m.mu.Lock()
		if ended {
			return cond()
		}
	}
	return true
}
