package fake

import (
	"slices"
	"strings"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

// service is one entry of the service manager's database. It is guarded by its machine.
type service struct {
	cfg   system.ServiceConfig
	state system.ServiceState
	pid   uint32
	exit  uint32
	// marked: deletion was asked for; the service goes when it has stopped and holds is 0.
	marked bool
	holds  int
	inst   *instance
	// failures counts ends without being asked to, since the service last ran for the reset period.
	failures int
	ran      time.Time
}

// instance is one run of a service.
type instance struct {
	m    *Machine
	svc  *service
	main *Process
	// connected: the process has called StartServiceCtrlDispatcher.
	connected bool
	// stopped: a stop or shutdown control was sent.
	stopped  bool
	stopping chan struct{}
	controls chan uint32
}

// Service is a process's line to the service manager.
type Service struct{ inst *instance }

// Service returns the process's line to the service manager; ok is false when it was not started as a service.
func (p *Process) Service() (s Service, ok bool) { return Service{p.service}, p.service != nil }

// Connect is StartServiceCtrlDispatcher: the service manager learns that the process is alive; the service stays
// StartPending.
func (s Service) Connect() { s.inst.report(system.ServiceStartPending) }

// Running reports SERVICE_RUNNING, and connects if need be.
func (s Service) Running() { s.inst.report(system.ServiceRunning) }

// Stopping is closed when the service is asked to stop; the process should then return.
func (s Service) Stopping() <-chan struct{} { return s.inst.stopping }

// Controls carries user-defined control codes, 128 to 255.
func (s Service) Controls() <-chan uint32 { return s.inst.controls }

func (i *instance) report(state system.ServiceState) {
	i.m.mu.Lock()
	defer i.m.mu.Unlock()
	if i.svc.inst != i {
		return
	}
	i.connected = true
	if state == system.ServiceRunning && i.svc.state == system.ServiceStartPending {
		i.svc.state, i.svc.ran = state, i.m.clock.now()
	}
	i.m.broadcast()
}

type services struct{ view }

// get finds a service: 1060 ERROR_SERVICE_DOES_NOT_EXIST.
func (m *Machine) getService(op, name string) (*service, error) {
	if s := m.services[fold(name)]; s != nil {
		return s, nil
	}
	return nil, refuse(op, name, codeNoService, system.ErrServiceNotFound)
}

func (v services) Config(name string) (system.ServiceConfig, error) {
	if err := v.lock(); err != nil {
		return system.ServiceConfig{}, err
	}
	defer v.unlock()
	s, err := v.m.getService("query", name)
	if err != nil {
		return system.ServiceConfig{}, err
	}
	return copyConfig(s.cfg), nil
}

func (v services) Status(name string) (system.ServiceStatus, error) {
	if err := v.lock(); err != nil {
		return system.ServiceStatus{}, err
	}
	defer v.unlock()
	s, err := v.m.getService("query", name)
	if err != nil {
		return system.ServiceStatus{}, err
	}
	return system.ServiceStatus{State: s.state, PID: s.pid, ExitCode: s.exit}, nil
}

// Create answers as CreateService does: 1072 ERROR_SERVICE_MARKED_FOR_DELETE while the old one of that name is being
// deleted, 1073 ERROR_SERVICE_EXISTS, 1059 ERROR_CIRCULAR_DEPENDENCY. A dependency that does not exist is accepted.
func (v services) Create(cfg system.ServiceConfig) error {
	if err := v.lockAdmin("create service", cfg.Name); err != nil {
		return err
	}
	defer v.unlock()
	if err := v.m.checkConfig("create service", cfg); err != nil {
		return err
	}
	if old := v.m.services[fold(cfg.Name)]; old != nil {
		if old.marked {
			return refuse("create service", cfg.Name, codeServiceMarked, system.ErrServiceMarked)
		}
		return refuse("create service", cfg.Name, codeServiceExists, system.ErrExist)
	}
	v.m.services[fold(cfg.Name)] = &service{cfg: copyConfig(cfg), state: system.ServiceStopped}
	v.m.broadcast()
	return nil
}

// Update answers as ChangeServiceConfig does; a running process keeps what it was started with.
func (v services) Update(cfg system.ServiceConfig) error {
	if err := v.lockAdmin("change service", cfg.Name); err != nil {
		return err
	}
	defer v.unlock()
	s, err := v.m.getService("change service", cfg.Name)
	if err != nil {
		return err
	}
	if s.marked {
		return refuse("change service", cfg.Name, codeServiceMarked, system.ErrServiceMarked)
	}
	if err := v.m.checkConfig("change service", cfg); err != nil {
		return err
	}
	s.cfg = copyConfig(cfg)
	return nil
}

// checkConfig refuses what the service manager refuses: names over 256 characters or with slashes (123 ERROR_INVALID_NAME)
// and circles of dependencies.
func (m *Machine) checkConfig(op string, cfg system.ServiceConfig) error {
	if cfg.Name == "" || len(cfg.Name) > 256 || strings.ContainsAny(cfg.Name, `/\`) {
		return refuse(op, cfg.Name, codeInvalidName, nil)
	}
	if cfg.Exe == "" {
		return refuse(op, cfg.Name, codeInvalidParameter, nil)
	}
	seen := map[string]bool{}
	var reaches func(deps []string) bool
	reaches = func(deps []string) bool {
		for _, d := range deps {
			if fold(d) == fold(cfg.Name) {
				return true
			}
			if next := m.services[fold(d)]; next != nil && !seen[fold(d)] {
				seen[fold(d)] = true
				if reaches(next.cfg.DependsOn) {
					return true
				}
			}
		}
		return false
	}
	if reaches(cfg.DependsOn) {
		return refuse(op, cfg.Name, codeCircularDependency, nil)
	}
	return nil
}

// Delete marks the service as DeleteService does; it goes when it is stopped and nobody holds a handle of it.
func (v services) Delete(name string) error {
	if err := v.lockAdmin("delete service", name); err != nil {
		return err
	}
	defer v.unlock()
	s, err := v.m.getService("delete service", name)
	if err != nil {
		return err
	}
	if s.marked {
		return refuse("delete service", name, codeServiceMarked, system.ErrServiceMarked)
	}
	s.marked = true
	v.m.sweep(s)
	return nil
}

// sweep deletes a marked service that nothing holds any more.
func (m *Machine) sweep(s *service) {
	if s.marked && s.state == system.ServiceStopped && s.holds == 0 {
		delete(m.services, fold(s.cfg.Name))
		m.broadcast()
	}
}

// HoldService opens a handle of the service, as services.msc or Process Explorer do: a deletion waits until it is closed.
func (m *Machine) HoldService(name string) (release func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.getService("open service", name)
	if err != nil {
		return nil, err
	}
	s.holds++
	done := false
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !done {
			done = true
			s.holds--
			m.sweep(s)
		}
	}, nil
}

// Stop sends the stop control: 1062 ERROR_SERVICE_NOT_ACTIVE, 1061 ERROR_SERVICE_CANNOT_ACCEPT_CTRL while it starts or stops,
// 1051 ERROR_DEPENDENT_SERVICES_RUNNING (ControlService).
func (v services) Stop(name string) error {
	if err := v.lockAdmin("stop service", name); err != nil {
		return err
	}
	defer v.unlock()
	s, err := v.m.getService("stop service", name)
	switch {
	case err != nil:
		return err
	case s.state == system.ServiceStopped:
		return refuse("stop service", name, codeServiceNotActive, system.ErrServiceNotActive)
	case s.state != system.ServiceRunning:
		return refuse("stop service", name, codeCannotAcceptCtrl, nil)
	case len(v.m.dependents(s)) > 0:
		return refuse("stop service", name, codeDependentsRunning, system.ErrDependentsRunning)
	}
	s.inst.askToStop()
	return nil
}

// askToStop sends the stop or shutdown control; m.mu is held.
func (i *instance) askToStop() {
	if i.stopped {
		return
	}
	i.stopped = true
	close(i.stopping)
	if i.svc.inst == i {
		i.svc.state = system.ServiceStopPending
	}
	i.m.broadcast()
}

// Control delivers a user-defined code: 87 ERROR_INVALID_PARAMETER for others, 1062 for a service that does not run, 1053
// ERROR_SERVICE_REQUEST_TIMEOUT when the service has stopped reading its controls.
func (v services) Control(name string, code uint32) error {
	if err := v.lockAdmin("control service", name); err != nil {
		return err
	}
	defer v.unlock()
	s, err := v.m.getService("control service", name)
	switch {
	case err != nil:
		return err
	case code < 128 || code > 255:
		return refuse("control service", name, codeInvalidParameter, nil)
	case s.state == system.ServiceStopped:
		return refuse("control service", name, codeServiceNotActive, system.ErrServiceNotActive)
	case s.state != system.ServiceRunning:
		return refuse("control service", name, codeCannotAcceptCtrl, nil)
	}
	select {
	case s.inst.controls <- code:
		return nil
	default:
		return refuse("control service", name, codeServiceTimeout, system.ErrServiceTimeout)
	}
}

// Dependents lists in the reverse order of starting, as EnumDependentServices does.
func (v services) Dependents(name string) ([]string, error) {
	if err := v.lock(); err != nil {
		return nil, err
	}
	defer v.unlock()
	s, err := v.m.getService("query", name)
	if err != nil {
		return nil, err
	}
	return v.m.dependents(s), nil
}

// dependents are the services that are not stopped and depend on s, directly or not; those that depend on others
// of them come first.
func (m *Machine) dependents(s *service) []string {
	var out []string
	for _, name := range m.startOrder() {
		other := m.services[name]
		if other != s && other.state != system.ServiceStopped && m.dependsOn(other, s, map[*service]bool{}) {
			out = append(out, other.cfg.Name)
		}
	}
	slices.Reverse(out)
	return out
}

func (m *Machine) dependsOn(s, on *service, seen map[*service]bool) bool {
	seen[s] = true
	for _, d := range s.cfg.DependsOn {
		next := m.services[fold(d)]
		if next == on || next != nil && !seen[next] && m.dependsOn(next, on, seen) {
			return true
		}
	}
	return false
}

// startOrder is every service's folded name, dependencies first, otherwise by name.
func (m *Machine) startOrder() []string {
	var out []string
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		s := m.services[name]
		if s == nil || seen[name] {
			return
		}
		seen[name] = true
		for _, d := range s.cfg.DependsOn {
			visit(fold(d))
		}
		out = append(out, name)
	}
	names := make([]string, 0, len(m.services))
	for name := range m.services {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		visit(name)
	}
	return out
}

func copyConfig(c system.ServiceConfig) system.ServiceConfig {
	c.Args, c.DependsOn, c.Env = slices.Clone(c.Args), slices.Clone(c.DependsOn), slices.Clone(c.Env)
	if c.Recovery != nil {
		r := *c.Recovery
		r.RestartDelaySeconds = slices.Clone(r.RestartDelaySeconds)
		c.Recovery = &r
	}
	return c
}
