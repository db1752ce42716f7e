//go:build linux && wine

package wine

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// station is a machine that is on, with somebody logged in.
type station struct {
	*Machine
	t      *testing.T
	signer ssh.Signer
}

func newStation(t *testing.T) *station {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	k, err := Prepare(ctx, ".", os.Stdout)
	must(t, err)
	n, err := k.NewNetwork(ctx, netip.MustParsePrefix("10.78.0.0/24"))
	must(t, err)
	t.Cleanup(func() { must(t, n.Close()) })
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	must(t, err)
	m, err := n.NewMachine(Options{
		Name: "WIN-Bench", Address: n.Address(1).String(), Keys: []ssh.PublicKey{signer.PublicKey()}, Dir: t.TempDir(), FeatureMissing: true, Logf: t.Logf,
	})
	must(t, err)
	t.Cleanup(func() { must(t, m.Destroy()) })
	began := time.Now()
	must(t, m.PowerOn(ctx))
	t.Logf("a machine's SSH service answers %.1f s after power", time.Since(began).Seconds())
	return &station{m, t, signer}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a command line over SSH and returns its output and exit code.
func (s *station) run(line string) (out string, exit int) {
	s.t.Helper()
	c, err := ssh.Dial("tcp", net.JoinHostPort(s.Address(), "22"), &ssh.ClientConfig{
		User: "Administrator", Auth: []ssh.AuthMethod{ssh.PublicKeys(s.signer)}, HostKeyCallback: ssh.FixedHostKey(s.HostKey()),
	})
	must(s.t, err)
	defer c.Close()
	session, err := c.NewSession()
	must(s.t, err)
	b, err := session.CombinedOutput(line)
	var code *ssh.ExitError
	if errors.As(err, &code) {
		return string(b), code.ExitStatus()
	}
	must(s.t, err)
	return string(b), 0
}

// build compiles a package, or its tests, for Windows and puts it on the machine.
func (s *station) build(path, pkg string, args ...string) {
	s.t.Helper()
	out := filepath.Join(s.t.TempDir(), "program.exe")
	cmd := exec.CommandContext(s.t.Context(), "go", slices.Concat(args, []string{"-o", out, pkg})...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("building %s: %v: %s", pkg, err, b)
	}
	b, err := os.ReadFile(out)
	must(s.t, err)
	must(s.t, s.Put(path, b))
}

// hostFacts are those of docs/formats.md that are looked at here.
type hostFacts struct {
	Hostname, BootID string
	Build            int
	Elevated         bool
	Features         []string
}

// facts asks the agent, which lies in C:\wmcb.exe.
func (s *station) facts() (f hostFacts) {
	s.t.Helper()
	out, exit := s.run(`C:\wmcb.exe facts --json`)
	if exit != 0 {
		s.t.Fatalf("wmcb facts: exit code %d: %s", exit, out)
	}
	must(s.t, json.Unmarshal([]byte(out), &f))
	return f
}

// TestMachine: what the operator needs of a machine, and the ways of its power.
//
//evidence:wine facts
func TestMachine(t *testing.T) {
	s := newStation(t)
	s.build(`C:\wmcb.exe`, "./cmd/wmcb", "build", "-trimpath")
	first := s.facts()
	if first.Hostname != "WIN-Bench" || first.Build != 20348 || !first.Elevated || len(first.Features) != 0 {
		t.Errorf("facts %+v", first)
	}
	if out, exit := s.run(`powershell -Command "exit 0"`); exit != 1 {
		t.Errorf("powershell: exit code %d, want 1: %s", exit, out)
	}
	if got := s.Started(); len(got) != 1 || !strings.HasPrefix(got[0], "powershell") {
		t.Errorf("recorded %q", got)
	}
	services, err := s.Services(t.Context())
	must(t, err)
	if got := services["sshd"]; got.State != 4 || !strings.Contains(got.Command, "guest.exe") {
		t.Errorf("the SSH service is %+v", got)
	}
	must(t, s.PullPlug())
	must(t, s.PowerOn(t.Context()))
	second := s.facts()
	if out, exit := s.run(`C:\Windows\System32\shutdown.exe /r /t 0`); exit != 0 {
		t.Errorf("shutdown: exit code %d: %s", exit, out)
	}
	limit, tick := time.After(time.Minute), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for s.Boots() < 3 {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("shutdown.exe does not restart the machine")
		}
	}
	must(t, s.untilSSH(t.Context()))
	third := s.facts()
	if ids := []string{first.BootID, second.BootID, third.BootID}; len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 3 {
		t.Errorf("boot ids %q are not three", ids)
	}
}

// lacking are tests of the agent's Windows code that Wine fails, with what it lacks.
func lacking() map[string]string {
	return map[string]string{
		"TestReparsePointsAreNotFollowed": "symbolic links to folders",
		"TestUnclosedFileCannotBeOpened":  "a file marked for deletion can be opened",
		"TestCertificates":                "a certificate cannot be deleted from a store",
		"TestRouteAddDelete":              "CreateIpForwardEntry2",
	}
}

// TestAgentsWindowsCode runs the tests of the agent's Windows code: files and access lists, services, firewall, features, networks.
//
//evidence:wine access-control set-environment enable-features open-firewall
func TestAgentsWindowsCode(t *testing.T) {
	s := newStation(t)
	s.build(`C:\work\windows.test.exe`, "./pkg/agent/system/windows", "test", "-c")
	// The tests look for these from the folder that they run in; a path cannot lead above the root of C:.
	for _, from := range []struct{ root, below, to string }{
		{"../../pkg/agent/system/windows", "testdata", `C:\work\`},
		{"../../pkg", "planner/testdata/networks", `C:\`},
	} {
		must(t, filepath.WalkDir(filepath.Join(from.root, from.below), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			must(t, err)
			below, err := filepath.Rel(from.root, path)
			must(t, err)
			return s.Put(from.to+strings.ReplaceAll(below, "/", `\`), b)
		}))
	}
	var left []string
	for name := range lacking() {
		left = append(left, name)
	}
	out, exit := s.run(`cd C:\work && windows.test.exe -test.v -test.skip ^(` + strings.Join(left, "^|") + `)$`)
	passed := strings.Count(out, "\n--- PASS")
	if exit != 0 || passed < 50 {
		var said bytes.Buffer
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, "=== ") && !strings.Contains(line, "--- PASS") {
				said.WriteString(line)
			}
		}
		t.Errorf("exit code %d, %d passed:\n%s", exit, passed, said.String())
	}
	t.Logf("%d tests of the agent's Windows code pass under Wine with shims; left out are %v", passed, lacking())
}
