package hostsim_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/test/hostsim"
)

func TestCommandsInBothShells(t *testing.T) {
	for shell, badFirst := range map[hostsim.Shell]int{hostsim.ShellCmd: 0, hostsim.ShellPowerShell: 1} {
		t.Run(string(shell), func(t *testing.T) {
			key := newKey(t)
			h := newHost(t, key, func(o *hostsim.Options) { o.Shell = shell; o.Hostname = "win-worker-a" })
			c := dial(t, h, key)
			agent := installAgent(t, c)
			for line, want := range map[string]int{
				`C:\Windows\System32\hostname.exe`:   0,
				`"C:\Windows\System32\hostname.exe"`: badFirst,
				agent + ` version`:                   0,
				agent + ` nonsense`:                  2,
				`C:\k\none.exe`:                      1,
				`sc start x`:                         1,
				`hostname.exe & echo x`:              1,
				`C:\x.exe $(y)`:                      1,
			} {
				if got := run(t, c, line, nil); got.exit != want {
					t.Errorf("%s ended with %d (%s), want %d", line, got.exit, got.stderr, want)
				}
			}
			if got := run(t, c, `C:\Windows\System32\hostname.exe`, nil).stdout; got != "win-worker-a\r\n" {
				t.Errorf("host name %q", got)
			}
			upload(t, newSFTP(t, c), `C:\k\wmcb.exe`, []byte("another file"))
			if got := run(t, c, `C:\k\wmcb.exe version`, nil); got.exit != 193 {
				t.Errorf("a file that is no program ended with %d", got.exit)
			}
		})
	}
}

func TestTornAgentIsNoProgram(t *testing.T) {
	key := newKey(t)
	h := newHost(t, key)
	c := dial(t, h, key)
	upload(t, newSFTP(t, c), `C:\k\wmcb.exe`, agentFile()[:10])
	if got := run(t, c, `C:\k\wmcb.exe version`, nil); got.exit != 193 {
		t.Errorf("half an agent ended with %d", got.exit)
	}
}

func TestSFTPBehavesAsOnWindows(t *testing.T) {
	key := newKey(t)
	h := newHost(t, key)
	s := newSFTP(t, dial(t, h, key))
	if err := s.MkdirAll("/C:/k/sub"); err != nil {
		t.Fatal(err)
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), 20000)
	upload(t, s, `C:\k\Big.bin`, big)
	f, err := s.Open("/c:/K/big.BIN")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, big) {
		t.Errorf("read back %d bytes, %v", len(got), err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	upload(t, s, `C:\k\second`, []byte("x"))
	if err := s.Rename("/C:/k/second", "/C:/k/Big.bin"); err == nil {
		t.Error("a plain rename replaced its target")
	}
	for name, err := range map[string]error{
		"no drive": second(s.Stat("/k/Big.bin")), "no file": second(s.Stat("/C:/k/none")), "relative to home": second(s.Stat("none")),
	} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"device": second(s.Create("/C:/k/NUL")), "stream": second(s.Create("/C:/k/a:b")), "dot": second(s.Create("/C:/k/a.")),
		"full folder": s.RemoveDirectory("/C:/k"), "file as folder": s.RemoveDirectory("/C:/k/Big.bin"),
	} {
		if err == nil {
			t.Errorf("%s passed", name)
		}
	}
	infos, err := s.ReadDir("/C:/k")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range infos {
		names = append(names, i.Name())
	}
	if got := strings.Join(names, " "); got != "Big.bin second sub" {
		t.Errorf("listing %q", got)
	}
	if i, err := h.Machine().System().Files.Stat(`C:\k\Big.bin`); err != nil || i.Access != "" {
		t.Errorf("an uploaded file has access %q, %v; want inherited", i.Access, err)
	}
	if err := s.Truncate("/C:/k/second", 0); err != nil {
		t.Error(err)
	}
	x, err := s.OpenFile("/C:/k/second", os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err == nil {
		_ = x.Close()
		t.Error("O_EXCL opened a file that exists")
	}
}

func second[T any](_ T, err error) error { return err }

func TestSFTPSharingViolationAndFullDisk(t *testing.T) {
	key := newKey(t)
	h := newHost(t, key)
	s := newSFTP(t, dial(t, h, key))
	upload(t, s, `C:\k\a.txt`, []byte("x"))
	release, err := h.Machine().Hold(`C:\k\a.txt`)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove("/C:/k/a.txt"); err == nil {
		t.Error("removed an open file")
	}
	release()
	h.Machine().FillDisk(1000)
	f, err := s.Create("/C:/k/big")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 5000)); err == nil {
		t.Error("wrote more than fits")
	}
	_ = f.Close()
}

func TestMaxSessions(t *testing.T) {
	key := newKey(t)
	h := newHost(t, key, func(o *hostsim.Options) { o.MaxSessions = 2 })
	c := dial(t, h, key)
	for range 2 {
		newSFTP(t, c)
	}
	if _, err := c.NewSession(); err == nil {
		t.Fatal("a third session was opened")
	}
	if s := h.Stats(); s.Sessions != 2 || s.Refused != 1 {
		t.Errorf("stats %+v", s)
	}
}

// The server offers keyboard-interactive and fails it without a prompt, after a late banner.
func TestW40Authentication(t *testing.T) {
	key := newKey(t)
	h := newHost(t, key, func(o *hostsim.Options) { o.OfferPassword, o.OfferInteractive, o.MaxAuthTries = true, true, 2 })
	h.SetKnobs(hostsim.Knobs{BannerDelay: 300 * time.Millisecond})
	start := time.Now()
	_ = dial(t, h, key).Close()
	if time.Since(start) < 300*time.Millisecond {
		t.Error("the banner was not late")
	}
	_, err := tryDial(h, newKey(t), func(cfg *ssh.ClientConfig) {
		asked := ssh.KeyboardInteractive(func(_, _ string, questions []string, _ []bool) ([]string, error) {
			if len(questions) > 0 {
				t.Error("there was a prompt")
			}
			return nil, nil
		})
		cfg.Auth = append(cfg.Auth, asked)
	})
	if err == nil {
		t.Error("a wrong key logged in")
	}
	var keys []ssh.Signer
	for range 6 {
		keys = append(keys, newKey(t))
	}
	before := h.Stats().AuthAttempts
	if _, err := tryDial(h, key, func(cfg *ssh.ClientConfig) { cfg.Auth = []ssh.AuthMethod{ssh.PublicKeys(append(keys, key)...)} }); err == nil {
		t.Error("the right key behind six others logged in over MaxAuthTries")
	}
	if got := h.Stats().AuthAttempts - before; got != 2 {
		t.Errorf("%d attempts on one connection", got)
	}
	if _, err := tryDial(h, key, func(cfg *ssh.ClientConfig) { cfg.User = "nobody" }); err == nil {
		t.Error("an unknown account logged in")
	}
}

func TestKeysThatChange(t *testing.T) {
	key, late := newKey(t), newKey(t)
	h := newHost(t, key)
	old := h.HostKey()
	if _, err := tryDial(h, late); err == nil {
		t.Error("a key that is not installed logged in")
	}
	h.SetAuthorizedKeys(late.PublicKey())
	c, err := tryDial(h, late)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	h.SetHostKey(newKey(t))
	if h.HostKey() == old {
		t.Error("the host key did not change")
	}
	pinned, _, _, _, err := ssh.ParseAuthorizedKey([]byte(old))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tryDial(h, late, func(cfg *ssh.ClientConfig) { cfg.HostKeyCallback = ssh.FixedHostKey(pinned) }); err == nil {
		t.Error("the old host key was still shown")
	}
}

func TestRebootLosesTheExitStatus(t *testing.T) {
	key := newKey(t)
	block := make(chan struct{})
	h := newHost(t, key)
	c := dial(t, h, key)
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	s.Stdin = neverEnding{block}
	defer close(block)
	agent := installAgent(t, c)
	if err := s.Start(agent + " receive --json"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent runs", 5*time.Second, func() bool { return running(h, agent) })
	before := bootID(t, h)
	if got := run(t, c, `C:\Windows\System32\shutdown.exe /r /t 0 /f /d p:4:1`, nil); got.exit > 0 {
		t.Errorf("shutdown ended with %d", got.exit)
	}
	if err := s.Wait(); err == nil || errors.As(err, new(*ssh.ExitError)) {
		t.Errorf("the command that ran during the reboot ended with %v", err)
	}
	eventually(t, "the machine is back", 10*time.Second, func() bool {
		c, err := tryDial(h, key)
		if err != nil {
			return false
		}
		_ = c.Close()
		return bootID(t, h) != before
	})
}

type neverEnding struct{ stop chan struct{} }

func (n neverEnding) Read([]byte) (int, error) {
	<-n.stop
	return 0, io.EOF
}

func bootID(t testing.TB, h *hostsim.Host) string {
	t.Helper()
	id, err := h.Machine().System().Machine.BootID()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func running(h *hostsim.Host, exe string) bool {
	for _, p := range h.Machine().Processes() {
		if strings.EqualFold(p.Exe(), exe) {
			return true
		}
	}
	return false
}

func TestChildrenEndWithTheConnection(t *testing.T) {
	key := newKey(t)
	h := newHost(t, key)
	c := dial(t, h, key)
	agent := installAgent(t, c)
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	block := make(chan struct{})
	defer close(block)
	s.Stdin = neverEnding{block}
	if err := s.Start(agent + " receive --json"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent runs", 5*time.Second, func() bool { return running(h, agent) })
	_ = c.Close()
	eventually(t, "the agent ends", 5*time.Second, func() bool { return !running(h, agent) && h.Stats().Open == 0 })
}

func TestDroppedLinkCutsConnections(t *testing.T) {
	key := newKey(t)
	h := newHost(t, key)
	c := dial(t, h, key)
	ip, _ := h.Addr()
	if err := h.Machine().System().Networks.Create(t.Context(), network(ip)); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil {
		t.Error("the connection ended orderly")
	}
	if _, err := tryDial(h, key); err == nil {
		t.Error("connected while the link was down")
	}
	eventually(t, "the link is back", 5*time.Second, func() bool {
		c, err := tryDial(h, key)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func TestKnobs(t *testing.T) {
	key := newKey(t)
	h := newHost(t, key)
	data := randomBytes(300 << 10)
	send := func(t *testing.T, k hostsim.Knobs) (time.Duration, error) {
		t.Helper()
		h.SetKnobs(k)
		defer h.SetKnobs(hostsim.Knobs{})
		start := time.Now()
		c, err := tryDial(h, key)
		if err != nil {
			return 0, err
		}
		defer func() { _ = c.Close() }()
		s, err := newSFTPOrError(c)
		if err != nil {
			return 0, err
		}
		f, err := s.Create("/C:/up")
		if err != nil {
			return 0, err
		}
		if _, err = f.ReadFrom(bytes.NewReader(data)); err == nil {
			err = f.Close()
		}
		return time.Since(start), err
	}
	plainTime, err := send(t, hostsim.Knobs{})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := send(t, hostsim.Knobs{Latency: 20 * time.Millisecond}); err != nil || d < plainTime+80*time.Millisecond {
		t.Errorf("latency: %s (without %s), %v", d, plainTime, err)
	}
	if d, err := send(t, hostsim.Knobs{Bandwidth: 1 << 20}); err != nil || d < 250*time.Millisecond {
		t.Errorf("bandwidth: %s, %v", d, err)
	}
	before := h.Stats().Received
	if _, err := send(t, hostsim.Knobs{CutAfter: 100 << 10}); err == nil {
		t.Error("a connection that is cut carried everything")
	}
	if got := h.Stats().Received - before; got != 100<<10 {
		t.Errorf("the connection was cut after %d bytes", got)
	}
	if _, err := send(t, hostsim.Knobs{RefuseSFTP: true}); err == nil {
		t.Error("SFTP was not refused")
	}
	if _, err := send(t, hostsim.Knobs{RefuseSessions: true}); err == nil {
		t.Error("sessions were not refused")
	}
	eventually(t, "no connection is left", 5*time.Second, func() bool { return h.Stats().Open == 0 })
}

func TestHangAndDrip(t *testing.T) {
	key := newKey(t)
	h := newHost(t, key)
	quick := func(cfg *ssh.ClientConfig) { cfg.Timeout = 300 * time.Millisecond }
	h.SetKnobs(hostsim.Knobs{Hang: true})
	if _, err := tryDial(h, key, quick); err == nil {
		t.Error("logged in to a host that hangs")
	}
	h.SetKnobs(hostsim.Knobs{Drip: 50 * time.Millisecond})
	if _, err := tryDial(h, key, quick); err == nil {
		t.Error("logged in within 300 ms over a connection that drips")
	}
	h.SetKnobs(hostsim.Knobs{})
	c := dial(t, h, key)
	h.SetKnobs(hostsim.Knobs{Hang: true})
	answered := make(chan error, 1)
	go func() {
		_, err := c.NewSession()
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("an open connection did not hang: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	h.SetKnobs(hostsim.Knobs{})
	if err := <-answered; err != nil {
		t.Errorf("after the hang: %v", err)
	}
}

func TestPowerCutInTheMiddle(t *testing.T) {
	key := newKey(t)
	h := newHost(t, key)
	c := dial(t, h, key)
	h.Machine().PowerCut(fake.TearZeros)
	if err := c.Wait(); err == nil {
		t.Error("the connection ended orderly")
	}
	eventually(t, "the door is shut", 5*time.Second, func() bool { _, err := tryDial(h, key); return err != nil })
	if err := h.Machine().PowerOn(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the machine is back", 5*time.Second, func() bool {
		c, err := tryDial(h, key)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func TestCloseEndsEverything(t *testing.T) {
	before := runtime.NumGoroutine()
	key := newKey(t)
	for range 5 {
		h, err := hostsim.New(hostsim.Options{AuthorizedKeys: []ssh.PublicKey{key.PublicKey()}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := tryDial(h, key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newSFTPOrError(c); err != nil {
			t.Fatal(err)
		}
		h.Machine().RequestReboot()
		h.Close()
		h.Close()
		_ = c.Close()
	}
	eventually(t, "goroutines end", 5*time.Second, func() bool { return runtime.NumGoroutine() <= before })
}
