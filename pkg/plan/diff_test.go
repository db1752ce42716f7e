package plan

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiff(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to Plan
		want     []string
	}{
		{"same", validPlan(), validPlan(), nil},
		{"nil and empty lists", validPlan(func(p *Plan) { p.Services[0].DependsOn = nil }), validPlan(func(p *Plan) {
			p.Services[0].DependsOn = []string{}
		}), nil},
		{"order", validPlan(), validPlan(func(p *Plan) { slices.Reverse(p.Files) }), nil},
		{"registered", validPlan(), validPlan(func(p *Plan) {
			p.Secrets = nil
			p.Networks[0].Prefix = "10.244.9.0/24"
		}), []string{"remove secret bootstrap-kubeconfig", "change network wm (prefix)"}},
		{"upgrade", validPlan(), validPlan(func(p *Plan) {
			p.Files[0].Blob = "f" + testDigest[1:]
			p.Services[1].Args = p.Services[1].Args[:1]
			p.Services[1].Recovery = nil
		}), []string{`change file C:\k\kubelet.exe (blob)`, "change service kubelet (args, recovery)"}},
		{
			"other case is the same file", validPlan(), validPlan(func(p *Plan) { p.Files[0].Path = `C:\K\kubelet.exe` }),
			[]string{`change file C:\K\kubelet.exe (path)`},
		},
		{
			"first service",
			Plan{},
			Plan{Services: []Service{{Name: "kubelet"}}, Requires: []string{"base/v1"}},
			[]string{"add capability base/v1", "add service kubelet"},
		},
		{
			"removal is in reverse",
			Plan{Services: []Service{{Name: "a"}, {Name: "b"}}},
			Plan{Services: []Service{{Name: "c"}}},
			[]string{"remove service b", "remove service a", "add service c"},
		},
		{
			"certificate",
			Plan{},
			Plan{Certificates: []Certificate{{Store: "ROOT", PEM: testPEM(1)}}},
			[]string{"add certificate ROOT 1b65f68a522c8587"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, ch := range Diff(c.from, c.to) {
				got = append(got, ch.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDiffToEmptyNamesEverything(t *testing.T) {
	p := validPlan()
	n := 0
	for _, l := range listing(p) {
		n += len(l.entries)
	}
	if got := len(Diff(p, Empty())); got != n {
		t.Errorf("got %d changes, want %d", got, n)
	}
}

func TestStepsFollowThePlan(t *testing.T) {
	want := []string{
		StepCredentials, StepEnvironment, StepFeatures, StepDirectories, StepDefender, StepFiles, StepCertificates,
		StepFirewall, StepNetwork, StepRoutes, "start-containerd", "start-kubelet",
	}
	if diff := cmp.Diff(want, validPlan().Steps()); diff != "" {
		t.Error(diff)
	}
	if got := Empty().Steps(); got != nil {
		t.Errorf("empty plan has steps %v", got)
	}
}
