package fake

import (
	"context"
	"errors"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

// controlsBuffer is how many control codes may wait for a service that is busy.
const controlsBuffer = 16

// Start answers as StartService does: 1060, 1072, 1056 ERROR_SERVICE_ALREADY_RUNNING also while it starts or stops, 2 and
// 193 for the program's file, 1075 ERROR_SERVICE_DEPENDENCY_DELETED for a dependency that does not exist, 1068
// ERROR_SERVICE_DEPENDENCY_FAIL for one that does not come up. Dependencies are started first. It returns once the process has
// connected, with the service StartPending or Running; 1053 ERROR_SERVICE_REQUEST_TIMEOUT when it has not within 30 s
// (the service manager then ends the process) or has ended before.
func (v services) Start(name string) error {
	if err := v.lockAdmin("start service", name); err != nil {
		return err
	}
	result := make(chan error, 1)
	v.m.goWork(func() { // the service manager goes on when its caller is killed
		v.m.mu.Lock()
		defer v.m.mu.Unlock()
		result <- v.m.startService(name)
	})
	closed := v.m.closed
	v.unlock()
	if closed {
		return ErrPoweredOff
	}
	select {
	case err := <-result:
		return err
	case <-v.done():
		return ErrKilled
	}
}

// startService is called with m.mu held, and lets go of it while it waits.
func (m *Machine) startService(name string) error {
	s, err := m.getService("start service", name)
	switch {
	case err != nil:
		return err
	case m.power != powerUp:
		return refuse("start service", name, codeShuttingDown, ErrPoweredOff)
	case s.marked:
		return refuse("start service", name, codeServiceMarked, system.ErrServiceMarked)
	case s.state != system.ServiceStopped:
		return refuse("start service", name, codeServiceRunning, system.ErrServiceRunning)
	}
	s.state = system.ServiceStartPending
	m.broadcast()
	for _, d := range s.cfg.DependsOn {
		if err := m.startDependency(name, d); err != nil {
			m.fail(s, err)
			return err
		}
	}
	return m.runService(s)
}

// startDependency makes sure that a dependency runs.
func (m *Machine) startDependency(name, dependency string) error {
	d := m.services[fold(dependency)]
	if d == nil {
		return refuse("start service", name, codeDependencyDeleted, system.ErrServiceDependency)
	}
	if d.state == system.ServiceStopped {
		if err := m.startService(d.cfg.Name); err != nil {
			m.opts.Logf("service %s: dependency %s did not start: %v", name, dependency, err)
			return refuse("start service", name, codeDependencyFail, system.ErrServiceDependency)
		}
	}
	m.until(m.opts.Timing.StartTimeout, func() bool { return d.state == system.ServiceRunning || d.state == system.ServiceStopped })
	if d.state != system.ServiceRunning {
		return refuse("start service", name, codeDependencyFail, system.ErrServiceDependency)
	}
	return nil
}

func (m *Machine) runService(s *service) error {
	name := s.cfg.Name
	inst := &instance{m: m, svc: s, stopping: make(chan struct{}), controls: make(chan uint32, controlsBuffer)}
	p, err := m.launch(start{exe: s.cfg.Exe, args: s.cfg.Args, service: inst})
	if err != nil {
		m.fail(s, err)
		return err
	}
	inst.main, s.inst, s.pid = p, inst, p.pid
	m.broadcast()
	m.until(m.opts.Timing.StartTimeout, func() bool { return inst.connected || p.ended })
	if inst.connected {
		return nil
	}
	p.endLocked(killedExit, true)
	return refuse("start service", name, codeServiceTimeout, system.ErrServiceTimeout)
}

// fail puts a service that could not be started back to Stopped.
func (m *Machine) fail(s *service, err error) {
	s.state, s.pid = system.ServiceStopped, 0
	var e *Error
	if errors.As(err, &e) {
		s.exit = e.Code
	}
	m.sweep(s)
	m.broadcast()
}

// serviceProcessEnded is the service manager's notice that a service's process is gone; m.mu is held. A service that
// ends without having been asked to is reported with 1067 ERROR_PROCESS_ABORTED and recovered as its failure actions say
// (SERVICE_FAILURE_ACTIONS); one that never connected is a failed start with 1053 and is not.
func (m *Machine) serviceProcessEnded(i *instance, exit int, killed bool) {
	s := i.svc
	if s.inst != i {
		return
	}
	ran := s.state == system.ServiceRunning || s.state == system.ServiceStopPending
	s.state, s.pid, s.inst = system.ServiceStopped, 0, nil
	switch {
	case i.stopped && exit == 0:
		s.exit = 0
	case i.stopped && !killed:
		s.exit = codeServiceSpecific
	case !i.connected:
		s.exit = codeServiceTimeout
	default:
		s.exit = codeProcessAborted
		m.recover(s, ran)
	}
	m.opts.Logf("service %s ended: exit %d, reported as %d", s.cfg.Name, exit, s.exit)
	m.sweep(s)
}

// recover plans the restart that the service's failure actions ask for.
func (m *Machine) recover(s *service, ran bool) {
	r := s.cfg.Recovery
	if r == nil || len(r.RestartDelaySeconds) == 0 || m.power != powerUp {
		return
	}
	delay := s.nextDelay(ran, m.clock.now())
	ctx := m.bootCtx
	m.goWork(func() {
		if m.opts.Clock.Sleep(ctx, delay) != nil {
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.startAgain(ctx, s)
	})
}

// startAgain starts a service that is still there and stopped, unless the boot is over; m.mu is held.
func (m *Machine) startAgain(ctx context.Context, s *service) {
	if ctx.Err() != nil || m.services[fold(s.cfg.Name)] != s || s.state != system.ServiceStopped {
		return
	}
	if err := m.startService(s.cfg.Name); err != nil {
		m.opts.Logf("service %s was not started: %v", s.cfg.Name, err)
	}
}

// nextDelay counts a failure and answers the delay before the restart; the last one repeats.
func (s *service) nextDelay(ran bool, now time.Time) time.Duration {
	r := s.cfg.Recovery
	if reset := time.Duration(r.ResetSeconds) * time.Second; ran && reset > 0 && now.Sub(s.ran) >= reset {
		s.failures = 0
	}
	delay := r.RestartDelaySeconds[min(s.failures, len(r.RestartDelaySeconds)-1)]
	s.failures++
	return time.Duration(delay) * time.Second
}

// autoStart starts every service in the order of dependencies; m.mu is held.
func (m *Machine) autoStart() {
	ctx := m.bootCtx
	for _, name := range m.startOrder() {
		s := m.services[name]
		if _, _, err := m.resolve(s.cfg.Exe); err != nil {
			s.exit = codeFileNotFound
			continue
		}
		m.goWork(func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.startAgain(ctx, s)
		})
	}
}
