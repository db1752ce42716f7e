package windows

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/cmdline"
	"github.com/windowsmachine/operator/pkg/plan"
)

// servicesKey holds a key for each service ("HKLM\SYSTEM\CurrentControlSet\Services Registry Tree").
const servicesKey = `SYSTEM\CurrentControlSet\Services\`

// services is the service control manager. Handles are opened for one call with the rights that it needs, and closed: a handle that
// stays open would keep a deleted service in the state 1072.
type services struct{}

// with calls f with an open service.
func (services) with(op, name string, access uint32, f func(*mgr.Service) error) error {
	if err := checkServiceName(name); err != nil {
		return err
	}
	manager, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT)
	if err != nil {
		return failed("connect to the service manager", "", err)
	}
	defer func() { _ = windows.CloseServiceHandle(manager) }()
	utf16Name, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return failed(op, name, err)
	}
	handle, err := windows.OpenService(manager, utf16Name, access)
	if err != nil {
		return failed(op, name, err)
	}
	service := &mgr.Service{Name: name, Handle: handle}
	defer func() { _ = service.Close() }()
	return failed(op, name, f(service))
}

func (s services) Config(name string) (system.ServiceConfig, error) {
	var out system.ServiceConfig
	err := s.with("read service", name, windows.SERVICE_QUERY_CONFIG, func(service *mgr.Service) error {
		c, err := service.Config()
		if err != nil {
			return err
		}
		out = system.ServiceConfig{Name: name, DisplayName: c.DisplayName, Description: c.Description, DependsOn: c.Dependencies}
		out.Exe, out.Args = cmdline.Split(c.BinaryPathName)
		out.Altered = c.StartType != mgr.StartAutomatic || c.DelayedAutoStart || c.ServiceStartName != localSystem
		if out.Env, err = serviceEnvironment(name); err != nil {
			return err
		}
		return recovery(service, &out)
	})
	return out, err
}

func recovery(service *mgr.Service, out *system.ServiceConfig) error {
	list, err := service.RecoveryActions()
	if err != nil {
		return err
	}
	reset, err := service.ResetPeriod()
	if err != nil {
		return err
	}
	actions := make([]recoveryAction, 0, len(list))
	for _, a := range list {
		actions = append(actions, recoveryAction{kind: a.Type, delay: a.Delay})
	}
	out.Recovery = recoveryFrom(actions, reset)
	return nil
}

func (s services) Status(name string) (system.ServiceStatus, error) {
	var out system.ServiceStatus
	err := s.with("query service", name, windows.SERVICE_QUERY_STATUS, func(service *mgr.Service) error {
		status, err := service.Query()
		out = system.ServiceStatus{State: system.ServiceState(status.State), PID: status.ProcessId}
		if out.State == system.ServiceStopped {
			out.ExitCode = exitCode(status.Win32ExitCode, status.ServiceSpecificExitCode)
		}
		return err
	})
	return out, err
}

// Create makes the service whole or not at all: what cannot be finished is taken away again.
func (s services) Create(c system.ServiceConfig) error {
	line, err := commandLine(c)
	if err != nil {
		return err
	}
	manager, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT|windows.SC_MANAGER_CREATE_SERVICE)
	if err != nil {
		return failed("connect to the service manager", "", err)
	}
	defer func() { _ = windows.CloseServiceHandle(manager) }()
	t, err := textsOf(c, line)
	if err != nil {
		return failed("create service", c.Name, err)
	}
	handle, err := windows.CreateService(manager, t.name, t.display, windows.SERVICE_ALL_ACCESS, windows.SERVICE_WIN32_OWN_PROCESS,
		windows.SERVICE_AUTO_START, windows.SERVICE_ERROR_NORMAL, t.line, nil, nil, &multiString(c.DependsOn)[0], nil, nil)
	if err != nil {
		return failed("create service", c.Name, err)
	}
	service := &mgr.Service{Name: c.Name, Handle: handle}
	defer func() { _ = service.Close() }()
	if err := s.rest(service, c, t, mgr.Config{}); err != nil {
		return errors.Join(failed("create service", c.Name, err), failed("undo service", c.Name, service.Delete()))
	}
	return nil
}

// Update rewrites everything, also start type and account. ChangeServiceConfigW takes a null pointer for "as it is", so that an
// empty list of dependencies must be passed as such.
func (s services) Update(c system.ServiceConfig) error {
	line, err := commandLine(c)
	if err != nil {
		return err
	}
	t, err := textsOf(c, line)
	if err != nil {
		return failed("update service", c.Name, err)
	}
	const access = windows.SERVICE_QUERY_CONFIG | windows.SERVICE_CHANGE_CONFIG | windows.SERVICE_START
	return s.with("update service", c.Name, access, func(service *mgr.Service) error {
		now, err := service.Config()
		if err != nil {
			return err
		}
		// The account is written only when it differs, since writing it takes a password, which LocalSystem has none of.
		account, password := (*uint16)(nil), (*uint16)(nil)
		if now.ServiceStartName != localSystem {
			account, password = &utf16String(localSystem)[0], &utf16String("")[0]
		}
		err = windows.ChangeServiceConfig(service.Handle, windows.SERVICE_WIN32_OWN_PROCESS, windows.SERVICE_AUTO_START,
			windows.SERVICE_ERROR_NORMAL, t.line, nil, nil, &multiString(c.DependsOn)[0], account, password, t.display)
		if err != nil {
			return err
		}
		return s.rest(service, c, t, now)
	})
}

// rest writes what CreateService and ChangeServiceConfig do not: description, start without delay, recovery, environment. before is
// what the service was; the zero value is a new one.
func (services) rest(service *mgr.Service, c system.ServiceConfig, t texts, before mgr.Config) error {
	description := windows.SERVICE_DESCRIPTION{Description: t.description}
	if err := changeConfig2(service, windows.SERVICE_CONFIG_DESCRIPTION, &description); err != nil {
		return err
	}
	if before.DelayedAutoStart {
		at := windows.SERVICE_DELAYED_AUTO_START_INFO{}
		if err := changeConfig2(service, windows.SERVICE_CONFIG_DELAYED_AUTO_START_INFO, &at); err != nil {
			return err
		}
	}
	if err := setRecovery(service, c, before.BinaryPathName == ""); err != nil {
		return err
	}
	return setServiceEnvironment(c)
}

// setRecovery also has the actions taken when a service ends itself with an error, not only when its process dies: a kubelet
// that gives up reports STOPPED first. A new service has no actions that would have to be taken away.
func setRecovery(service *mgr.Service, c system.ServiceConfig, isNew bool) error {
	actions, reset, err := recoveryActions(c.Recovery)
	if err != nil {
		return err
	}
	if len(actions) == 0 && isNew {
		return nil
	}
	if len(actions) == 0 {
		return errors.Join(service.ResetRecoveryActions(), service.SetRecoveryActionsOnNonCrashFailures(false))
	}
	list := make([]mgr.RecoveryAction, 0, len(actions))
	for _, a := range actions {
		list = append(list, mgr.RecoveryAction{Type: a.kind, Delay: a.delay})
	}
	if err := service.SetRecoveryActions(list, reset); err != nil {
		return err
	}
	return service.SetRecoveryActionsOnNonCrashFailures(true)
}

func (s services) Delete(name string) error {
	return s.with("delete service", name, windows.DELETE, (*mgr.Service).Delete)
}

// Start returns when the program has connected to the service manager, or after 30 s with ErrServiceTimeout: StartServiceW
// itself waits so long, and nothing more is waited for here. A service that somebody has disabled is set to start automatically
// again and started, since all services of the product do.
func (s services) Start(name string) error {
	err := s.start(name)
	if !is(err, uint32(windows.ERROR_SERVICE_DISABLED)) {
		return err
	}
	err = s.with("enable service", name, windows.SERVICE_CHANGE_CONFIG, func(service *mgr.Service) error {
		return windows.ChangeServiceConfig(service.Handle, windows.SERVICE_NO_CHANGE, windows.SERVICE_AUTO_START,
			windows.SERVICE_NO_CHANGE, nil, nil, nil, nil, nil, nil, nil)
	})
	if err != nil {
		return err
	}
	return s.start(name)
}

func (s services) start(name string) error {
	return s.with("start service", name, windows.SERVICE_START, func(service *mgr.Service) error { return service.Start() })
}

func (s services) Stop(name string) error {
	return s.with("stop service", name, windows.SERVICE_STOP, func(service *mgr.Service) error {
		status, err := service.Control(svc.Stop)
		if code, ok := number(err); ok && stopUnderWay(code, system.ServiceState(status.State)) {
			return nil
		}
		return err
	})
}

func (s services) Control(name string, code uint32) error {
	if code < 128 || code > 255 {
		return invalid("control service", fmt.Sprintf("%s with %d", name, code), codeInvalidParameter)
	}
	return s.with("control service", name, windows.SERVICE_USER_DEFINED_CONTROL, func(service *mgr.Service) error {
		_, err := service.Control(svc.Cmd(code))
		return err
	})
}

// Dependents are those that run, nearest last: the order in which they can be stopped (EnumDependentServicesW).
func (s services) Dependents(name string) ([]string, error) {
	var out []string
	err := s.with("list dependents of", name, windows.SERVICE_ENUMERATE_DEPENDENTS, func(service *mgr.Service) (err error) {
		out, err = service.ListDependentServices(svc.Active)
		return err
	})
	return out, err
}

// commandLine checks c and returns what goes into ImagePath.
func commandLine(c system.ServiceConfig) (string, error) {
	line, err := cmdline.Join(c.Exe, c.Args)
	if err != nil {
		return "", fmt.Errorf("service %s: %w", c.Name, err)
	}
	return line, checkService(c, line)
}

// serviceEnvironment reads the value Environment of a service's key.
func serviceEnvironment(name string) ([]plan.EnvVar, error) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, servicesKey+name, registry.QUERY_VALUE)
	if err != nil {
		return nil, err
	}
	defer func() { _ = key.Close() }()
	block, _, err := key.GetStringsValue("Environment")
	if errors.Is(err, registry.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return environmentFrom(slices.Clip(block)), nil
}

func setServiceEnvironment(c system.ServiceConfig) error {
	block, err := environmentBlock(c.Env)
	if err != nil {
		return err
	}
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, servicesKey+c.Name, registry.QUERY_VALUE|registry.SET_VALUE)
	if err != nil {
		return err
	}
	defer func() { _ = key.Close() }()
	if len(block) > 0 {
		return key.SetStringsValue("Environment", block)
	}
	if err := key.DeleteValue("Environment"); !errors.Is(err, registry.ErrNotExist) {
		return err
	}
	return nil
}
