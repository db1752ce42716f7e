package fake

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Options describe a machine. The zero Options are a Windows Server 2022 with one adapter, 64 GiB of disk, no
// Containers feature and no Defender.
type Options struct {
	// Hostname is the DNS host name, "WIN-SIM" when empty.
	Hostname string
	// Clock is the time the machine lives by; nil is the real one. The machine's own clock is Clock plus Skew.
	Clock system.Clock
	Skew  time.Duration
	// Build and UBR are the OS build (20348 when 0) and its update revision.
	Build, UBR int
	// NotElevated makes views and sessions run without administrator rights.
	NotElevated bool
	// Defender is whether Microsoft Defender runs.
	Defender bool
	// Survey is what Machine.Survey answers.
	Survey plan.Survey
	// DiskSize is the size of drive C: in bytes, 64 GiB when 0.
	DiskSize int64
	// Adapters are the network adapters; nil is one "Ethernet" with 192.0.2.10/24 and the default route.
	Adapters []Adapter
	// Features are the optional features that this edition has; nil is Containers and Microsoft-Hyper-V, both disabled.
	Features map[string]Feature
	// Services exist before anything is installed. They are Stopped unless their program can be started.
	Services []system.ServiceConfig
	// Resolve finds the program in a file by what it holds; it is asked before Programs.
	Resolve func(Image) (Program, bool)
	// Programs are found by the lower-case base name of the file.
	Programs map[string]Program
	// Executable is what Machine.Executable answers in the view that belongs to no process.
	Executable string
	// Blobs is the pool that keeps file content, shared by many machines; nil is one of its own.
	Blobs *Blobs
	// Dial connects from the machine; nil is net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Timing are the machine's own delays.
	Timing Timing
	// Logf gets what Windows would write to its event log; nil discards it.
	Logf func(format string, args ...any)
}

// Timing are a machine's delays by its clock. A zero field has the default named beside it.
type Timing struct {
	// StartTimeout is how long the service manager waits for a started program to connect: 30 s
	// (ServicesPipeTimeout's default, StartService documentation).
	StartTimeout time.Duration
	// Shutdown is how long a reboot waits for services to stop: 5 s (WaitToKillServiceTimeout's default).
	Shutdown time.Duration
	// Boot is the time from power on until services start: 5 s.
	Boot time.Duration
	// LinkDown is how long an address is gone when a virtual switch is made or removed: 5 s. The second half of it the
	// address is back but tentative.
	LinkDown time.Duration
}

func (t Timing) withDefaults() Timing {
	for _, d := range []struct {
		at    *time.Duration
		value time.Duration
	}{{&t.StartTimeout, 30 * time.Second}, {&t.Shutdown, 5 * time.Second}, {&t.Boot, 5 * time.Second}, {&t.LinkDown, 5 * time.Second}} {
		if *d.at == 0 {
			*d.at = d.value
		}
	}
	return t
}

// Machine is one modelled Windows machine. It is safe for concurrent use.
type Machine struct {
	opts  Options
	clock machineClock

	// life ends with Close.
	life context.Context
	end  context.CancelFunc

	mu sync.Mutex
	// changed is closed and replaced at every change of a service's or process's state.
	changed   chan struct{}
	power     powerState
	boots     int
	bootCtx   context.Context
	bootEnd   context.CancelFunc
	work      sync.WaitGroup
	closed    bool
	drives    map[string]*node
	used      int64
	ballast   int64
	processes map[uint32]*Process
	nextPID   uint32
	services  map[string]*service
	env       map[string]plan.EnvVar
	features  map[string]Feature
	firewall  map[string]plan.FirewallRule
	certs     map[string]map[string]bool
	defender  map[plan.DefenderExclusion]bool
	routes    []plan.Route
	adapters  []*adapter
	networks  map[string]plan.Network
	endpoints map[string]endpoint
	remotes   map[string][]plan.RemoteSubnet
	intercept func(Op) Verdict
	watchers  map[int]func(Event)
	nextWatch int
}

type powerState int

const (
	powerOff powerState = iota
	powerUp
	powerGoingDown
)

// New returns a machine that is up; its services start in the background. Close ends it.
func New(o Options) *Machine {
	o = withDefaults(o)
	m := &Machine{
		opts: o, clock: machineClock{base: o.Clock, skew: o.Skew}, changed: make(chan struct{}),
		drives: map[string]*node{}, processes: map[uint32]*Process{}, nextPID: 4, services: map[string]*service{},
		env: map[string]plan.EnvVar{}, features: map[string]Feature{}, firewall: map[string]plan.FirewallRule{},
		certs:    map[string]map[string]bool{"ROOT": {}, "CA": {}},
		defender: map[plan.DefenderExclusion]bool{}, networks: map[string]plan.Network{},
		endpoints: map[string]endpoint{}, remotes: map[string][]plan.RemoteSubnet{}, watchers: map[int]func(Event){},
	}
	m.life, m.end = context.WithCancel(context.Background())
	for name, f := range o.Features {
		m.features[name] = f
	}
	for _, a := range o.Adapters {
		m.adapters = append(m.adapters, &adapter{Adapter: a})
	}
	for _, cfg := range o.Services {
		m.services[fold(cfg.Name)] = &service{cfg: copyConfig(cfg), state: system.ServiceStopped}
	}
	m.layDownWindows()
	m.mu.Lock()
	m.bootLocked()
	m.mu.Unlock()
	return m
}

func withDefaults(o Options) Options {
	if o.Hostname == "" {
		o.Hostname = "WIN-SIM"
	}
	if o.Clock == nil {
		o.Clock = RealClock{}
	}
	if o.Build == 0 {
		o.Build = 20348
	}
	if o.DiskSize == 0 {
		o.DiskSize = 64 << 30
	}
	if o.Adapters == nil {
		o.Adapters = []Adapter{{Name: "Ethernet", Prefix: "192.0.2.10/24", Default: true}}
	}
	if o.Features == nil {
		o.Features = map[string]Feature{"Containers": {}, "Microsoft-Hyper-V": {}}
	}
	if o.Executable == "" {
		o.Executable = `C:\Windows\wmcb\wmcb.exe`
	}
	if o.Blobs == nil {
		o.Blobs = NewBlobs()
	}
	if o.Dial == nil {
		var d net.Dialer
		o.Dial = d.DialContext
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	o.Timing = o.Timing.withDefaults()
	return o
}

// System is a view of the machine that belongs to no process: it has the rights of Options and is never killed.
func (m *Machine) System() system.System { return m.view(nil) }

func (m *Machine) view(p *Process) system.System {
	v := view{m: m, p: p}
	return system.System{
		Files: files{v}, Env: environment{v}, Features: features{v}, Services: services{v}, Networks: networks{v},
		Routes: routes{v}, Firewall: firewall{v}, Certificates: certificates{v}, Defender: defender{v}, Machine: machine{v},
		Programs: programs{v}, Clock: processClock{v},
	}
}

// Close switches the machine off and waits until every goroutine of it has ended. Programs end when their context does.
func (m *Machine) Close() {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		m.work.Wait()
		return
	}
	m.closed = true
	m.end()
	m.cutLocked()
	m.mu.Unlock()
	m.work.Wait()
}

// goWork runs f as a goroutine that Close waits for; it must be called with m.mu held.
func (m *Machine) goWork(f func()) {
	if m.closed {
		return
	}
	m.work.Go(f)
}

// broadcast wakes all that wait for a change; it must be called with m.mu held.
func (m *Machine) broadcast() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// view is a caller's hold on the machine: a process, or nobody.
type view struct {
	m *Machine
	p *Process
}

// lock takes the machine for one operation; it fails when the process has ended. The caller unlocks when err is nil.
func (v view) lock() error {
	v.m.mu.Lock()
	if v.p != nil && v.p.ended {
		v.m.mu.Unlock()
		return ErrKilled
	}
	return nil
}

// lockAdmin is lock for operations that need an elevated token: 5 ERROR_ACCESS_DENIED otherwise.
func (v view) lockAdmin(op, name string) error {
	if err := v.lock(); err != nil {
		return err
	}
	if !v.elevated() {
		v.m.mu.Unlock()
		return refuse(op, name, codeAccessDenied, system.ErrDenied)
	}
	return nil
}

func (v view) unlock() { v.m.mu.Unlock() }

func (v view) elevated() bool {
	return !v.m.opts.NotElevated || v.p != nil && v.p.service != nil
}

// done is closed when the caller's process ends, nil for the view of nobody.
func (v view) done() <-chan struct{} {
	if v.p == nil {
		return nil
	}
	return v.p.done
}

type machine struct{ view }

func (v machine) Hostname() (string, error) {
	if err := v.lock(); err != nil {
		return "", err
	}
	defer v.unlock()
	return v.m.opts.Hostname, nil
}

func (v machine) Version() (build, ubr int, err error) {
	if err := v.lock(); err != nil {
		return 0, 0, err
	}
	defer v.unlock()
	return v.m.opts.Build, v.m.opts.UBR, nil
}

func (v machine) Elevated() (bool, error) {
	if err := v.lock(); err != nil {
		return false, err
	}
	defer v.unlock()
	return v.elevated(), nil
}

// BootID is a counter, as the registry's BootId is.
func (v machine) BootID() (string, error) {
	if err := v.lock(); err != nil {
		return "", err
	}
	defer v.unlock()
	return fmt.Sprintf("%s-%d", v.m.opts.Hostname, v.m.boots), nil
}

func (v machine) FreeDisk(path string) (int64, error) {
	if err := v.lock(); err != nil {
		return 0, err
	}
	defer v.unlock()
	if _, err := v.m.parse("statfs", path); err != nil {
		return 0, err
	}
	return v.m.free(), nil
}

func (v machine) Survey() plan.Survey {
	if err := v.lock(); err != nil {
		return plan.Survey{}
	}
	defer v.unlock()
	return v.m.opts.Survey
}

func (v machine) Executable() (string, error) {
	if err := v.lock(); err != nil {
		return "", err
	}
	defer v.unlock()
	if v.p != nil {
		return v.p.exe, nil
	}
	return v.m.opts.Executable, nil
}
