package winrm

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/windowsmachine/operator/pkg/powershell"
	"github.com/windowsmachine/operator/pkg/transport"
)

const (
	defaultPoll    = 3 * time.Second
	defaultInstall = 15 * time.Minute
	defaultKeys    = 30 * time.Second
)

// Opener makes first contact. The zero value is ready for use; it is safe for concurrent use, and calls share nothing.
type Opener struct {
	// Net makes the TCP connection; nil is a net.Dialer.
	Net func(ctx context.Context, network, address string) (net.Conn, error)
	// Poll is how often a machine is asked whether something has ended; 0 is 3 s.
	Poll time.Duration
	// Install bounds the installation of OpenSSH by Windows, and by an installer, each; 0 is 15 minutes.
	Install time.Duration
	// Keys bounds waiting for the host's keys after the first start of sshd; 0 is 30 s.
	Keys time.Duration
}

var _ transport.Opener = (*Opener)(nil)

// Open implements transport.Opener.
func (o *Opener) Open(ctx context.Context, t transport.Opening) (transport.HostKey, error) {
	var key transport.HostKey
	err := check(t)
	if err == nil {
		key, err = o.open(ctx, t)
	}
	if err != nil {
		return transport.HostKey{}, fmt.Errorf("first contact with %s: %w", t, err)
	}
	return key, nil
}

func (o *Opener) open(ctx context.Context, t transport.Opening) (transport.HostKey, error) {
	c, err := newClient(t, o.Net)
	if err != nil {
		return transport.HostKey{}, err
	}
	defer c.close()
	s, err := c.newShell(ctx)
	if err != nil {
		return transport.HostKey{}, err
	}
	defer s.delete(ctx)
	return (&opening{Opening: t, opener: o, shell: s}).run(ctx)
}

// opening is one first contact under way.
type opening struct {
	transport.Opening
	opener *Opener
	shell  *shell
}

// run goes from whatever is there to a host that takes the key. The key file comes after sshd's first start, which makes its folder with an access
// list: below C:\ProgramData everybody may make one.
func (o *opening) run(ctx context.Context) (transport.HostKey, error) {
	if err := o.install(ctx); err != nil {
		return transport.HostKey{}, err
	}
	for _, c := range []struct {
		line string
		ok   []uint32
	}{
		{autostart, nil},
		{startService, []uint32{exitAlreadyRunning}},
	} {
		if err := o.must(ctx, c.line, nil, c.ok...); err != nil {
			return transport.HostKey{}, err
		}
	}
	key, err := o.hostKey(ctx)
	if err != nil {
		return transport.HostKey{}, err
	}
	if err := o.authorize(ctx); err != nil {
		return transport.HostKey{}, err
	}
	return key, o.letIn(ctx)
}

// must runs a command that has to end with 0 or one of the other codes.
func (o *opening) must(ctx context.Context, line string, input []byte, ok ...uint32) error {
	r, err := o.shell.run(ctx, line, input)
	if err != nil {
		return err
	}
	return verdict(line, r, ok...)
}

// verdict judges by the exit code alone. Text on standard error is no failure, and text on standard output no success.
func verdict(line string, r result, ok ...uint32) error {
	if r.exit == exitOK {
		return nil
	}
	for _, code := range ok {
		if r.exit == code {
			return nil
		}
	}
	return failed(line, r)
}

// failed names the program and what it said; the text is for people.
func failed(line string, r result) error {
	if r.exit == exitAccessDenied {
		return fmt.Errorf("%w: %s ended with 5, access denied: the user must be an administrator, and for a local account other than the built-in one LocalAccountTokenFilterPolicy must be 1",
			transport.ErrNoServer, program(line))
	}
	said := clean(string(r.stderr))
	if said == "" {
		said = clean(string(r.stdout))
	}
	return fmt.Errorf("%w: %s ended with %s: %s", transport.ErrNoServer, program(line), hexOf(r.exit), said)
}

// program is the file name of a line's first word.
func program(line string) string {
	end := len(line)
	start := 0
	for i, r := range line {
		if r == ' ' {
			end = i
			break
		}
		if r == '\\' {
			start = i + 1
		}
	}
	return line[start:end]
}

// installed asks for the service by number.
func (o *opening) installed(ctx context.Context) (bool, error) {
	r, err := o.shell.run(ctx, queryService, nil)
	if err != nil {
		return false, err
	}
	if r.exit == exitNoService {
		return false, nil
	}
	return true, verdict(queryService, r)
}

// install has OpenSSH installed unless it is: by Windows, else by the installer.
func (o *opening) install(ctx context.Context) error {
	there, err := o.installed(ctx)
	if err != nil || there {
		return err
	}
	code, err := o.capability(ctx)
	if err != nil {
		return err
	}
	if there, err = o.installed(ctx); err != nil || there {
		return err
	}
	if code == exitRestartRequired {
		return fmt.Errorf("%w: Windows has installed OpenSSH.Server and wants a restart first (DISM ended with 3010): restart the machine", transport.ErrNoServer)
	}
	if o.InstallerURL == "" {
		return fmt.Errorf("%w: Windows cannot install OpenSSH.Server~~~~0.0.1.0 (DISM ended with %s; see C:\\Windows\\Logs\\DISM\\dism.log there): let the machine reach Windows Update or a source of optional features, give an installer in spec.connection.openSSH of the WindowsNodeProfile, or install OpenSSH by hand",
			transport.ErrNoServer, hexOf(code))
	}
	return o.byInstaller(ctx)
}

// capability has Windows install its own OpenSSH and returns how that ended. A task that an earlier try has started is waited for.
func (o *opening) capability(ctx context.Context) (uint32, error) {
	result, there, err := o.task(ctx)
	if err != nil {
		return 0, err
	}
	if result != taskRunning && result != taskQueued {
		for _, line := range []string{createTask, runTask} {
			if err := o.must(ctx, line, nil); err != nil {
				return 0, err
			}
		}
	}
	err = o.wait(ctx, o.opener.limit(o.opener.Install, defaultInstall), func() (bool, error) {
		var err error
		result, there, err = o.task(ctx)
		return !there || result != taskRunning && result != taskQueued && result != taskHasNotRun, err
	})
	if err != nil {
		// The task goes on, and the next try waits for it.
		return 0, fmt.Errorf("installing OpenSSH.Server by DISM: %w", err)
	}
	// It is of no more use, and made anew when the next try needs it.
	return result, o.must(ctx, deleteTask, nil, exitNothing)
}

// task is the result of the last run of the task, and whether there is one.
func (o *opening) task(ctx context.Context) (uint32, bool, error) {
	r, err := o.shell.run(ctx, queryTask, nil)
	if err != nil || r.exit == exitNothing {
		return 0, false, err
	}
	if err := verdict(queryTask, r); err != nil {
		return 0, false, err
	}
	n, err := taskResult(r.stdout)
	return n, true, err
}

// byInstaller fetches, checks and starts the installer.
func (o *opening) byInstaller(ctx context.Context) error {
	if err := o.must(ctx, download, curlOptions(o.InstallerURL)); err != nil {
		return fmt.Errorf("fetching %s: %w", o.InstallerURL, err)
	}
	r, err := o.shell.run(ctx, hashFile, nil)
	if err != nil {
		return err
	}
	if err := verdict(hashFile, r); err != nil {
		return err
	}
	got, err := hashOf(r.stdout)
	if err != nil {
		return err
	}
	if got != o.InstallerSHA256 {
		_ = o.must(ctx, removeMSI, nil)
		return fmt.Errorf("%w: what %s gives has SHA-256 %s, the WindowsNodeProfile says %s: correct spec.connection.openSSH", transport.ErrNoServer, o.InstallerURL, got, o.InstallerSHA256)
	}
	if r, err = o.shell.run(ctx, install, nil); err != nil {
		return err
	}
	if r.exit == exitInstallerBusy {
		return fmt.Errorf("%w: another installation is under way (msiexec ended with 1618)", transport.ErrBusy)
	}
	if err := verdict(install, r, exitRestartRequired, exitRebootInitiated); err != nil {
		return err
	}
	// cmd.exe may not wait for a program with windows.
	err = o.wait(ctx, o.opener.limit(o.opener.Install, defaultInstall), func() (bool, error) { return o.installed(ctx) })
	if err != nil {
		return fmt.Errorf("service sshd after %s: %w", o.InstallerURL, err)
	}
	return o.must(ctx, removeMSI, nil)
}

// hostKey reads the host's key, the one that a client of ours asks for first. sshd makes its keys one after another: another than Ed25519 is taken
// only when that one does not come.
func (o *opening) hostKey(ctx context.Context) (transport.HostKey, error) {
	var key transport.HostKey
	var there bool
	var failure error
	look := func(line string) (bool, error) {
		key, there, failure = o.publicKey(ctx, line)
		return there, failure
	}
	err := o.wait(ctx, o.opener.limit(o.opener.Keys, defaultKeys), func() (bool, error) { return look(readEd25519) })
	if err == nil || failure != nil || ctx.Err() != nil {
		return key, err
	}
	for _, line := range []string{readECDSA, readRSA} {
		if ok, err := look(line); ok || err != nil {
			return key, err
		}
	}
	return key, fmt.Errorf("%w: sshd runs and has made no host key in C:\\ProgramData\\ssh: look into its event log (OpenSSH/Operational) there", transport.ErrNoServer)
}

// publicKey reads a key; one that is not there, or not written to its end, is none.
func (o *opening) publicKey(ctx context.Context, line string) (transport.HostKey, bool, error) {
	r, err := o.shell.run(ctx, line, nil)
	if err != nil || r.exit == exitNothing {
		return transport.HostKey{}, false, err
	}
	if err := verdict(line, r); err != nil {
		return transport.HostKey{}, false, err
	}
	key, err := parseHostKey(r.stdout)
	return key, err == nil, nil
}

// authorize puts our key into the file that sshd reads for administrators, and gives the file the access list without which it does not.
func (o *opening) authorize(ctx context.Context) error {
	line, err := powershell.AuthorizeKey()
	if err != nil {
		return err
	}
	if err := o.must(ctx, line, []byte(o.AuthorizedKey+"\r\n")); err != nil {
		return err
	}
	if err := o.must(ctx, ownKeys, nil); err != nil {
		return err
	}
	return o.must(ctx, protectKeys, nil)
}

// letIn opens the firewall for SSH.
func (o *opening) letIn(ctx context.Context) error {
	r, err := o.shell.run(ctx, showRule(o.SSHPort), nil)
	if err != nil || r.exit == exitOK {
		return err
	}
	return o.must(ctx, addRule(o.SSHPort), nil)
}

func (o *Opener) limit(set, def time.Duration) time.Duration {
	if set > 0 {
		return set
	}
	return def
}

// wait asks again and again until something has ended.
func (o *opening) wait(ctx context.Context, limit time.Duration, ended func() (bool, error)) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	tick := time.NewTicker(o.opener.limit(o.opener.Poll, defaultPoll))
	defer tick.Stop()
	for {
		ok, err := ended()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-late.C:
			return fmt.Errorf("%w: it was not done after %s", transport.ErrNoServer, limit)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", transport.ErrUnreachable, context.Cause(ctx))
		}
	}
}
