package agent

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

func TestSurvey(t *testing.T) {
	o := fake.Options{
		Survey: plan.Survey{
			InstallationType: "Server Core", Teams: []string{"Team\x001"}, DynamicPorts: []plan.PortRange{{Protocol: "TCP", First: 1025, Count: 60000}},
			RestartPending: []string{plan.RestartUpdate}, NextHostname: "WIN-NEW", NoVFP: true, BusyPorts: []int{22, 10250, 10256},
		},
		Services: []system.ServiceConfig{
			{Name: "docker", Exe: `C:\Program Files\Docker\dockerd.exe`},
			{Name: "containerd", Exe: `C:\old\containerd.exe`},
			{Name: "spooler", Exe: `C:\Windows\spoolsv.exe`},
		},
	}
	withRig(t, o, func(t *testing.T, r *rig) {
		f, err := r.a.Facts(t.Context(), plan.FactsRequest{})
		r.must(err)
		want := o.Survey
		want.Teams, want.BusyPorts = []string{"Team?1"}, []int{10250, 10256}
		want.Services = []plan.ServiceProgram{{Name: "containerd", Exe: `C:\old\containerd.exe`}, {Name: "docker", Exe: `C:\Program Files\Docker\dockerd.exe`}}
		if d := cmp.Diff(want, f.Survey); d != "" {
			t.Error(d)
		}
	})
}

// TestOwnPortsAreNotBusy: what listens there once the kubelet is installed is the kubelet.
func TestOwnPortsAreNotBusy(t *testing.T) {
	withRig(t, fake.Options{Survey: plan.Survey{BusyPorts: []int{10248, 10249, 10250}}}, func(t *testing.T, r *rig) {
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		f, err := r.a.Facts(t.Context(), plan.FactsRequest{})
		r.must(err)
		if d := cmp.Diff([]int{10249}, f.Survey.BusyPorts); d != "" {
			t.Error(d)
		}
	})
}

// TestSurveyIsBounded: whoever names adapters and services cannot make the facts too long.
func TestSurveyIsBounded(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	s := plan.Survey{InstallationType: long, NextHostname: long}
	for range 1000 {
		s.Teams, s.RestartPending = append(s.Teams, long), append(s.RestartPending, long)
		s.DynamicPorts = append(s.DynamicPorts, plan.PortRange{Protocol: "TCP", First: 1, Count: 1})
	}
	withRig(t, fake.Options{Survey: s}, func(t *testing.T, r *rig) {
		f, err := r.a.Facts(t.Context(), plan.FactsRequest{})
		r.must(err)
		got := f.Survey
		for name, n := range map[string]int{
			"installation type": len(got.InstallationType), "next host name": len(got.NextHostname), "a team": len(got.Teams[0]), "a reason": len(got.RestartPending[0]),
		} {
			if n != maxSurveyText {
				t.Errorf("%s has %d bytes", name, n)
			}
		}
		for name, n := range map[string]int{"teams": len(got.Teams), "reasons": len(got.RestartPending), "ranges": len(got.DynamicPorts)} {
			if n != maxSurveyItems {
				t.Errorf("%d %s", n, name)
			}
		}
	})
}
