//go:build linux

package wine

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/windowsmachine/operator/test/wine/hns"
)

// Options of NewMachine.
type Options struct {
	// Name is the host name, Address the machine's address on the network.
	Name, Address string
	// Keys may log in as any user.
	Keys []ssh.PublicKey
	// Dir is the folder for the machine's disk, which Destroy removes.
	Dir string
	// FeatureMissing leaves the feature Containers off; enabling it takes a reboot.
	FeatureMissing bool
	// LinkDrop is for how long the link drops when a network is made; 0 for not at all.
	LinkDrop time.Duration
	// Logf gets what a test may want to see; nil discards it.
	Logf func(format string, args ...any)
}

// Machine is one Windows machine. It is safe for concurrent use.
type Machine struct {
	kit      *Kit
	network  *Network
	opts     Options
	disk     string
	hardware *hardware
	hostKey  ssh.PublicKey
	// closing is closed by Destroy; restarts are what shutdown.exe has started.
	closing  chan struct{}
	restarts sync.WaitGroup

	mu sync.Mutex
	// power is held by whoever switches the machine on or off.
	power   sync.Mutex
	running *running
	boots   int
}

// running is a machine that has power.
type running struct {
	cmd      *exec.Cmd
	button   io.WriteCloser
	said     *bufio.Scanner
	listener net.Listener
	cable    string
}

// Errors of the power button.
var (
	ErrOn  = errors.New("machine is on")
	ErrOff = errors.New("machine is off")
)

// NewMachine makes a machine with a fresh disk. It is off.
func (n *Network) NewMachine(o Options) (*Machine, error) {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	m := &Machine{kit: n.kit, network: n, opts: o, disk: filepath.Join(o.Dir, o.Name), closing: make(chan struct{})}
	if err := cloneDisk(n.kit.template, m.disk); err != nil {
		return nil, fmt.Errorf("making the disk of %s: %w", o.Name, err)
	}
	if err := m.personalise(); err != nil {
		return nil, fmt.Errorf("making machine %s: %w", o.Name, err)
	}
	service, err := hns.New(hns.Options{
		State:        filepath.Join(m.disk, "drive_c/ProgramData/Microsoft/Windows/HNS/HNS.data"),
		ManagementIP: o.Address, NetworkMade: m.dropLink, HostAddress: m.hostAddress,
	})
	if err != nil {
		return nil, err
	}
	state := featureInstalled
	if o.FeatureMissing {
		state = featureStaged
	}
	m.hardware = &hardware{hns: service, power: m.button, slowFeatures: o.FeatureMissing, features: map[string]int{"Containers": state}}
	return m, nil
}

// personalise puts on the disk what no other machine has: the host key, and who may log in.
func (m *Machine) personalise() error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	if m.hostKey, err = ssh.NewPublicKey(public); err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return err
	}
	folder := filepath.Join(m.disk, "drive_c/ProgramData/ssh")
	if err := os.MkdirAll(filepath.Join(folder, "logs"), 0o755); err != nil {
		return err
	}
	var authorized []byte
	for _, k := range m.opts.Keys {
		authorized = append(authorized, ssh.MarshalAuthorizedKey(k)...)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "ssh_host_ed25519_key"), pem.EncodeToMemory(block), 0o600),
		os.WriteFile(filepath.Join(folder, "administrators_authorized_keys"), authorized, 0o600),
		place(m.kit.guest, filepath.Join(m.disk, bedFolder, "guest.exe")),
	)
}

// Name is the host name.
func (m *Machine) Name() string { return m.opts.Name }

// Address is the machine's address.
func (m *Machine) Address() string { return m.opts.Address }

// HostKey is the SSH service's.
func (m *Machine) HostKey() ssh.PublicKey { return m.hostKey }

// HNS is the machine's network service.
func (m *Machine) HNS() *hns.Service { return m.hardware.hns }

// Boots counts how often the machine was switched on or restarted itself.
func (m *Machine) Boots() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boots
}

// Started returns the command lines of programs that nothing should have started, such as PowerShell.
func (m *Machine) Started() []string {
	m.hardware.mu.Lock()
	defer m.hardware.mu.Unlock()
	return slices.Clone(m.hardware.started)
}

// FirewallRules names the rules of the firewall.
func (m *Machine) FirewallRules() []string {
	m.hardware.mu.Lock()
	defer m.hardware.mu.Unlock()
	var out []string
	for _, r := range m.hardware.rules {
		out = append(out, ruleName(r))
	}
	return out
}

// PowerOn boots the machine and waits until its SSH service answers.
func (m *Machine) PowerOn(ctx context.Context) error {
	m.power.Lock()
	defer m.power.Unlock()
	return m.powerOn(ctx)
}

func (m *Machine) powerOn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	if err := m.start(ctx); err != nil {
		return fmt.Errorf("switching %s on: %w", m.opts.Name, err)
	}
	if err := m.wire(ctx); err != nil {
		return errors.Join(fmt.Errorf("switching %s on: %w", m.opts.Name, err), m.pullPlug())
	}
	return nil
}

// wire gives the machine its network and hardware, and lets it boot.
func (m *Machine) wire(ctx context.Context) error {
	r := m.run()
	pid := r.cmd.Process.Pid
	cable, err := m.network.plug(ctx, pid, m.opts.Address)
	if err != nil {
		return err
	}
	if err := m.hardware.boot(); err != nil {
		return err
	}
	l, err := listenIn(pid, hardwareAddress)
	if err != nil {
		return err
	}
	m.mu.Lock()
	r.cable, r.listener = cable, l
	m.boots++
	m.mu.Unlock()
	go m.hardware.serve(l)
	if err := m.boot(); err != nil {
		return err
	}
	return m.untilSSH(ctx)
}

func (m *Machine) untilSSH(ctx context.Context) error {
	d := net.Dialer{Timeout: time.Second}
	for {
		c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(m.opts.Address, "22"))
		if err == nil {
			return c.Close()
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("its SSH service does not answer: %w", err)
		}
	}
}

func (m *Machine) run() *running {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running
}

// start makes the machine's namespaces with process 1 in them.
func (m *Machine) start(_ context.Context) error {
	if m.run() != nil {
		return ErrOn
	}
	config, err := json.Marshal(map[string]string{"Root": m.kit.root, "Disk": m.disk, "Hostname": m.opts.Name, "Address": m.opts.Address})
	if err != nil {
		return err
	}
	// The machine outlives any context; its end is ours, since it reads our button.
	cmd := exec.CommandContext(context.Background(), m.kit.boot, string(config))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWPID | unix.CLONE_NEWNET}
	button, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r := &running{cmd: cmd, button: button, said: bufio.NewScanner(out)}
	if !r.said.Scan() {
		return fmt.Errorf("process 1 said nothing: %w", cmd.Wait())
	}
	m.mu.Lock()
	m.running = r
	m.mu.Unlock()
	return nil
}

// boot lets process 1 start Windows.
func (m *Machine) boot() error {
	r := m.run()
	if _, err := io.WriteString(r.button, "on\n"); err != nil {
		return err
	}
	if !r.said.Scan() {
		return fmt.Errorf("process 1 ended: %w", ErrOff)
	}
	return nil
}

// PowerOff shuts the machine down: its programs end, the registry reaches the disk.
func (m *Machine) PowerOff(ctx context.Context) error {
	m.power.Lock()
	defer m.power.Unlock()
	return m.powerOff(ctx)
}

func (m *Machine) powerOff(ctx context.Context) error {
	r := m.run()
	if r == nil {
		return ErrOff
	}
	if _, err := io.WriteString(r.button, "off\n"); err != nil {
		return errors.Join(err, m.pullPlug())
	}
	gone := make(chan struct{})
	go func() {
		for r.said.Scan() { // until process 1 has closed it
		}
		close(gone)
	}()
	select {
	case <-gone:
	case <-ctx.Done():
	}
	return m.pullPlug()
}

// PullPlug takes the machine's power away. What the registry had not written in the last seconds is lost. A machine that is off stays so.
func (m *Machine) PullPlug() error {
	m.power.Lock()
	defer m.power.Unlock()
	return m.pullPlug()
}

func (m *Machine) pullPlug() error {
	m.mu.Lock()
	r := m.running
	m.running = nil
	m.mu.Unlock()
	if r == nil {
		return nil
	}
	if r.listener != nil {
		_ = r.listener.Close()
	}
	// With process 1 the kernel ends all others and removes the network.
	_ = r.cmd.Process.Kill()
	_ = r.button.Close()
	_ = r.cmd.Wait() // "killed" is what was asked for.
	if r.cable != "" {
		_ = unplug(r.cable) // It may be gone with its other end.
	}
	return nil
}

// Restart shuts the machine down and boots it.
func (m *Machine) Restart(ctx context.Context) error {
	m.power.Lock()
	defer m.power.Unlock()
	if err := m.powerOff(ctx); err != nil {
		return err
	}
	return m.powerOn(ctx)
}

// button is what shutdown.exe presses. Windows answers first.
func (m *Machine) button(restart bool) {
	m.restarts.Go(func() {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-m.closing:
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*bootTimeout)
		defer cancel()
		act := m.Restart
		if !restart {
			act = m.PowerOff
		}
		if err := act(ctx); err != nil {
			m.opts.Logf("machine %s: shutdown.exe: %v", m.opts.Name, err)
		}
	})
}

// dropLink is what a new virtual switch does to the link.
func (m *Machine) dropLink() {
	r := m.run()
	if m.opts.LinkDrop == 0 || r == nil {
		return
	}
	ctx := context.Background()
	if err := link(ctx, r.cable, "down"); err != nil {
		return
	}
	time.AfterFunc(m.opts.LinkDrop, func() {
		if err := link(ctx, r.cable, "up"); err != nil {
			m.opts.Logf("machine %s: %v", m.opts.Name, err)
		}
	})
}

// Destroy takes the power away and removes the disk.
func (m *Machine) Destroy() error {
	close(m.closing)
	err := m.PullPlug()
	m.restarts.Wait()
	return errors.Join(err, m.PullPlug(), os.RemoveAll(m.disk))
}

// Command is a Windows program that is to run in the machine, as somebody at its console would start it. Its process is the only child of
// the command's.
func (m *Machine) Command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	r := m.run()
	if r == nil {
		return nil, ErrOff
	}
	enter := []string{
		"-t", strconv.Itoa(r.cmd.Process.Pid), "-m", "-u", "-i", "-n", "-p", "-r", "-w", "/usr/bin/env", "-i", "HOME=/root", "TERM=dumb",
		"PATH=/usr/lib/wine:/usr/sbin:/usr/bin:/sbin:/bin", "WINEPREFIX=/c", "WINEDEBUG=-all", "WINEDLLOVERRIDES=mscoree,mshtml=", "wine64",
	}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	// Services that Wine starts meanwhile inherit the streams.
	cmd.WaitDelay = time.Second
	return cmd, nil
}

// Wine runs a Windows program in the machine and returns what it printed.
func (m *Machine) Wine(ctx context.Context, args ...string) ([]byte, error) {
	cmd, err := m.Command(ctx, args...)
	if err != nil {
		return nil, err
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return out, fmt.Errorf("%s on %s: %w: %s", args[0], m.opts.Name, err, errs.String())
	}
	return out, nil
}
