package fake

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

// Program is what an executable file does. It must return when ctx ends; its result is the exit code.
type Program func(ctx context.Context, p *Process) (exit int)

// Image is an executable file as Options.Resolve sees it.
type Image struct {
	Path string
	// Digest is the SHA-256 of the file, Head its first bytes (at most 4096), Size its size.
	Digest string
	Head   []byte
	Size   int64
}

const maxHead = 4096

// killedExit is the exit code of a process that was ended from outside, as TerminateProcess is mostly called with 1.
const killedExit = 1

// Process is one running program.
type Process struct {
	m       *Machine
	pid     uint32
	exe     string
	args    []string
	env     map[string]string
	image   *node
	parent  *Process
	service *instance
	ctx     context.Context
	cancel  context.CancelFunc
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	// The rest is guarded by the machine.
	ended   bool
	lost    bool
	exit    int
	done    chan struct{}
	handles map[*Handle]bool
	locks   map[*node]bool
}

// Streams are the standard streams of a process; a nil one is empty or discards.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// StartProcess starts the program in the file exe. It answers ErrNotExist for a missing file, ErrBadImage (193
// ERROR_BAD_EXE_FORMAT) for a file that is no program of this machine, ErrBusy for one that is being written, and
// ErrPoweredOff when the machine is not up.
func (m *Machine) StartProcess(exe string, args []string, s Streams) (*Process, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.launch(start{exe: exe, args: args, streams: s})
}

// StartBuiltin starts a program of Windows itself that needs no file, such as a session of its SSH server.
func (m *Machine) StartBuiltin(name string, args []string, s Streams, program Program) (*Process, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.launch(start{exe: name, args: args, streams: s, builtin: program})
}

// StartProcess starts a child. It ends with its parent, and speaks to the service manager for it.
func (p *Process) StartProcess(exe string, args []string, s Streams) (*Process, error) {
	if err := (view{p.m, p}).lock(); err != nil {
		return nil, err
	}
	defer p.m.mu.Unlock()
	return p.m.launch(start{exe: exe, args: args, streams: s, parent: p, service: p.service})
}

type start struct {
	exe     string
	args    []string
	streams Streams
	parent  *Process
	service *instance
	builtin Program
}

// launch starts a process; m.mu is held.
func (m *Machine) launch(s start) (*Process, error) {
	if m.power != powerUp || m.closed {
		return nil, ErrPoweredOff
	}
	program, image := s.builtin, (*node)(nil)
	if program == nil {
		var err error
		if program, image, err = m.resolve(s.exe); err != nil {
			return nil, err
		}
		image.running++
	}
	m.nextPID += 4 // process ids are multiples of four
	p := &Process{
		m: m, pid: m.nextPID, exe: s.exe, args: slices.Clone(s.args), env: map[string]string{}, image: image,
		parent: s.parent, service: s.service,
		done: make(chan struct{}), handles: map[*Handle]bool{}, locks: map[*node]bool{},
	}
	p.ctx, p.cancel = context.WithCancel(m.bootCtx)
	p.setStreams(s.streams)
	p.setEnv()
	m.processes[p.pid] = p
	m.goWork(func() { p.run(program) })
	m.broadcast()
	return p, nil
}

func (p *Process) setStreams(s Streams) {
	p.stdin, p.stdout, p.stderr = strings.NewReader(""), io.Discard, io.Discard
	if s.Stdin != nil {
		p.stdin = s.Stdin
	}
	if s.Stdout != nil {
		p.stdout = s.Stdout
	}
	if s.Stderr != nil {
		p.stderr = s.Stderr
	}
}

// setEnv copies the parent's environment; a process without one gets the machine's, and a service its own on top.
func (p *Process) setEnv() {
	if p.parent != nil {
		p.env = maps.Clone(p.parent.env)
		return
	}
	for _, e := range p.m.env {
		p.env[fold(e.Name)] = e.Value
	}
	if p.service != nil {
		for _, e := range p.service.svc.cfg.Env {
			p.env[fold(e.Name)] = e.Value
		}
	}
}

func (p *Process) run(program Program) {
	exit := program(p.ctx, p)
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	p.endLocked(exit, false)
}

// resolve finds what a file runs.
func (m *Machine) resolve(exe string) (Program, *node, error) {
	n, err := m.lookup("start", exe)
	switch {
	case err != nil:
		return nil, nil, err
	case n.dir:
		return nil, nil, refuse("start", exe, codeAccessDenied, system.ErrDenied)
	case n.writers > 0 || n.locked:
		return nil, nil, refuse("start", exe, codeSharingViolation, system.ErrBusy)
	}
	if m.opts.Resolve != nil {
		head := make([]byte, min(maxHead, n.data.size))
		n.data.readAt(head, 0)
		if p, ok := m.opts.Resolve(Image{Path: n.path(), Digest: n.data.digest(), Head: head, Size: n.data.size}); ok {
			return p, n, nil
		}
	}
	if p := m.opts.Programs[fold(n.name)]; p != nil {
		return p, n, nil
	}
	return nil, nil, refuse("start", exe, codeBadImage, ErrBadImage)
}

// endLocked takes the process off the machine: its handles close, its locks open, its children end, the service manager
// learns of it. A program that does not return at once goes on without a machine: every call of its view fails. m.mu is held.
func (p *Process) endLocked(exit int, killed bool) {
	if p.ended {
		return
	}
	p.ended, p.exit = true, exit
	for h := range p.handles {
		h.closeLocked()
	}
	for n := range p.locks {
		n.locked = false
	}
	clear(p.locks)
	if p.image != nil {
		p.image.running--
	}
	delete(p.m.processes, p.pid)
	for _, child := range p.m.processes {
		if child.parent == p {
			child.endLocked(killedExit, true)
		}
	}
	p.cancel()
	close(p.done)
	if p.service != nil && p.service.main == p {
		p.m.serviceProcessEnded(p.service, exit, killed)
	}
	p.m.broadcast()
}

// Kill ends the process from outside: its context ends and every later call of its view fails with ErrKilled.
func (p *Process) Kill() {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	p.endLocked(killedExit, true)
}

// Done is closed when the process is off the machine.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns the exit code once the process has ended.
func (p *Process) Wait() int {
	<-p.done
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	return p.exit
}

// Lost reports whether the process ended because the machine went off, so that nobody learns of an exit code.
func (p *Process) Lost() bool {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	return p.lost
}

// PID is the process id.
func (p *Process) PID() uint32 { return p.pid }

// Exe is the path that the process was started with.
func (p *Process) Exe() string { return p.exe }

// Args are the arguments behind the program's name.
func (p *Process) Args() []string { return slices.Clone(p.args) }

// Stdin is the standard input, never nil.
func (p *Process) Stdin() io.Reader { return p.stdin }

// Stdout is the standard output, never nil.
func (p *Process) Stdout() io.Writer { return p.stdout }

// Stderr is the standard error, never nil.
func (p *Process) Stderr() io.Writer { return p.stderr }

// Getenv returns a variable of the environment that the process was started with: a later change of the machine's
// environment is not seen ("Environment Variables": each process has its own block, a copy of its parent's).
func (p *Process) Getenv(name string) string { return p.env[fold(name)] }

// System is the process's view of the machine.
func (p *Process) System() system.System { return p.m.view(p) }

// Machine is where the process runs.
func (p *Process) Machine() *Machine { return p.m }

// Open opens a file for the process.
func (p *Process) Open(path string, mode Mode) (*Handle, error) {
	return view{p.m, p}.open(path, mode, "")
}

// Truncate sets the size of a file, that nobody writes, to size.
func (p *Process) Truncate(path string, size int64) error {
	h, err := p.Open(path, ModeUpdate)
	if err != nil {
		return err
	}
	if err := h.Truncate(size); err != nil {
		_ = h.Close()
		return err
	}
	return h.Close()
}

// Sleep waits by the machine's clock until d has passed, ctx ends, or the process does.
func (p *Process) Sleep(ctx context.Context, d time.Duration) error {
	return p.System().Clock.Sleep(ctx, d)
}

// Processes returns what runs now, by process id.
func (m *Machine) Processes() []*Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*Process, 0, len(m.processes))
	for _, p := range m.processes {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *Process) int { return int(a.pid) - int(b.pid) })
	return out
}
