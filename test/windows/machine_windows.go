package windows

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"

	actual "github.com/windowsmachine/operator/pkg/agent/system/windows"
)

// Here is the machine that the calling program runs on; the program itself becomes the service of the exercises.
func Here(logf func(string, ...any)) (Machine, error) {
	sys, err := actual.New()
	if err != nil {
		return Machine{}, err
	}
	exe, err := os.Executable()
	if err != nil {
		return Machine{}, err
	}
	program, err := os.ReadFile(exe)
	if err != nil {
		return Machine{}, err
	}
	m := Machine{System: sys, Platform: PlatformWindows, Program: program, Logf: logf}
	// Only Wine has this function.
	if version := windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version"); version.Find() == nil {
		p, _, _ := version.Call()
		m.Platform, m.PlatformVersion = PlatformWine, windows.BytePtrToString(*(**byte)(unsafe.Pointer(&p)))
	}
	return m, nil
}

// RunService runs the calling program as a service if it was started as one, and reports whether it was.
func RunService() bool {
	if len(os.Args) < 3 || os.Args[1] != asService {
		return false
	}
	if err := svc.Run(os.Args[2], service{}); err != nil {
		os.Exit(2)
	}
	return true
}

type service struct{}

// Execute implements svc.Handler.
func (service) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	running := svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	status <- running
	for r := range requests {
		switch r.Cmd {
		case svc.Stop, svc.Shutdown:
			return false, 0
		case svc.Interrogate:
			status <- running
		case dieCode:
			os.Exit(dieExit)
		}
	}
	return false, 0
}
