package fake_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// withServices is a machine in a bubble with programs that exist as files in C:\.
func withServices(t *testing.T, programs map[string]fake.Program, change ...func(*fake.Options)) *fake.Machine {
	t.Helper()
	m := newMachine(t, append(change, func(o *fake.Options) { o.Programs = programs })...)
	for name := range programs {
		if err := m.WriteFile(`C:\`+name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func create(t *testing.T, m *fake.Machine, name, exe string, change ...func(*system.ServiceConfig)) {
	t.Helper()
	cfg := system.ServiceConfig{Name: name, Exe: `C:\` + exe}
	for _, c := range change {
		c(&cfg)
	}
	if err := m.System().Services.Create(cfg); err != nil {
		t.Fatal(err)
	}
}

func dependsOn(names ...string) func(*system.ServiceConfig) {
	return func(c *system.ServiceConfig) { c.DependsOn = names }
}

func wantState(t *testing.T, m *fake.Machine, name string, state system.ServiceState, exit uint32) {
	t.Helper()
	synctest.Wait()
	got, err := m.System().Services.Status(name)
	if err != nil {
		t.Fatal(err)
	}
	if got.State != state || got.ExitCode != exit {
		t.Errorf("service %s is in state %d with exit code %d, want %d and %d", name, got.State, got.ExitCode, state, exit)
	}
	if (got.PID == 0) != (state == system.ServiceStopped) {
		t.Errorf("service %s in state %d has process %d", name, got.State, got.PID)
	}
}

func TestServiceNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withServices(t, map[string]fake.Program{"good.exe": goodService})
		defer m.Close()
		s := m.System().Services
		create(t, m, "a", "good.exe")
		create(t, m, "b", "good.exe", dependsOn("A"))
		_, config := s.Config("none")
		_, status := s.Status("none")
		check := func(name string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		check("config 1060", config, system.ErrServiceNotFound)
		check("status 1060", status, system.ErrServiceNotFound)
		check("start 1060", s.Start("none"), system.ErrServiceNotFound)
		check("stop 1062", s.Stop("a"), system.ErrServiceNotActive)
		check("control 1062", s.Control("a", 128), system.ErrServiceNotActive)
		check("create 1073", s.Create(system.ServiceConfig{Name: "A", Exe: "x"}), system.ErrExist)
		check("start", s.Start("B"), nil)
		wantState(t, m, "a", system.ServiceRunning, 0)
		wantState(t, m, "b", system.ServiceRunning, 0)
		check("start 1056", s.Start("a"), system.ErrServiceRunning)
		check("stop 1051", s.Stop("a"), system.ErrDependentsRunning)
		deps, err := s.Dependents("a")
		if diff := cmp.Diff([]string{"b"}, deps); diff != "" || err != nil {
			t.Errorf("dependents: %v %v", diff, err)
		}
		if s.Control("a", 127) == nil || s.Control("a", 256) == nil {
			t.Error("a control code out of range passed")
		}
		check("stop b", s.Stop("b"), nil)
		synctest.Wait()
		check("stop a", s.Stop("a"), nil)
		wantState(t, m, "a", system.ServiceStopped, 0)
		if err := s.Update(system.ServiceConfig{Name: "a", Exe: "x", DependsOn: []string{"b"}}); err == nil {
			t.Error("a circle of dependencies passed")
		}
	})
}

func TestServiceDependencies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withServices(t, map[string]fake.Program{"good.exe": goodService, "dead.exe": func(context.Context, *fake.Process) int { return 3 }})
		defer m.Close()
		create(t, m, "missing", "good.exe", dependsOn("nobody"))
		create(t, m, "dead", "dead.exe")
		create(t, m, "onDead", "good.exe", dependsOn("dead"))
		s := m.System().Services
		for name, code := range map[string]uint32{"missing": 1075, "onDead": 1068} {
			err := s.Start(name)
			var e *fake.Error
			if !errors.As(err, &e) || e.Code != code || !errors.Is(err, system.ErrServiceDependency) {
				t.Errorf("start of %s: %v, want %d", name, err, code)
			}
			wantState(t, m, name, system.ServiceStopped, code)
		}
	})
}

func TestServiceThatNeverReportsTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withServices(t, map[string]fake.Program{"mute.exe": untilKilled})
		defer m.Close()
		create(t, m, "mute", "mute.exe")
		start := time.Now()
		if err := m.System().Services.Start("mute"); !errors.Is(err, system.ErrServiceTimeout) {
			t.Errorf("start: %v", err)
		}
		if got := time.Since(start); got != 30*time.Second {
			t.Errorf("gave up after %s", got)
		}
		wantState(t, m, "mute", system.ServiceStopped, 1053)
		if n := len(m.Processes()); n != 0 {
			t.Errorf("%d processes are left", n)
		}
	})
}

func TestServiceThatConnectsStaysPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withServices(t, map[string]fake.Program{"slow.exe": func(ctx context.Context, p *fake.Process) int {
			s, _ := p.Service()
			s.Connect()
			if p.Sleep(ctx, time.Minute) != nil {
				return 1
			}
			return goodService(ctx, p)
		}})
		defer m.Close()
		create(t, m, "slow", "slow.exe")
		s := m.System().Services
		if err := s.Start("slow"); err != nil {
			t.Fatal(err)
		}
		wantState(t, m, "slow", system.ServiceStartPending, 0)
		if err := s.Stop("slow"); err == nil {
			t.Error("a service that starts took a stop control (1061)")
		}
		pass(t, time.Minute)
		wantState(t, m, "slow", system.ServiceRunning, 0)
	})
}

func TestServiceMarkedForDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withServices(t, map[string]fake.Program{"good.exe": goodService})
		defer m.Close()
		create(t, m, "a", "good.exe")
		s := m.System().Services
		release, err := m.HoldService("a")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start("a"); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete("a"); err != nil {
			t.Fatal(err)
		}
		cfg := system.ServiceConfig{Name: "a", Exe: `C:\good.exe`}
		for name, err := range map[string]error{"delete": s.Delete("a"), "create": s.Create(cfg), "update": s.Update(cfg), "start": s.Start("a")} {
			if !errors.Is(err, system.ErrServiceMarked) {
				t.Errorf("%s of a marked service: %v, want 1072", name, err)
			}
		}
		if err := s.Stop("a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := s.Create(cfg); !errors.Is(err, system.ErrServiceMarked) {
			t.Errorf("create while a handle is open: %v", err)
		}
		release()
		if err := s.Create(cfg); err != nil {
			t.Errorf("create after the last handle: %v", err)
		}
	})
}

func TestServiceRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Duration
		begin := time.Now()
		m := withServices(t, map[string]fake.Program{"crash.exe": func(ctx context.Context, p *fake.Process) int {
			starts = append(starts, time.Since(begin))
			s, _ := p.Service()
			s.Running()
			if len(starts) > 4 {
				return goodService(ctx, p)
			}
			_ = p.Sleep(ctx, time.Second)
			return 9
		}})
		defer m.Close()
		create(t, m, "c", "crash.exe", func(c *system.ServiceConfig) {
			c.Recovery = &plan.Recovery{RestartDelaySeconds: []int{5, 10}, ResetSeconds: 600}
		})
		if err := m.System().Services.Start("c"); err != nil {
			t.Fatal(err)
		}
		pass(t, time.Second)
		wantState(t, m, "c", system.ServiceStopped, 1067)
		pass(t, time.Hour)
		want := []time.Duration{0, 6 * time.Second, 17 * time.Second, 28 * time.Second, 39 * time.Second}
		if diff := cmp.Diff(want, starts); diff != "" {
			t.Error(diff)
		}
		if err := m.System().Services.Stop("c"); err != nil {
			t.Fatal(err)
		}
		pass(t, time.Hour)
		if len(starts) != len(want) {
			t.Error("a stopped service was restarted")
		}
	})
}

func TestServiceControls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan uint32, 1)
		m := withServices(t, map[string]fake.Program{"c.exe": func(ctx context.Context, p *fake.Process) int {
			s, _ := p.Service()
			s.Running()
			got <- <-s.Controls()
			<-s.Stopping()
			<-ctx.Done()
			return 0
		}})
		defer m.Close()
		create(t, m, "c", "c.exe")
		s := m.System().Services
		if err := s.Start("c"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := s.Control("c", 200); err != nil {
			t.Fatal(err)
		}
		if code := <-got; code != 200 {
			t.Errorf("got code %d", code)
		}
		if err := s.Stop("c"); err != nil {
			t.Fatal(err)
		}
		wantState(t, m, "c", system.ServiceStopPending, 0)
	})
}

func TestBootStartsServicesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		record := func(ctx context.Context, p *fake.Process) int {
			order = append(order, p.Args()[0])
			return goodService(ctx, p)
		}
		m := withServices(t, map[string]fake.Program{"r.exe": record})
		defer m.Close()
		arg := func(name string) func(*system.ServiceConfig) {
			return func(c *system.ServiceConfig) { c.Args = []string{name} }
		}
		create(t, m, "kubelet", "r.exe", arg("kubelet"), dependsOn("zcontainerd"))
		create(t, m, "zcontainerd", "r.exe", arg("containerd"))
		create(t, m, "aproxy", "r.exe", arg("proxy"), dependsOn("kubelet"))
		before, err := m.System().Machine.BootID()
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"containerd", "kubelet", "proxy"}, order); diff != "" {
			t.Error(diff)
		}
		after, err := m.System().Machine.BootID()
		if err != nil || before == after {
			t.Errorf("boot id %q then %q, %v", before, after, err)
		}
		wantState(t, m, "aproxy", system.ServiceRunning, 0)
	})
}

func TestRebootEndsServicesAndPendingThings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withServices(t, map[string]fake.Program{"stubborn.exe": func(ctx context.Context, p *fake.Process) int {
			s, _ := p.Service()
			s.Running()
			<-ctx.Done()
			return 0
		}})
		defer m.Close()
		create(t, m, "s", "stubborn.exe")
		sys := m.System()
		if err := sys.Services.Start("s"); err != nil {
			t.Fatal(err)
		}
		if reboot, err := sys.Features.Enable(t.Context(), "containers"); !reboot || err != nil {
			t.Errorf("Enable = %v, %v", reboot, err)
		}
		if on, pending, err := sys.Features.Enabled("Containers"); on || !pending || err != nil {
			t.Errorf("Enabled = %v, %v, %v", on, pending, err)
		}
		if err := sys.Services.Delete("s"); err != nil {
			t.Fatal(err)
		}
		var events []fake.Event
		m.Watch(func(e fake.Event) { events = append(events, e) })
		start := time.Now()
		m.RequestReboot()
		pass(t, time.Minute)
		if diff := cmp.Diff([]fake.Event{fake.EventDown, fake.EventUp}, events); diff != "" {
			t.Error(diff)
		}
		if got := time.Since(start); got < 10*time.Second {
			t.Errorf("the reboot did not wait for the service: %s", got)
		}
		if on, pending, err := sys.Features.Enabled("Containers"); !on || pending || err != nil {
			t.Errorf("after the reboot Enabled = %v, %v, %v", on, pending, err)
		}
		if _, err := sys.Services.Status("s"); !errors.Is(err, system.ErrServiceNotFound) {
			t.Errorf("a marked service survived: %v", err)
		}
		if _, err := sys.Features.Enable(t.Context(), "Nonsense"); !errors.Is(err, system.ErrUnsupported) {
			t.Errorf("an unknown feature: %v", err)
		}
	})
}
