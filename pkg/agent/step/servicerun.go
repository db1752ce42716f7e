package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
)

// StopOrder returns name behind all that depends on it, each service behind those that depend on it. dependents names the running
// services that depend on one; a cycle ends where it closes.
func StopOrder(name string, dependents func(string) ([]string, error)) ([]string, error) {
	var out []string
	seen := map[string]bool{}
	var visit func(string) error
	visit = func(n string) error {
		if seen[strings.ToLower(n)] {
			return nil
		}
		seen[strings.ToLower(n)] = true
		above, err := dependents(n)
		if err != nil {
			return fmt.Errorf("asking what depends on %s: %w", n, err)
		}
		for _, d := range above {
			if err := visit(d); err != nil {
				return err
			}
		}
		out = append(out, n)
		return nil
	}
	return out, visit(name)
}

// stopTree stops a service with all that depends on it. What is not the agent's is recorded first, to be started again.
func (b *bench) stopTree(ctx context.Context, name string) error {
	order, err := StopOrder(name, b.sys.Services.Dependents)
	if err != nil {
		return err
	}
	if err := b.oweRestart(name, order); err != nil {
		return err
	}
	for _, n := range order {
		if err := b.Stop(ctx, n); err != nil {
			return fmt.Errorf("stopping %s: %w", n, err)
		}
	}
	return nil
}

// oweRestart records the services of order that no step will start again.
func (b *bench) oweRestart(name string, order []string) error {
	o, ok := b.ledger.Find(newID(KindService, name))
	if !ok {
		return nil
	}
	known := len(o.Restart)
	for _, n := range order {
		_, owned := b.ledger.Find(newID(KindService, n))
		if !owned && !slices.Contains(o.Restart, n) {
			o.Restart = append(slices.Clip(o.Restart), n)
		}
	}
	if len(o.Restart) == known {
		return nil
	}
	return b.ledger.Record(o)
}

// Stop stops one service and waits until it has; one that does not exist has stopped. A service in transition takes no request (1061), so it is left to settle first.
func (m Manager) Stop(ctx context.Context, name string) error {
	return m.wait(ctx, m.timing.ServiceStop, ErrServiceStop, func() (bool, error) {
		st, err := m.sys.Services.Status(name)
		if absent(err) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		switch st.State {
		case system.ServiceStopped:
			return true, nil
		case system.ServiceRunning, system.ServicePaused:
			err := m.sys.Services.Stop(name)
			if errors.Is(err, system.ErrServiceNotActive) || absent(err) {
				return true, nil
			}
			return false, err
		default:
			return false, nil
		}
	})
}

// Start starts one service and waits until it runs.
func (m Manager) Start(ctx context.Context, name string) error {
	requested := false
	return m.wait(ctx, m.timing.ServiceStart, ErrServiceStart, func() (bool, error) {
		st, err := m.sys.Services.Status(name)
		if err != nil {
			return false, err
		}
		switch {
		case st.State == system.ServiceRunning:
			return true, nil
		case st.State != system.ServiceStopped:
			return false, nil
		case requested:
			return false, fmt.Errorf("exit code %d: %w", st.ExitCode, ErrServiceExited)
		}
		requested = true
		if err := m.sys.Services.Start(name); err != nil && !errors.Is(err, system.ErrServiceRunning) {
			return false, err
		}
		st, err = m.sys.Services.Status(name)
		return err == nil && st.State == system.ServiceRunning, err
	})
}

// Create makes a service, or gives one that is there meanwhile the configuration. One of that name that is marked for deletion (1072) goes
// when its last handle is closed, which an open management console can put off for ever, so the wait is bounded.
func (m Manager) Create(ctx context.Context, c system.ServiceConfig) error {
	return m.wait(ctx, m.timing.ServiceMarked, system.ErrServiceMarked, func() (bool, error) {
		err := m.sys.Services.Create(c)
		switch {
		case errors.Is(err, system.ErrServiceMarked):
			return false, nil
		case errors.Is(err, system.ErrExist):
			return true, m.sys.Services.Update(c)
		}
		return err == nil, err
	})
}

// Delete deletes a stopped service and waits until it is gone. A service that others hold open stays marked for deletion (1072).
func (m Manager) Delete(ctx context.Context, name string) error {
	if err := m.sys.Services.Delete(name); err != nil && !absent(err) {
		return err
	}
	return m.waitGone(ctx, name)
}

// waitGone waits until a service that is being deleted no longer exists.
func (m Manager) waitGone(ctx context.Context, name string) error {
	return m.wait(ctx, m.timing.ServiceMarked, system.ErrServiceMarked, func() (bool, error) {
		_, err := m.sys.Services.Config(name)
		switch {
		case errors.Is(err, system.ErrServiceNotFound):
			return true, nil
		case errors.Is(err, system.ErrServiceMarked):
			return false, nil
		}
		return false, err
	})
}

// stopUsers stops the services of the agent that run a file, which Windows keeps from being replaced meanwhile, or that were started with a
// secret: a kubelet reads its bootstrap credential when it starts and goes on asking with it for five minutes, whatever has become of the file
// (kubernetes/pkg/kubelet/certificate/transport.go). Their own steps start them again.
func (b *bench) stopUsers(ctx context.Context, kind Kind, path string) error {
	for _, o := range b.ledger.Inventory().Of(KindService) {
		if !runs(o, path) && (kind != KindSecret || !mentions(o.Args, path)) {
			continue
		}
		if err := b.stopTree(ctx, o.Name); err != nil {
			return err
		}
	}
	return nil
}

// runs reports whether a service runs the file, itself or through a program that its arguments name it to.
func runs(o Owned, path string) bool {
	return disk.Same(o.Exe, path) || strings.HasSuffix(disk.Key(path), ".exe") && mentions(o.Args, path)
}
