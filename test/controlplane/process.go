package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// spawner starts children from one operating system thread that lives as long as they may. Linux sends a parent death signal
// when the thread that forked ends, not the process (prctl(2), PR_SET_PDEATHSIG), and Go ends threads at will.
type spawner struct {
	calls chan func()
}

func newSpawner() *spawner {
	s := &spawner{calls: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for f := range s.calls {
			f()
		}
	}()
	return s
}

// start runs cmd.Start on the thread.
func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	s.calls <- func() { result <- cmd.Start() }
	return <-result
}

// close ends the thread, and with it every child that still runs.
func (s *spawner) close() { close(s.calls) }

// process is a running component.
type process struct {
	name string
	// log is the path of its output.
	log string
	cmd *exec.Cmd
	// done is closed when the process has been waited for; err is set before.
	done chan struct{}
	err  error
	// stopping says that the end is wanted.
	stopping atomic.Bool
}

// startProcess runs a program with dir as its working directory and home, and its output appended to name.log there. The
// environment is empty apart from that: a proxy setting or a user's preferences have no business in a test.
func startProcess(s *spawner, dir, exe string, args []string) (*process, error) {
	name := filepath.Base(exe)
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	defer log.Close()
	p.cmd = exec.Command(exe, args...)
	p.cmd.Dir = dir
	p.cmd.Env = childEnv(dir)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.start(p.cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// childEnv is the environment of every program that is started.
func childEnv(dir string) []string {
	return []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
}

// ended is nil while the process runs, and afterwards says how it ended with the end of its log.
func (p *process) ended() error {
	select {
	case <-p.done:
		return p.failure()
	default:
		return nil
	}
}

// failure describes the end of a process that is done.
func (p *process) failure() error {
	if p.err == nil {
		return fmt.Errorf("%s has ended; its log ends:\n%s", p.name, fileTail(p.log))
	}
	return fmt.Errorf("%s has ended: %w; its log ends:\n%s", p.name, p.err, fileTail(p.log))
}

// stop asks the process to end, kills it after grace, and returns once it has been waited for. The signals go through
// os.Process, which never reaches another process that was given the same number.
func (p *process) stop(grace time.Duration) error {
	p.stopping.Store(true)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-p.done
	return nil
}
