package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// group are the programs of a connection. They end with it, as those of Windows' sshd do.
type group struct{ job windows.Handle }

func newGroup() (*group, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("making a job: %w", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("setting up the job: %w", err), windows.CloseHandle(job))
	}
	return &group{job}, nil
}

func (g *group) end() { _ = windows.TerminateJobObject(g.job, 1); _ = windows.CloseHandle(g.job) }

// run has cmd.exe run a command line, as OpenSSH's default shell does.
func (g *group) run(line string, in io.Reader, out, errs io.Writer) uint32 {
	const failed = 255
	cmd := exec.Command(`C:\windows\system32\cmd.exe`)
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd.exe /c ` + line}
	cmd.Stdout, cmd.Stderr = out, errs
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(errs, err)
		return failed
	}
	if p, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(cmd.Process.Pid)); err == nil {
		_ = windows.AssignProcessToJobObject(g.job, p)
		_ = windows.CloseHandle(p)
	}
	go func() { _, _ = io.Copy(stdin, in); _ = stdin.Close() }()
	if err := cmd.Wait(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return uint32(exit.ExitCode())
		}
		fmt.Fprintln(errs, err)
		return failed
	}
	return 0
}
