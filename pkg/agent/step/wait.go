package step

import (
	"context"
	"fmt"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

// Manager waits for what the service manager and the network do on their own.
type Manager struct {
	sys    system.System
	timing Timing
}

// NewManager returns a Manager; zero fields of t get their defaults.
func NewManager(sys system.System, t Timing) Manager {
	return Manager{sys: sys, timing: t.withDefaults()}
}

// wait asks done until it says true, with the poll pause between, and returns late when limit has passed.
func (m Manager) wait(ctx context.Context, limit time.Duration, late error, done func() (bool, error)) error {
	end := m.sys.Clock.Now().Add(limit)
	for {
		ok, err := done()
		if err != nil || ok {
			return err
		}
		if !m.sys.Clock.Now().Before(end) {
			return fmt.Errorf("waited %s: %w", limit, late)
		}
		if err := m.sys.Clock.Sleep(ctx, m.timing.Poll); err != nil {
			return err
		}
	}
}
