package fake_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

func TestProgramsAreKnownByContentOrName(t *testing.T) {
	m := newMachine(t, func(o *fake.Options) {
		o.Resolve = func(i fake.Image) (fake.Program, bool) {
			ok := strings.HasPrefix(string(i.Head), "magic")
			return func(context.Context, *fake.Process) int { return 7 }, ok
		}
		o.Programs = map[string]fake.Program{"named.exe": func(context.Context, *fake.Process) int { return 8 }}
	})
	for path, data := range map[string]string{`C:\x.bin`: "magic", `C:\Named.exe`: "any", `C:\other.exe`: "any"} {
		if err := m.WriteFile(path, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]int{`C:\x.bin`: 7, `C:\NAMED.EXE`: 8} {
		p, err := m.StartProcess(path, nil, fake.Streams{})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Wait(); got != want {
			t.Errorf("%s ended with %d, want %d", path, got, want)
		}
	}
	for path, want := range map[string]error{`C:\other.exe`: fake.ErrBadImage, `C:\none.exe`: system.ErrNotExist, `C:\Windows`: system.ErrDenied} {
		if _, err := m.StartProcess(path, nil, fake.Streams{}); !errors.Is(err, want) {
			t.Errorf("starting %s: %v, want %v", path, err, want)
		}
	}
}

func TestKilledProcessLosesTheMachine(t *testing.T) {
	m := newMachine(t)
	started, finish := make(chan struct{}), make(chan struct{})
	after := make(chan error, 3)
	p, err := m.StartBuiltin("victim", nil, fake.Streams{}, func(ctx context.Context, p *fake.Process) int {
		s := p.System()
		f, err := s.Files.Create(`C:\half`, plan.AccessPublic)
		if err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(f, "half")
		close(started)
		<-finish
		_, werr := f.Write([]byte("more"))
		_, lerr := s.Files.Stat(`C:\half`)
		after <- werr
		after <- lerr
		after <- s.Clock.Sleep(context.Background(), time.Hour)
		<-ctx.Done()
		return 0
	})
	if err != nil {
		t.Fatal(err)
	}
	child, err := p.StartProcess(`C:\none`, nil, fake.Streams{})
	if child != nil || !errors.Is(err, system.ErrNotExist) {
		t.Errorf("child: %v", err)
	}
	<-started
	p.Kill()
	if exit := p.Wait(); exit != 1 {
		t.Errorf("exit %d", exit)
	}
	close(finish)
	for range 3 {
		if err := <-after; !errors.Is(err, fake.ErrKilled) {
			t.Errorf("a call after the kill: %v", err)
		}
	}
	if got := read(t, m.System().Files, `C:\half`); got != "half" {
		t.Errorf("the half-written file holds %q", got)
	}
	if err := m.System().Files.Remove(`C:\half`); err != nil {
		t.Errorf("the handle is still open: %v", err)
	}
}

func TestEnvironmentIsSeenByLaterProcessesOnly(t *testing.T) {
	m := newMachine(t)
	env := m.System().Env
	if err := env.Set("Path", `C:\k`); err != nil {
		t.Fatal(err)
	}
	early, err := m.StartBuiltin("a", nil, fake.Streams{}, untilKilled)
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Set("PATH", `C:\k;C:\x`); err != nil {
		t.Fatal(err)
	}
	late, err := m.StartBuiltin("b", nil, fake.Streams{}, untilKilled)
	if err != nil {
		t.Fatal(err)
	}
	if got := early.Getenv("path"); got != `C:\k` {
		t.Errorf("a running process sees %q", got)
	}
	if got := late.Getenv("path"); got != `C:\k;C:\x` {
		t.Errorf("a new process sees %q", got)
	}
	if got := m.Dump().Env; len(got) != 1 || got["Path"] != `C:\k;C:\x` {
		t.Errorf("the registry holds %v", got)
	}
	for _, bad := range [][2]string{{"", "x"}, {"A=B", "x"}, {"A", "x\x00"}, {"A", strings.Repeat("x", 32768)}} {
		if env.Set(bad[0], bad[1]) == nil {
			t.Errorf("Set(%q) passed", bad[0])
		}
	}
}

func TestInterceptKillsAtTheWrite(t *testing.T) {
	for name, tc := range map[string]struct {
		verdict fake.Verdict
		want    string
	}{
		"before":      {fake.Verdict{KillBefore: true}, ""},
		"before torn": {fake.Verdict{KillBefore: true, Keep: 3}, "ent"},
		"after":       {fake.Verdict{KillAfter: true}, "entry"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.Intercept(func(op fake.Op) fake.Verdict {
				if op.Kind == fake.OpWrite && string(op.Data) == "entry" && op.Path == `C:\j` {
					return tc.verdict
				}
				return fake.Verdict{}
			})
			result := make(chan error, 1)
			p, err := m.StartBuiltin("agent", nil, fake.Streams{}, func(_ context.Context, p *fake.Process) int {
				f, err := p.System().Files.Create(`C:\j`, plan.AccessSecret)
				if err != nil {
					result <- err
					return 1
				}
				_, err = f.Write([]byte("entry"))
				result <- err
				return 0
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := <-result; !errors.Is(err, fake.ErrKilled) {
				t.Errorf("the write answered %v", err)
			}
			if p.Wait() != 1 {
				t.Error("the process was not killed")
			}
			m.Intercept(nil)
			if got := read(t, m.System().Files, `C:\j`); got != tc.want {
				t.Errorf("the file holds %q, want %q", got, tc.want)
			}
		})
	}
}

func TestClockSkewAndSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, func(o *fake.Options) { o.Skew = time.Hour })
		defer m.Close()
		c := m.System().Clock
		start := time.Now()
		if got := c.Now().Sub(start); got != time.Hour {
			t.Errorf("skew %s", got)
		}
		if err := c.Sleep(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
		if got := time.Since(start); got != time.Minute {
			t.Errorf("slept %s", got)
		}
		m.SetSkew(-time.Hour)
		if got := time.Until(c.Now()); got != -time.Hour {
			t.Errorf("skew %s", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("Sleep of an ended context: %v", err)
		}
	})
}
