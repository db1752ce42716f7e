package step_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// contractCase is one step with a machine that it starts from.
type contractCase struct {
	name    string
	options fake.Options
	prepare func(*rig)
	plan    func(*rig) plan.Plan
	// drift is how Check names the difference at first.
	drift string
}

func contractCases() []contractCase {
	one := func(p plan.Plan) func(*rig) plan.Plan { return func(*rig) plan.Plan { return p } }
	return []contractCase{
		{
			name: "new variable", drift: "env NO_PROXY: not set",
			plan: one(plan.Plan{Env: []plan.EnvVar{{Name: "NO_PROXY", Value: ".svc,10.0.0.0/16"}}}),
		},
		{
			name: "variable that had a value", drift: "env No_Proxy: has another value",
			prepare: func(r *rig) { r.must(r.sys.Env.Set("No_Proxy", "localhost")) },
			plan:    one(plan.Plan{Env: []plan.EnvVar{{Name: "No_Proxy", Value: "http://u:p%23a%25ss@proxy"}}}),
		},
		{
			name: "folder with parents", drift: `directory C:\var\log\kubelet: missing`,
			plan: one(plan.Plan{Directories: []plan.Directory{{Path: `C:\var\log\kubelet`, Access: plan.AccessPublic}}}),
		},
		{
			name: "folder that was there", drift: `directory C:\var\log: access control list is not public`,
			prepare: func(r *rig) {
				r.must(r.sys.Files.Mkdir(`C:\var`, plan.AccessPublic))
				r.must(r.sys.Files.Mkdir(`C:\var\log`, plan.AccessSecret))
			},
			plan: one(plan.Plan{Directories: []plan.Directory{{Path: `C:\var\log`, Access: plan.AccessPublic}}}),
		},
		{
			name: "inline file", drift: `file C:\k\kubelet.conf: missing`,
			plan: one(plan.Plan{Files: []plan.File{{Path: `C:\k\kubelet.conf`, Access: plan.AccessPublic, Inline: []byte("{}\n")}}}),
		},
		{
			name: "empty file below new folders", drift: `file C:\etc\a\b\empty: missing`,
			plan: one(plan.Plan{Files: []plan.File{{Path: `C:\etc\a\b\empty`, Access: plan.AccessPublic, Inline: []byte{}}}}),
		},
		{
			name: "blob", drift: `file C:\k\kubelet.exe: missing`,
			plan: func(r *rig) plan.Plan {
				return plan.Plan{Files: []plan.File{{Path: `C:\k\kubelet.exe`, Access: plan.AccessPublic, Blob: r.blob("MZ kubelet")}}}
			},
		},
		{
			name: "file that was there", drift: `file C:\k\kubelet.conf: content differs`,
			prepare: func(r *rig) { r.write(`C:\k\kubelet.conf`, "somebody else's") },
			plan:    one(plan.Plan{Files: []plan.File{{Path: `C:\k\kubelet.conf`, Access: plan.AccessPublic, Inline: []byte("ours")}}}),
		},
		{
			name: "secret", drift: `secret C:\k\bootstrap-kubeconfig: missing`,
			prepare: func(r *rig) { r.opts.Secrets = map[string][]byte{"bootstrap-kubeconfig": []byte("token")} },
			plan:    one(plan.Plan{Secrets: []plan.Secret{{Name: "bootstrap-kubeconfig", Path: `C:\k\bootstrap-kubeconfig`}}}),
		},
		{
			name: "certificate", drift: "not in the store",
			plan: func(r *rig) plan.Plan {
				return plan.Plan{Certificates: []plan.Certificate{{Store: "ROOT", PEM: certificate(r.t)}}}
			},
		},
		{
			name: "firewall rule", drift: "firewall kubelet: missing",
			plan: one(plan.Plan{Firewall: []plan.FirewallRule{{Name: "kubelet", Protocol: "TCP", Port: 10250}}}),
		},
		{
			name: "firewall rule that was there", drift: "firewall kubelet: is for UDP 99",
			prepare: func(r *rig) {
				r.must(r.sys.Firewall.Set(plan.FirewallRule{Name: "kubelet", Protocol: "UDP", Port: 99}))
			},
			plan: one(plan.Plan{Firewall: []plan.FirewallRule{{Name: "kubelet", Protocol: "TCP", Port: 10250}}}),
		},
		{
			name: "exclusion from Defender", options: fake.Options{Defender: true}, drift: `defender path c:\k: not excluded`,
			plan: one(plan.Plan{Defender: []plan.DefenderExclusion{{Path: `C:\k`}, {Process: `C:\k\kubelet.exe`}}}),
		},
		{
			name: "network", options: fake.Options{Features: containers()}, drift: "network wmo: missing",
			plan: one(plan.Plan{Networks: []plan.Network{network()}}),
		},
		{
			name: "route", drift: "missing",
			plan: one(plan.Plan{Routes: []plan.Route{{Destination: "10.244.0.0/24", NextHop: "192.0.2.11"}}}),
		},
		{
			name: "service", drift: "service kubelet: missing",
			prepare: func(r *rig) { r.write(`C:\k\kubelet.exe`, "MZ") },
			plan:    one(plan.Plan{Services: []plan.Service{service("kubelet")}}),
		},
	}
}

// TestContract: out of sync, applied, in sync, applied again without a change, removed, out of sync, and the machine as it was.
//
//evidence:fake write-credentials set-environment make-directories exclude-from-defender install-files import-certificates
//evidence:fake open-firewall join-network set-routes start-service
func TestContract(t *testing.T) {
	for _, tc := range contractCases() {
		t.Run(tc.name, func(t *testing.T) {
			withRig(t, tc.options, func(t *testing.T, r *rig) {
				if tc.prepare != nil {
					tc.prepare(r)
				}
				p := tc.plan(r)
				before := r.m.Dump()
				s := r.one(p)
				drift := r.drifted(s)
				if !contains(drift, tc.drift) {
					t.Errorf("drift %v, want %q", drift, tc.drift)
				}
				out, err := s.Apply(t.Context())
				r.must(err)
				if len(out.Changed) == 0 || out.Reboot {
					t.Errorf("outcome %+v", out)
				}
				r.inSync(r.one(p))
				saves := r.saves
				r.frozen(func() {
					out, err := r.one(p).Apply(t.Context())
					if err != nil || len(out.Changed) > 0 {
						t.Errorf("applied again: %+v, %v", out, err)
					}
				})
				if r.saves != saves {
					t.Error("applying again wrote the ledger")
				}
				r.must(r.one(p).Remove(t.Context()))
				r.drifted(r.one(p))
				r.apply(plan.Empty())
				r.same(before, r.m.Dump())
				if inv := r.ledger.Inventory(); len(inv) > 0 {
					t.Errorf("still owned: %v", inv)
				}
			})
		})
	}
}

func contains(drift step.Drift, want string) bool {
	return slices.ContainsFunc(drift, func(d string) bool { return strings.HasSuffix(d, want) })
}

// TestStaleAfterLostRun: what an earlier plan made goes although the run that made it never ended, in the order that works: services
// before their files, files before their folders.
func TestStaleAfterLostRun(t *testing.T) {
	withRig(t, fake.Options{Features: containers()}, func(t *testing.T, r *rig) {
		before := r.m.Dump()
		p := plan.Plan{
			Directories: []plan.Directory{{Path: `C:\var\lib\kubelet`, Access: plan.AccessSecret, Purge: true}},
			Files:       []plan.File{{Path: `C:\k\bin\kubelet.exe`, Access: plan.AccessPublic, Inline: []byte("MZ")}},
			Networks:    []plan.Network{network()},
			Services:    []plan.Service{{Name: "kubelet", Exe: `C:\k\bin\kubelet.exe`}},
		}
		r.apply(p)
		r.write(`C:\var\lib\kubelet\pki\kubelet.pem`, "made by the kubelet")
		var names []string
		for _, s := range step.Stale(plan.Empty(), r.ledger, r.sys, r.opts) {
			names = append(names, s.Name())
			r.must(s.Remove(t.Context()))
		}
		want := []string{"start-kubelet", plan.StepNetwork, plan.StepFiles, plan.StepDirectories}
		if !slices.Equal(names, want) {
			t.Errorf("removed in the order %v, want %v", names, want)
		}
		r.same(before, r.m.Dump())
	})
}

//evidence:fake enable-features
func TestFeatureNeedsReboot(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		p := plan.Plan{Features: []plan.Feature{{Name: "Containers"}}}
		for range 2 {
			s := r.one(p)
			r.drifted(s)
			out, err := s.Apply(t.Context())
			r.must(err)
			if !out.Reboot {
				t.Fatal("no reboot was asked for")
			}
		}
		r.must(r.m.Reboot(t.Context()))
		r.inSync(r.one(p))
	})
}

func TestFeatureUnsupported(t *testing.T) {
	withRig(t, fake.Options{Features: map[string]fake.Feature{}}, func(t *testing.T, r *rig) {
		_, err := r.one(plan.Plan{Features: []plan.Feature{{Name: "Containers"}}}).Check(t.Context())
		r.wants(err, system.ErrUnsupported)
	})
}

func TestDefenderNotRunning(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		s := r.one(plan.Plan{Defender: []plan.DefenderExclusion{{Path: `C:\k`}}})
		r.inSync(s)
		r.must(s.Remove(t.Context()))
	})
}
