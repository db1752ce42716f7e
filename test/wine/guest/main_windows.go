package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

var (
	errUsage      = errors.New("usage: guest sshd | install | services | kill PROGRAM")
	errNotRunning = errors.New("does not run")
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "sshd":
		return svc.Run(sshService, handler{})
	case len(args) == 1 && args[0] == "install":
		return install()
	case len(args) == 1 && args[0] == "services":
		return services()
	case len(args) == 2 && args[0] == "kill":
		return kill(args[1])
	}
	return errUsage
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
