package step_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// stack is containerd, kubelet on it and kube-proxy on that, with their executables.
func stack(r *rig) plan.Plan {
	var p plan.Plan
	for _, s := range []plan.Service{service("containerd"), service("kubelet", "containerd", "Tcpip"), service("kube-proxy", "kubelet")} {
		p.Files = append(p.Files, plan.File{Path: s.Exe, Access: plan.AccessPublic, Blob: r.blob("MZ " + s.Name)})
		p.Services = append(p.Services, s)
	}
	return p
}

// tcpip is a service of Windows that plans name and do not manage.
func tcpip() fake.Options {
	return fake.Options{
		Services: []system.ServiceConfig{{Name: "Tcpip", Exe: `C:\Windows\System32\other.exe`}},
	}
}

func withStack(t *testing.T, f func(*testing.T, *rig, plan.Plan)) {
	t.Helper()
	withRig(t, tcpip(), func(t *testing.T, r *rig) {
		r.write(`C:\Windows\System32\other.exe`, "MZ other")
		p := stack(r)
		r.apply(p)
		f(t, r, p)
	})
}

func (r *rig) state(name string) system.ServiceStatus {
	r.t.Helper()
	st, err := r.sys.Services.Status(name)
	r.must(err)
	return st
}

// TestW54Dependencies: names that nobody manages are allowed, an empty list equals none, so that the second pass restarts nothing, and
// services stop from the top.
func TestW54Dependencies(t *testing.T) {
	withStack(t, func(t *testing.T, r *rig, p plan.Plan) {
		pids := []uint32{r.state("containerd").PID, r.state("kubelet").PID, r.state("kube-proxy").PID}
		for i := range p.Services {
			if p.Services[i].DependsOn == nil {
				p.Services[i].DependsOn = []string{}
			}
		}
		r.frozen(func() { r.apply(p) })
		after := []uint32{r.state("containerd").PID, r.state("kubelet").PID, r.state("kube-proxy").PID}
		if d := cmp.Diff(pids, after); d != "" {
			t.Errorf("services were restarted: %s", d)
		}
		order, err := step.StopOrder("containerd", r.sys.Services.Dependents)
		r.must(err)
		if want := []string{"kube-proxy", "kubelet", "containerd"}; !slices.Equal(order, want) {
			t.Errorf("stop order %v, want %v", order, want)
		}
		r.apply(plan.Empty())
		for _, name := range []string{"containerd", "kubelet", "kube-proxy"} {
			_, err := r.sys.Services.Config(name)
			r.wants(err, system.ErrServiceNotFound)
		}
	})
}

func TestW54StopOrder(t *testing.T) {
	above := map[string][]string{"containerd": {"kubelet"}, "kubelet": {"hybrid-overlay"}, "hybrid-overlay": {"kube-proxy"}, "a": {"b"}, "b": {"a"}}
	lookup := func(n string) ([]string, error) { return above[n], nil }
	for start, want := range map[string][]string{
		"containerd": {"kube-proxy", "hybrid-overlay", "kubelet", "containerd"},
		"a":          {"b", "a"},
		"none":       {"none"},
	} {
		got, err := step.StopOrder(start, lookup)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", start, got, err, want)
		}
	}
}

// TestW50W53ArgumentsStayAList: blanks, quotes and trailing backslashes reach the service manager as they are.
func TestW50W53ArgumentsStayAList(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		args := []string{
			`--config=C:\Program Files\k8s node\kubelet.conf`, `--root-dir=C:\k\`, `--eviction-hard=memory.available<500Mi`, `--x="quoted"`, "",
			`C:\var\log\kube let\`,
		}
		p := plan.Plan{Services: []plan.Service{{Name: "kubelet", Exe: `C:\Program Files\k8s node\kubelet.exe`, Args: args}}}
		r.write(p.Services[0].Exe, "MZ")
		r.apply(p)
		have, err := r.sys.Services.Config("kubelet")
		r.must(err)
		if d := cmp.Diff(args, have.Args); d != "" || have.Exe != p.Services[0].Exe {
			t.Errorf("arguments were changed: %s", d)
		}
		r.frozen(func() { r.apply(p) })
	})
}

func TestW53ReadBackEqual(t *testing.T) {
	base := system.ServiceConfig{Name: "kubelet", Exe: `C:\Program Files\k\kubelet.exe`, Args: []string{"a b"}}
	with := func(f func(*system.ServiceConfig)) system.ServiceConfig {
		c := base
		f(&c)
		return c
	}
	for _, tc := range []struct {
		name  string
		have  system.ServiceConfig
		equal bool
	}{
		{"same", base, true},
		{"case of the path", with(func(c *system.ServiceConfig) { c.Exe = `c:\program files\K\kubelet.exe` }), true},
		{"display name as Windows fills it in", with(func(c *system.ServiceConfig) { c.DisplayName = "kubelet" }), true},
		{"empty lists", with(func(c *system.ServiceConfig) { c.DependsOn, c.Env = []string{}, []plan.EnvVar{} }), true},
		{"empty recovery", with(func(c *system.ServiceConfig) { c.Recovery = &plan.Recovery{ResetSeconds: 5} }), true},
		{"argument split", with(func(c *system.ServiceConfig) { c.Args = []string{"a", "b"} }), false},
		{"dependency", with(func(c *system.ServiceConfig) { c.DependsOn = []string{"x"} }), false},
		{"variable", with(func(c *system.ServiceConfig) { c.Env = []plan.EnvVar{{Name: "A", Value: "1"}} }), false},
		{"description", with(func(c *system.ServiceConfig) { c.Description = "x" }), false},
		{"recovery", with(func(c *system.ServiceConfig) { c.Recovery = &plan.Recovery{RestartDelaySeconds: []int{5}} }), false},
		{"start mode or account", with(func(c *system.ServiceConfig) { c.Altered = true }), false},
		{"executable", with(func(c *system.ServiceConfig) { c.Exe = `C:\k\kubelet.exe` }), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if why := step.ConfigDrift(tc.have, base); (why == "") != tc.equal {
				t.Errorf("drift %q, want equal %v", why, tc.equal)
			}
		})
	}
}

// TestRestartOnChange: a watched file, the executable, an executable among the arguments, and the configuration restart the service
// once; other files do not.
func TestRestartOnChange(t *testing.T) {
	file := func(path, content string) plan.File {
		return plan.File{Path: path, Access: plan.AccessPublic, Inline: []byte(content)}
	}
	base := func() plan.Plan {
		return plan.Plan{
			Files: []plan.File{
				file(`C:\k\runner.exe`, "MZ runner"), file(`C:\k\kubelet.exe`, "MZ kubelet"), file(`C:\k\kubelet.conf`, "1"), file(`C:\k\other.conf`, "1"),
			},
			Services: []plan.Service{{
				Name: "kubelet", Exe: `C:\k\runner.exe`, Args: []string{`C:\k\kubelet.exe`, `--config=C:\k\kubelet.conf`}, Watch: []string{`C:\k\kubelet.conf`},
			}},
		}
	}
	for _, tc := range []struct {
		name    string
		change  func(*plan.Plan)
		restart bool
	}{
		{"nothing", func(*plan.Plan) {}, false},
		{"another file", func(p *plan.Plan) { p.Files[3].Inline = []byte("2") }, false},
		{"watched file", func(p *plan.Plan) { p.Files[2].Inline = []byte("2") }, true},
		{"executable", func(p *plan.Plan) { p.Files[0].Inline = []byte("MZ runner 2") }, true},
		{"executable among the arguments", func(p *plan.Plan) { p.Files[1].Inline = []byte("MZ kubelet 2") }, true},
		{"argument", func(p *plan.Plan) { p.Services[0].Args = append(p.Services[0].Args, "--v=4") }, true},
		{"environment", func(p *plan.Plan) { p.Services[0].Env = []plan.EnvVar{{Name: "A", Value: "b"}} }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
				r.apply(base())
				before := r.state("kubelet").PID
				p := base()
				tc.change(&p)
				r.apply(p)
				after := r.state("kubelet").PID
				if (before != after) != tc.restart {
					t.Errorf("pid %d, then %d, want restart %v", before, after, tc.restart)
				}
				r.apply(p)
				if again := r.state("kubelet").PID; again != after {
					t.Error("restarted a second time")
				}
			})
		})
	}
}

func TestServiceIsStartedAgain(t *testing.T) {
	withStack(t, func(t *testing.T, r *rig, p plan.Plan) {
		r.must(r.sys.Services.Stop("kube-proxy"))
		r.must(r.sys.Clock.Sleep(t.Context(), time.Second))
		r.apply(p)
		if st := r.state("kube-proxy").State; st != system.ServiceRunning {
			t.Errorf("state %d", st)
		}
	})
}

// TestDependentOfSomebodyElse: a service that is not the agent's and depends on one of its services runs again after an update,
// also when the agent died while it was stopped.
func TestDependentOfSomebodyElse(t *testing.T) {
	withStack(t, func(t *testing.T, r *rig, p plan.Plan) {
		r.must(r.sys.Services.Create(system.ServiceConfig{Name: "Theirs", Exe: `C:\Windows\System32\other.exe`, DependsOn: []string{"containerd"}}))
		r.must(r.sys.Services.Start("Theirs"))
		r.must(r.sys.Clock.Sleep(t.Context(), time.Second))
		p.Services[0].Args = []string{"--new"}
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := r.sys
		cancelled.Services = stopSpy{Services: r.sys.Services, after: "containerd", then: cancel}
		for _, s := range step.Build(p, r.ledger, cancelled, r.opts) {
			if _, err := s.Apply(ctx); err != nil {
				break
			}
		}
		r.must(r.sys.Clock.Sleep(t.Context(), time.Second))
		if r.state("Theirs").State != system.ServiceStopped {
			t.Fatal("the run was not interrupted while the service was stopped")
		}
		r.apply(p)
		if st := r.state("Theirs").State; st != system.ServiceRunning {
			t.Errorf("state %d", st)
		}
	})
}

// stopSpy calls then once a service has been asked to stop.
type stopSpy struct {
	system.Services
	after string
	then  func()
}

func (s stopSpy) Stop(name string) error {
	err := s.Services.Stop(name)
	if name == s.after {
		s.then()
	}
	return err
}

func TestForeignService(t *testing.T) {
	withRig(t, fake.Options{Services: []system.ServiceConfig{{Name: "Kubelet", Exe: `C:\theirs\kubelet.exe`}}}, func(t *testing.T, r *rig) {
		r.write(`C:\k\kubelet.exe`, "MZ")
		before := r.m.Dump()
		_, err := r.one(plan.Plan{Services: []plan.Service{service("kubelet")}}).Apply(t.Context())
		r.wants(err, step.ErrForeign)
		r.apply(plan.Empty())
		r.same(before, r.m.Dump())
	})
}

// TestMarkedForDeletion: a service of ours whose removal was put off by an open handle is made anew once the handle is closed.
func TestMarkedForDeletion(t *testing.T) {
	for _, freed := range []bool{true, false} {
		t.Run(fmt.Sprintf("freed %v", freed), func(t *testing.T) {
			withStack(t, func(t *testing.T, r *rig, p plan.Plan) {
				release, err := r.m.HoldService("kube-proxy")
				r.must(err)
				r.wants(step.Stale(plan.Empty(), r.ledger, r.sys, r.opts)[0].Remove(t.Context()), system.ErrServiceMarked)
				if freed {
					time.AfterFunc(10*time.Second, release)
				} else {
					defer release()
				}
				steps := r.build(p)
				_, err = steps[len(steps)-1].Apply(t.Context())
				if !freed {
					r.wants(err, system.ErrServiceMarked)
					return
				}
				r.must(err)
				r.inSync(steps[len(steps)-1])
			})
		})
	}
}

func TestRemovalWaitsForMarkedService(t *testing.T) {
	withStack(t, func(t *testing.T, r *rig, _ plan.Plan) {
		release, err := r.m.HoldService("kubelet")
		r.must(err)
		for _, s := range step.Stale(plan.Empty(), r.ledger, r.sys, r.opts) {
			if s.Name() == "start-kubelet" {
				r.wants(s.Remove(t.Context()), system.ErrServiceMarked)
			}
		}
		release()
		r.apply(plan.Empty())
	})
}

func TestServiceFailures(t *testing.T) {
	exit := func(context.Context, *fake.Process) int { return 7 }
	mute := func(ctx context.Context, _ *fake.Process) int { <-ctx.Done(); return 0 }
	quit := func(_ context.Context, p *fake.Process) int {
		if s, ok := p.Service(); ok {
			s.Connect()
		}
		return 3
	}
	for _, tc := range []struct {
		name    string
		program fake.Program
		deps    []string
		want    error
	}{
		{"does not speak to the service manager", mute, nil, system.ErrServiceTimeout},
		{"ends before it speaks", exit, nil, nil},
		{"ends while it starts", quit, nil, step.ErrServiceExited},
		{"lacks a dependency", serve, []string{"absent"}, system.ErrServiceDependency},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withRig(t, fake.Options{Programs: map[string]fake.Program{"kubelet.exe": tc.program}}, func(t *testing.T, r *rig) {
				r.write(`C:\k\kubelet.exe`, "MZ")
				_, err := r.one(plan.Plan{Services: []plan.Service{service("kubelet", tc.deps...)}}).Apply(t.Context())
				if err == nil {
					t.Fatal("no error")
				}
				if tc.want != nil {
					r.wants(err, tc.want)
				}
			})
		})
	}
}

func TestStopTimesOut(t *testing.T) {
	deaf := func(ctx context.Context, p *fake.Process) int {
		if s, ok := p.Service(); ok {
			s.Running()
		}
		<-ctx.Done()
		return 0
	}
	withRig(t, fake.Options{Programs: map[string]fake.Program{"kubelet.exe": deaf}}, func(t *testing.T, r *rig) {
		r.write(`C:\k\kubelet.exe`, "MZ")
		r.apply(plan.Plan{Services: []plan.Service{service("kubelet")}})
		for _, s := range step.Stale(plan.Empty(), r.ledger, r.sys, r.opts) {
			r.wants(s.Remove(t.Context()), step.ErrServiceStop)
		}
	})
}

// TestNewTicketRestartsWhoReadIt: a kubelet that waits with a used ticket would go on asking with it.
func TestNewTicketRestartsWhoReadIt(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		const ticket = `C:\k\bootstrap-kubeconfig`
		kubelet, other := service("kubelet"), service("containerd")
		kubelet.Args = append(kubelet.Args, "--bootstrap-kubeconfig="+ticket)
		p := plan.Plan{Secrets: []plan.Secret{{Name: "ticket", Path: ticket}}, Services: []plan.Service{other, kubelet}}
		for _, s := range p.Services {
			p.Files = append(p.Files, plan.File{Path: s.Exe, Access: plan.AccessPublic, Blob: r.blob("MZ " + s.Name)})
		}
		pids := func() [2]uint32 { return [2]uint32{r.state("containerd").PID, r.state("kubelet").PID} }
		r.opts.Secrets = map[string][]byte{"ticket": []byte("first")}
		r.apply(p)
		before := pids()
		r.apply(p)
		if now := pids(); now != before {
			t.Errorf("the same ticket restarted something: %d, was %d", now, before)
		}
		r.opts.Secrets = map[string][]byte{"ticket": []byte("second")}
		r.apply(p)
		if now := pids(); now[0] != before[0] || now[1] == before[1] || now[1] == 0 {
			t.Errorf("containerd and kubelet are processes %d, were %d: only the kubelet has to be another", now, before)
		}
	})
}
