package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/pkg/plan"
)

const exe = `C:\Windows\wmcb\0123456789abcdef\wmcb.exe`

// rig is a machine on which wmcb.exe is this package.
type rig struct {
	t *testing.T
	m *fake.Machine
	// exe is where the program is run from.
	exe string
}

func withRig(t *testing.T, o fake.Options, f func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Executable = exe
		o.Programs = map[string]fake.Program{"wmcb.exe": wmcb}
		m := fake.New(o)
		defer m.Close()
		if err := m.WriteFile(exe, []byte("MZ wmcb")); err != nil {
			t.Fatal(err)
		}
		f(t, &rig{t, m, exe})
	})
}

// wmcb is the program, as a service or not.
func wmcb(ctx context.Context, p *fake.Process) int {
	env := Env{System: p.System(), Version: "v1.2.3", Stdin: p.Stdin(), Stdout: p.Stdout(), Stderr: p.Stderr()}
	if s, ok := p.Service(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-s.Stopping():
				cancel()
			case <-ctx.Done():
			}
		}()
		s.Running()
		env.Controls = s.Controls()
	}
	return Run(ctx, p.Args(), env)
}

// run runs wmcb as a process of its own.
func (r *rig) run(stdin string, args ...string) (exit int, stdout, stderr string) {
	r.t.Helper()
	var out, errs output
	p, err := r.m.StartProcess(r.exe, args, fake.Streams{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs})
	if err != nil {
		r.t.Fatal(err)
	}
	exit = p.Wait()
	return exit, out.String(), errs.String()
}

// output collects what a process writes; the function behind a process that was killed may go on writing for a moment.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func envelope(t *testing.T, generation int64, p plan.Plan) string {
	t.Helper()
	p.APIVersion = plan.APIVersion
	b, err := json.Marshal(plan.Envelope{APIVersion: plan.EnvelopeVersion, Host: "host-1", Generation: generation, Plan: p})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func variable(value string) plan.Plan {
	return plan.Plan{Env: []plan.EnvVar{{Name: "A", Value: value}}}
}

// reports reads JSON lines, which must be ASCII and nothing but reports.
func reports(t *testing.T, out string) []plan.Report {
	t.Helper()
	var all []plan.Report
	for line := range strings.Lines(out) {
		var r plan.Report
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.APIVersion != plan.ReportVersion {
			t.Fatalf("line %q: %v", line, err)
		}
		if strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(c rune) bool { return c < ' ' || c > '~' }) >= 0 {
			t.Fatalf("line %q is not ASCII", line)
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		t.Fatal("no report")
	}
	return all
}

func TestApply(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		exit, out, _ := r.run(envelope(t, 1, variable("b")), "apply", "--json")
		all := reports(t, out)
		if exit != ExitOK || all[0].Phase != plan.PhaseRunning || all[len(all)-1].Phase != plan.PhaseInSync {
			t.Fatalf("exit %d, reports %+v", exit, all)
		}
		exit, out, _ = r.run("", "status", "--json")
		if got := reports(t, out); exit != ExitOK || len(got) != 1 || got[0].Phase != plan.PhaseInSync {
			t.Errorf("status: exit %d, %+v", exit, got)
		}
		exit, out, _ = r.run("", "status", "--follow", "--json")
		got := reports(t, out)
		if exit != ExitOK || len(got) < 3 || got[1].Step != plan.StepEnvironment || got[len(got)-1].Phase != plan.PhaseInSync {
			t.Errorf("status --follow: exit %d, %+v", exit, got)
		}
	})
}

func TestApplyForPeople(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		if err := r.m.WriteFile(`C:\envelope.json`, []byte(envelope(t, 1, variable("b")))); err != nil {
			t.Fatal(err)
		}
		exit, out, _ := r.run("", "apply", "--file", `C:\envelope.json`)
		if exit != ExitOK || !strings.Contains(out, "Running 1/1 set-environment\n") || !strings.HasSuffix(out, "InSync\n") {
			t.Errorf("exit %d, %q", exit, out)
		}
		exit, out, _ = r.run("", "status")
		if exit != ExitOK || !strings.Contains(out, "generation 1") || !strings.HasPrefix(out, "phase    InSync\n") {
			t.Errorf("exit %d, %q", exit, out)
		}
	})
}

// TestExitCodes: 0 in sync, 1 failed, 2 usage, 3 reboot needed, 4 plan too new, 5 busy, each with a code on the last line.
func TestExitCodes(t *testing.T) {
	feature := plan.Plan{Features: []plan.Feature{{Name: "Containers"}}}
	unknown := plan.Plan{Features: []plan.Feature{{Name: "Levitation"}}}
	newer := plan.Plan{Requires: []string{"levitation/v9"}}
	for _, tc := range []struct {
		name  string
		stdin string
		exit  int
		phase plan.Phase
		code  string
	}{
		{"in sync", envelope(t, 2, variable("c")), ExitOK, plan.PhaseInSync, ""},
		{"empty plan", envelope(t, 2, plan.Plan{}), ExitOK, plan.PhaseIdle, ""},
		{"a step fails", envelope(t, 2, unknown), ExitFailed, plan.PhaseFailed, agent.CodeUnsupported},
		{"refused", envelope(t, 1, variable("c")), ExitFailed, plan.PhaseFailed, agent.CodeGenerationConflict},
		{"invalid", envelope(t, 2, plan.Plan{Env: []plan.EnvVar{{Name: "="}}}), ExitFailed, plan.PhaseFailed, agent.CodePlanInvalid},
		{"not JSON", "hello", ExitUsage, plan.PhaseFailed, agent.CodePlanInvalid},
		{"nothing", "", ExitUsage, plan.PhaseFailed, agent.CodePlanInvalid},
		{"over the limit", strings.Repeat(" ", plan.MaxEnvelope+1), ExitFailed, plan.PhaseFailed, agent.CodeTooLarge},
		{"reboot needed", envelope(t, 2, feature), ExitReboot, plan.PhaseRebootNeeded, agent.CodeRebootNeeded},
		{"capability", envelope(t, 2, newer), ExitPlanTooNew, plan.PhaseFailed, agent.CodePlanTooNew},
		{"version of the envelope", `{"apiVersion":"envelope.windowsmachine.dev/v99"}`, ExitPlanTooNew, plan.PhaseFailed, agent.CodePlanTooNew},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
				if exit, out, _ := r.run(envelope(t, 1, variable("b")), "apply", "--json"); exit != ExitOK {
					t.Fatalf("first plan: exit %d, %s", exit, out)
				}
				exit, out, _ := r.run(tc.stdin, "apply", "--json")
				all := reports(t, out)
				last := all[len(all)-1]
				if exit != tc.exit || last.Phase != tc.phase || last.Code != tc.code {
					t.Errorf("exit %d, %+v, want exit %d, phase %s, code %q", exit, last, tc.exit, tc.phase, tc.code)
				}
			})
		})
	}
}

func TestBusy(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		if exit, out, _ := r.run(envelope(t, 1, variable("b")), "apply", "--json"); exit != ExitOK {
			t.Fatalf("exit %d, %s", exit, out)
		}
		release, err := r.m.System().Files.Lock(plan.AgentRoot + `\lock`)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"apply", "receive", "remove"} {
			exit, out, _ := r.run(envelope(t, 2, variable("c")), command, "--json")
			if exit != ExitBusy || !strings.Contains(out, `"code":"Busy"`) {
				t.Errorf("%s: exit %d, %s", command, exit, out)
			}
		}
		if err := release(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRemove(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		before := r.m.Dump()
		p := plan.Plan{
			Env:   []plan.EnvVar{{Name: "A", Value: "b"}},
			Files: []plan.File{{Path: `C:\k\kubelet.conf`, Access: plan.AccessPublic, Inline: []byte("{}")}},
		}
		if exit, out, _ := r.run(envelope(t, 1, p), "apply", "--json"); exit != ExitOK {
			t.Fatalf("exit %d, %s", exit, out)
		}
		for range 2 {
			exit, out, _ := r.run("", "remove", "--json")
			all := reports(t, out)
			if last := all[len(all)-1]; exit != ExitOK || last.Phase != plan.PhaseIdle {
				t.Fatalf("exit %d, %+v", exit, last)
			}
			if d := cmp.Diff(before, r.m.Dump(), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("the machine is not as it was (-want +got):\n%s", d)
			}
		}
	})
}

func TestFacts(t *testing.T) {
	withRig(t, fake.Options{Hostname: "WIN-7"}, func(t *testing.T, r *rig) {
		for _, stdin := range []string{"", "{}", `{"blobs":["` + strings.Repeat("a", 64) + `"]}`} {
			exit, out, errs := r.run(stdin, "facts", "--json")
			var f plan.HostFacts
			if err := json.Unmarshal([]byte(out), &f); err != nil || exit != ExitOK || f.Hostname != "WIN-7" || strings.Count(out, "\n") != 1 {
				t.Errorf("stdin %q: exit %d, %s, %s, %v", stdin, exit, out, errs, err)
			}
		}
		if exit, out, _ := r.run("x", "facts", "--json"); exit != ExitUsage || reports(t, out)[0].Code != agent.CodePlanInvalid {
			t.Errorf("exit %d, %s", exit, out)
		}
		if exit, out, _ := r.run(strings.Repeat(" ", maxRequest+1), "facts", "--json"); exit != ExitFailed || reports(t, out)[0].Code != agent.CodeTooLarge {
			t.Errorf("exit %d, %s", exit, out)
		}
		if exit, out, _ := r.run("", "facts"); exit != ExitOK || !strings.Contains(out, "WIN-7") || !strings.Contains(out, "192.0.2.10/24 on Ethernet, default route") {
			t.Errorf("exit %d, %s", exit, out)
		}
	})
}

func TestReceive(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		exit, out, errs := r.run(`{"blobs":[]}`+"\n", "receive")
		if exit != ExitOK || out != "{\"need\":[]}\n{\"stored\":[]}\n" {
			t.Errorf("exit %d, %s, %s", exit, out, errs)
		}
		exit, out, _ = r.run("x\n", "receive")
		_, res, ok := payload.ParseAnswer([]byte(strings.TrimSpace(out)))
		if exit != ExitFailed || !ok || res == nil || res.Code != agent.CodeTransferInvalid {
			t.Errorf("exit %d, %s", exit, out)
		}
	})
}

// TestW50OddUsage: a command line that is not understood does nothing at all.
func TestW50OddUsage(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		before := r.m.Dump()
		for _, args := range [][]string{
			{},
			{"bogus"},
			{"apply", "--bogus"},
			{"apply", "extra"},
			{"status", `--follow="`},
			{"preflight", "--node-ip"},
			{"remove", `C:\k\`},
			{"facts", "--json", "--", "x"},
			{"version", "--json=perhaps"},
		} {
			exit, _, errs := r.run(envelope(t, 1, variable("b")), args...)
			if exit != ExitUsage || len(args) > 0 && !strings.Contains(errs, "wmcb --help") {
				t.Errorf("%q: exit %d, %s", args, exit, errs)
			}
		}
		if d := cmp.Diff(before, r.m.Dump(), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("something was done: %s", d)
		}
	})
}

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	if exit := Run(t.Context(), []string{"version", "--json"}, Env{Version: "v1.2.3", Stdout: &out, Note: "simulated"}); exit != ExitOK {
		t.Errorf("exit %d", exit)
	}
	var v versions
	if err := json.Unmarshal(out.Bytes(), &v); err != nil || v.Version != "v1.2.3" || v.Plan != plan.APIVersion || v.Note != "simulated" {
		t.Errorf("%s, %v", out.String(), err)
	}
}

// TestHelp: every command says what it is for, at length and by example.
func TestHelp(t *testing.T) {
	p := &program{}
	for _, c := range append(p.root().Commands(), p.root()) {
		if c.Short == "" || c.Example == "" || !c.HasParent() && c.Long == "" {
			t.Errorf("%s has no help", c.Name())
		}
		if strings.IndexFunc(c.Long+c.Short+c.Example, func(r rune) bool { return r > '~' }) >= 0 {
			t.Errorf("the help of %s is not ASCII", c.Name())
		}
	}
	var names []string
	for _, c := range p.root().Commands() {
		names = append(names, c.Name())
	}
	if d := cmp.Diff([]string{
		"apply", "configure-cni", "facts", "initialize-kubelet", "preflight", "receive", "remove", "serve", "service", "status", "support", "uninstall-kubelet", "version",
	}, names); d != "" {
		t.Error(d)
	}
}

// deafWriter fails as the standard output of a session that has gone.
type deafWriter struct{}

func (deafWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestOutputGone(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		for _, args := range [][]string{{"facts", "--json"}, {"status", "--json"}, {"status"}, {"version"}} {
			exit := Run(t.Context(), args, Env{System: r.m.System(), Stdin: io.LimitReader(nil, 0), Stdout: deafWriter{}})
			if exit != ExitFailed {
				t.Errorf("%v: exit %d", args, exit)
			}
		}
	})
}

func TestExitOf(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want int
	}{
		{nil, ExitOK},
		{errors.New("x"), ExitFailed},
		{agent.ErrBusy, ExitBusy},
		{plan.ErrTooNew, ExitPlanTooNew},
		{fmt.Errorf("x: %w", plan.ErrMalformed), ExitUsage},
		{agent.ErrGenerationOld, ExitFailed},
	} {
		if got := exitOf(tc.err); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.err, got, tc.want)
		}
	}
}
