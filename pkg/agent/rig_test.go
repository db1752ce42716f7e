package agent

import (
	"context"
	"errors"
	"flag"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

var _ = flag.Bool("update", false, "rewrite the goldens")

const agentExe = `C:\Windows\wmcb\0123456789abcdef\wmcb.exe`

// rig is a machine on which wmcb.exe is this package's Loop, in the time of a synctest bubble.
type rig struct {
	t *testing.T
	m *fake.Machine
	a *Agent
}

func withRig(t *testing.T, o fake.Options, f func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		programs := map[string]fake.Program{"wmcb.exe": loopProgram, "kubelet.exe": serve, "containerd.exe": serve}
		for name, p := range o.Programs {
			programs[name] = p
		}
		o.Programs, o.Executable = programs, agentExe
		m := fake.New(o)
		defer m.Close()
		r := &rig{t: t, m: m, a: newAgent(m.System())}
		r.must(m.WriteFile(agentExe, []byte("MZ wmcb")))
		f(t, r)
	})
}

func newAgent(sys system.System) *Agent {
	return New(Options{System: sys, Version: "v1.2.3", Random: func() float64 { return 0.5 }})
}

// loopProgram is `wmcb service`.
func loopProgram(ctx context.Context, p *fake.Process) int {
	return loopOn(ctx, p, func(*system.System) {})
}

// loopOn is `wmcb service` on a machine that differs from the fake one.
func loopOn(ctx context.Context, p *fake.Process, edit func(*system.System)) int {
	s, ok := p.Service()
	if !ok {
		return 2
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.Stopping():
			cancel()
		case <-ctx.Done():
		}
	}()
	s.Running()
	sys := p.System()
	edit(&sys)
	if err := newAgent(sys).Loop(ctx, s.Controls(), func(error) {}); err != nil {
		return 1
	}
	return 0
}

func serve(ctx context.Context, p *fake.Process) int {
	s, ok := p.Service()
	if !ok {
		return 1
	}
	s.Running()
	select {
	case <-s.Stopping():
	case <-ctx.Done():
	}
	return 0
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) wants(err, want error) {
	r.t.Helper()
	if !errors.Is(err, want) {
		r.t.Fatalf("error %v, want %v", err, want)
	}
}

func (r *rig) write(path, content string) {
	r.t.Helper()
	r.must(r.m.WriteFile(path, []byte(content)))
}

func (r *rig) sleep(d time.Duration) {
	r.t.Helper()
	r.must(r.a.sys.Clock.Sleep(r.t.Context(), d))
}

// blob puts a payload blob into the agent's store, as Receive does.
func (r *rig) blob(content string) string {
	r.t.Helper()
	r.must(r.a.secureRoot(r.t.Context()))
	d := disk.Sum([]byte(content))
	f, err := r.a.sys.Files.Create(step.BlobPath(plan.AgentRoot, d), plan.AccessSecret)
	r.must(err)
	_, err = f.Write([]byte(content))
	r.must(errors.Join(err, f.Close()))
	return d
}

// envelope wraps a plan for the host "host-1".
func envelope(generation int64, p plan.Plan, secrets map[string][]byte) plan.Envelope {
	p.APIVersion = plan.APIVersion
	return plan.Envelope{APIVersion: plan.EnvelopeVersion, Host: "host-1", Generation: generation, Plan: p, Secrets: secrets}
}

// apply does what `wmcb apply` does, and returns the reports.
func (r *rig) apply(e plan.Envelope) []plan.Report {
	r.t.Helper()
	receipt, err := r.a.Accept(r.t.Context(), e)
	r.must(err)
	r.must(r.a.EnsureService(r.t.Context()))
	reports := []plan.Report{receipt.Report}
	_, err = r.a.Follow(r.t.Context(), receipt, func(p plan.Report) error {
		reports = append(reports, p)
		return nil
	})
	r.must(err)
	return reports
}

// applied is the last report of apply, which must be in the phase.
func (r *rig) applied(e plan.Envelope, phase plan.Phase) plan.Report {
	r.t.Helper()
	all := r.apply(e)
	last := all[len(all)-1]
	if last.Phase != phase {
		r.t.Fatalf("ended with %+v, want phase %s", last, phase)
	}
	return last
}

func (r *rig) report() plan.Report {
	r.t.Helper()
	rep, err := r.a.Report()
	r.must(err)
	return rep
}

func (r *rig) journal() []plan.Entry {
	r.t.Helper()
	list, err := readJournal(r.a.sys.Files)
	r.must(err)
	return list
}

func (r *rig) codes() []string {
	r.t.Helper()
	var out []string
	for _, e := range r.journal() {
		out = append(out, e.Code)
	}
	return out
}

func (r *rig) same(want, got fake.Tree) {
	r.t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		r.t.Errorf("the machine is not as it was (-want +got):\n%s", d)
	}
}

// node is a plan of a machine before it is registered: a secret, folders, a file of each kind and two services.
func (r *rig) node() plan.Plan {
	r.t.Helper()
	return plan.Plan{
		APIVersion:  plan.APIVersion,
		Requires:    []string{plan.CapabilityBase},
		Secrets:     []plan.Secret{{Name: "bootstrap-kubeconfig", Path: `C:\k\bootstrap-kubeconfig`}},
		Env:         []plan.EnvVar{{Name: "NO_PROXY", Value: ".svc"}},
		Directories: []plan.Directory{{Path: `C:\k`, Access: plan.AccessPublic}, {Path: `C:\var\lib\kubelet`, Access: plan.AccessSecret, Purge: true}},
		Files: []plan.File{
			{Path: `C:\k\containerd\containerd.exe`, Access: plan.AccessPublic, Blob: r.blob("MZ containerd")},
			{Path: `C:\k\kubelet.exe`, Access: plan.AccessPublic, Blob: r.blob("MZ kubelet")},
			{Path: `C:\k\kubelet.conf`, Access: plan.AccessPublic, Inline: []byte(`{"kind":"KubeletConfiguration"}`)},
		},
		Firewall: []plan.FirewallRule{{Name: "kubelet", Protocol: "TCP", Port: 10250}},
		Services: []plan.Service{
			{Name: "containerd", Exe: `C:\k\containerd\containerd.exe`},
			{Name: "kubelet", Exe: `C:\k\kubelet.exe`, Args: []string{`--config=C:\k\kubelet.conf`}, DependsOn: []string{"containerd"}, Watch: []string{`C:\k\kubelet.conf`}},
		},
	}
}

func ticket() map[string][]byte {
	return map[string][]byte{"bootstrap-kubeconfig": []byte("canary-token")}
}

func has(list []string, want ...string) bool {
	return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(list, w) })
}
