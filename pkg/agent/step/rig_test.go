package step_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
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

// rig is a machine with the agent's folders, a ledger in memory and the time of a synctest bubble.
type rig struct {
	t      *testing.T
	m      *fake.Machine
	sys    system.System
	ledger *step.Ledger
	opts   step.Options
	saves  int
}

// withRig runs f in a bubble, in which every wait costs no time.
func withRig(t *testing.T, o fake.Options, f func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if o.Programs == nil {
			o.Programs = map[string]fake.Program{}
		}
		for _, name := range []string{"containerd.exe", "kubelet.exe", "kube-proxy.exe", "other.exe", "runner.exe"} {
			if _, ok := o.Programs[name]; !ok {
				o.Programs[name] = serve
			}
		}
		m := fake.New(o)
		defer m.Close()
		r := &rig{t: t, m: m, sys: m.System(), opts: step.Options{Root: plan.AgentRoot}}
		r.ledger = step.NewLedger(nil, func(step.Inventory) error { r.saves++; return nil })
		for _, p := range []string{plan.InstallDir, plan.AgentRoot, `C:\k\wmcb\tmp`, `C:\k\wmcb\old`, `C:\k\wmcb\backup`, `C:\k\wmcb\blobs`, `C:\k\wmcb\blobs\sha256`} {
			r.must(r.sys.Files.Mkdir(p, plan.AccessSecret))
		}
		f(t, r)
	})
}

// serve is a service that runs until it is asked to stop.
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

func (r *rig) write(path, content string) {
	r.t.Helper()
	r.must(r.m.WriteFile(path, []byte(content)))
}

func (r *rig) read(path string) string {
	r.t.Helper()
	b, err := r.m.ReadFile(path)
	r.must(err)
	return string(b)
}

// blob stores content as a payload blob and returns its digest.
func (r *rig) blob(content string) string {
	r.t.Helper()
	d := disk.Sum([]byte(content))
	r.write(step.BlobPath(plan.AgentRoot, d), content)
	return d
}

func (r *rig) build(p plan.Plan) []step.Step { return step.Build(p, r.ledger, r.sys, r.opts) }

// one returns the only step of a plan.
func (r *rig) one(p plan.Plan) step.Step {
	r.t.Helper()
	steps := r.build(p)
	if len(steps) != 1 {
		r.t.Fatalf("the plan has %d steps, want 1", len(steps))
	}
	return steps[0]
}

// apply takes back what p does not want and brings every step of p into sync.
func (r *rig) apply(p plan.Plan) {
	r.t.Helper()
	for _, s := range step.Stale(p, r.ledger, r.sys, r.opts) {
		if err := s.Remove(r.t.Context()); err != nil {
			r.t.Fatalf("%s: remove: %v", s.Name(), err)
		}
	}
	for _, s := range r.build(p) {
		if _, err := s.Apply(r.t.Context()); err != nil {
			r.t.Fatalf("%s: apply: %v", s.Name(), err)
		}
		r.inSync(s)
	}
}

func (r *rig) inSync(s step.Step) {
	r.t.Helper()
	drift, err := s.Check(r.t.Context())
	r.must(err)
	if !drift.InSync() {
		r.t.Fatalf("%s is not in sync: %v", s.Name(), drift)
	}
}

func (r *rig) drifted(s step.Step) step.Drift {
	r.t.Helper()
	drift, err := s.Check(r.t.Context())
	r.must(err)
	if drift.InSync() {
		r.t.Fatalf("%s is in sync", s.Name())
	}
	return drift
}

// frozen fails the test when f changes a file.
func (r *rig) frozen(f func()) {
	r.t.Helper()
	var ops []string
	r.m.Intercept(func(op fake.Op) fake.Verdict {
		ops = append(ops, string(op.Kind)+" "+op.Path)
		return fake.Verdict{}
	})
	before := r.m.Dump()
	f()
	r.m.Intercept(nil)
	if len(ops) > 0 {
		r.t.Errorf("files were changed: %v", ops)
	}
	r.same(before, r.m.Dump())
}

func (r *rig) same(want, got fake.Tree) {
	r.t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		r.t.Errorf("the machine is not as it was (-want +got):\n%s", d)
	}
}

func (r *rig) wants(err, want error) {
	r.t.Helper()
	if !errors.Is(err, want) {
		r.t.Fatalf("error %v, want %v", err, want)
	}
}

func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func network() plan.Network {
	return plan.Network{Name: "wmo", Type: plan.NetworkL2Bridge, ManagementIP: "192.0.2.10", Prefix: "10.244.3.0/24", Gateway: "10.244.3.1"}
}

// containers are machine features with the Host Networking Service present.
func containers() map[string]fake.Feature {
	return map[string]fake.Feature{"Containers": {Enabled: true}}
}

func service(name string, deps ...string) plan.Service {
	return plan.Service{Name: name, Exe: `C:\k\` + name + `.exe`, Args: []string{"--config", `C:\k\` + name + `.conf`}, DependsOn: deps}
}
