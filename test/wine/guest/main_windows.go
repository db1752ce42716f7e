package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

var (
	errUsage      = errors.New("usage: guest sshd | install | services | kill PROGRAM | start NAME PROGRAM [ARGUMENT ...] | remove NAME")
	errNotRunning = errors.New("does not run")
	errStillRuns  = errors.New("did not stop in time")
)

// stopLimit is how long a service may take to stop.
const stopLimit = 20 * time.Second

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

// command is one of the program's, with how many words follow its name.
type command struct {
	least, most int
	run         func(args []string) error
}

func commands() map[string]command {
	const many = 1 << 10
	return map[string]command{
		"sshd":     {0, 0, func([]string) error { return svc.Run(sshService, handler{}) }},
		"install":  {0, 0, func([]string) error { return install() }},
		"services": {0, 0, func([]string) error { return services() }},
		"kill":     {1, 1, func(args []string) error { return kill(args[0]) }},
		"start":    {2, many, func(args []string) error { return start(args[0], args[1], args[2:]) }},
		"remove":   {1, 1, func(args []string) error { return remove(args[0]) }},
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	c, ok := commands()[args[0]]
	args = args[1:]
	if !ok || len(args) < c.least || len(args) > c.most {
		return errUsage
	}
	return c.run(args)
}

func withManager(f func(*mgr.Mgr) error) error {
	m, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("connecting to the service manager: %w", err)
	}
	return errors.Join(f(m), m.Disconnect())
}

// install makes the SSH service as Windows' own feature does.
func install() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return withManager(func(m *mgr.Mgr) error {
		s, err := m.CreateService(sshService, exe, mgr.Config{StartType: mgr.StartAutomatic, DisplayName: "OpenSSH SSH Server"}, "sshd")
		if err != nil {
			return err
		}
		return s.Close()
	})
}

// start makes a service and starts it, as sc.exe would. It does not start at boot.
func start(name, program string, args []string) error {
	return withManager(func(m *mgr.Mgr) error {
		s, err := m.CreateService(name, program, mgr.Config{StartType: mgr.StartManual}, args...)
		if err != nil {
			return err
		}
		return errors.Join(s.Start(), s.Close())
	})
}

// remove stops a service, waits until it has, and deletes it.
func remove(name string) error {
	return withManager(func(m *mgr.Mgr) error {
		s, err := m.OpenService(name)
		if err != nil {
			return err
		}
		return errors.Join(stop(s), s.Delete(), s.Close())
	})
}

func stop(s *mgr.Service) error {
	status, err := s.Control(svc.Stop)
	if errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
		return nil
	}
	tick, limit := time.NewTicker(50*time.Millisecond), time.After(stopLimit)
	defer tick.Stop()
	for err == nil && status.State != svc.Stopped {
		select {
		case <-tick.C:
			status, err = s.Query()
		case <-limit:
			return errStillRuns
		}
	}
	return err
}

// service is what the service manager says of one.
type service struct {
	Name, Command string
	State         uint32
	PID           uint32
}

func services() error {
	return withManager(func(m *mgr.Mgr) error {
		names, err := m.ListServices()
		if err != nil {
			return err
		}
		var out []service
		for _, n := range names {
			s, err := m.OpenService(n)
			if err != nil {
				return fmt.Errorf("%s: %w", n, err)
			}
			// Wine's own driver hosts have no key in the registry, and so no configuration.
			c, _ := s.Config()
			status, err := s.Query()
			if err := errors.Join(err, s.Close()); err != nil {
				return fmt.Errorf("%s: %w", n, err)
			}
			out = append(out, service{Name: n, Command: c.BinaryPathName, State: uint32(status.State), PID: status.ProcessId})
		}
		return json.NewEncoder(os.Stdout).Encode(out)
	})
}

// kill ends every process of a program, as the task manager does.
func kill(program string) error {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return err
	}
	defer func() { _ = windows.CloseHandle(snapshot) }()
	killed := 0
	entry := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err = windows.Process32First(snapshot, &entry); err == nil; err = windows.Process32Next(snapshot, &entry) {
		if !strings.EqualFold(windows.UTF16ToString(entry.ExeFile[:]), program) {
			continue
		}
		p, err := windows.OpenProcess(windows.PROCESS_TERMINATE, false, entry.ProcessID)
		if err != nil {
			return err
		}
		if err := errors.Join(windows.TerminateProcess(p, 1), windows.CloseHandle(p)); err != nil {
			return err
		}
		killed++
	}
	if killed == 0 {
		return fmt.Errorf("%s: %w", program, errNotRunning)
	}
	return nil
}
