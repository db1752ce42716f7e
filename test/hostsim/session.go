package hostsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/cmd/wmcb/command"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// session serves one channel: a command, or the SFTP subsystem. A client that closes only the channel leaves the process
// running until the connection ends, as OpenSSH does.
func (c *serverConn) session(ch ssh.Channel, requests <-chan *ssh.Request) {
	var work sync.WaitGroup
	defer work.Wait()
	defer func() { _ = ch.Close() }()
	started := false
	for r := range requests {
		serve := c.request(ch, r)
		ok := serve != nil && !started
		if r.WantReply {
			c.h.turn()
			_ = r.Reply(ok, nil) // before the program can end and close the channel
		}
		if ok {
			started = true
			work.Go(serve)
		}
	}
}

// request is what a channel request starts, nil when it is refused.
func (c *serverConn) request(ch ssh.Channel, r *ssh.Request) (serve func()) {
	switch r.Type {
	case "exec":
		var m struct{ Command string }
		if ssh.Unmarshal(r.Payload, &m) == nil {
			return func() { c.exec(ch, m.Command) }
		}
	case "subsystem":
		var m struct{ Name string }
		if ssh.Unmarshal(r.Payload, &m) == nil && m.Name == "sftp" && c.sftpAllowed() {
			return func() { c.sftp(ch) }
		}
	}
	return nil
}

func (c *serverConn) sftpAllowed() bool {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	return !c.h.opts.NoSFTP && !c.h.knobs.RefuseSFTP
}

// Exit codes of the shells.
const (
	// exitUnknown is what both shells answer over SSH for a command that they do not find. (cmd's 9009 is the error
	// level inside a batch file; "cmd /c" answers 1.)
	exitUnknown = 1
	// exitBadImage is ERROR_BAD_EXE_FORMAT.
	exitBadImage = 193
)

func (c *serverConn) exec(ch ssh.Channel, line string) {
	exit, lost := 0, false
	c.h.watch(line, func() { exit, lost = c.run(&talk{Channel: ch, turn: c.h.turn}, line) })
	if lost {
		return // no exit status: the machine went away under the command
	}
	_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(exit)}))
	_ = ch.Close()
}

// watch counts a command, and tells when it begins and ends.
func (h *Host) watch(line string, run func()) {
	h.count(func(s *Stats) { s.Commands = append(s.Commands, line) })
	h.trace(MomentStart, line)
	run()
	h.trace(MomentEnd, line)
}

// served runs a command that came to `wmcb serve`.
func (h *Host) served(ctx context.Context, args []string, env command.Env) (exit int) {
	exe, err := env.System.Machine.Executable()
	if err != nil {
		exe = plan.AgentName
	}
	h.watch(strings.Join(append([]string{exe}, args...), " "), func() { exit = command.Run(ctx, args, env) })
	return exit
}

// run starts a command line's program and waits for it.
func (c *serverConn) run(ch ssh.Channel, line string) (exit int, lost bool) {
	words, err := split(c.h.opts.Shell, line)
	if err != nil || len(words) == 0 {
		_, _ = fmt.Fprintf(ch.Stderr(), "simulated shell: %v\r\n", errSyntax)
		return exitUnknown, false
	}
	p, err := c.start(ch, words)
	switch {
	case errors.Is(err, fake.ErrPoweredOff):
		return 0, true
	case errors.Is(err, fake.ErrBadImage):
		_, _ = fmt.Fprintf(ch.Stderr(), "%s is %v\r\n", words[0], fake.ErrBadImage)
		return exitBadImage, false
	case err != nil:
		_, _ = fmt.Fprintf(ch.Stderr(), "'%s' is not recognized as an internal or external command,\r\noperable program or batch file.\r\n", words[0])
		return exitUnknown, false
	}
	c.keep(p)
	defer c.drop(p)
	exit = p.Wait()
	return exit, p.Lost()
}

func (c *serverConn) start(ch ssh.Channel, words []string) (*fake.Process, error) {
	streams := fake.Streams{Stdin: ch, Stdout: ch, Stderr: ch.Stderr()}
	if builtin := c.builtin(words[0]); builtin != nil {
		return c.h.machine.StartBuiltin(words[0], words[1:], streams, builtin)
	}
	return c.h.machine.StartProcess(words[0], words[1:], streams)
}

// builtin finds a program of Windows itself.
func (c *serverConn) builtin(path string) fake.Program {
	switch strings.ToLower(path) {
	case `c:\windows\system32\shutdown.exe`:
		return shutdown
	case `c:\windows\system32\hostname.exe`:
		return hostname
	}
	return nil
}

// shutdown knows /r with /t, /f, /d and /c; the reboot begins when the program has returned.
func shutdown(_ context.Context, p *fake.Process) int {
	reboot := false
	args := p.Args()
	for i := 0; i < len(args); i++ {
		switch strings.ToLower(args[i]) {
		case "/r":
			reboot = true
		case "/f":
		case "/t", "/d", "/c":
			i++
		default:
			return 1
		}
	}
	if elevated, err := p.System().Machine.Elevated(); err != nil || !elevated {
		return 5
	}
	if !reboot {
		return 1
	}
	p.Machine().RequestReboot()
	return 0
}

func hostname(_ context.Context, p *fake.Process) int {
	name, err := p.System().Machine.Hostname()
	if err != nil {
		return 1
	}
	_, _ = io.WriteString(p.Stdout(), name+"\r\n")
	return 0
}
