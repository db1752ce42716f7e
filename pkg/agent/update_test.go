package agent

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

const (
	secondExe = `C:\Windows\wmcb\fedcba9876543210\wmcb.exe`
	thirdExe  = `C:\Windows\wmcb\00000000000000ff\wmcb.exe`
)

type runsAs struct {
	system.Machine
	exe string
}

func (m runsAs) Executable() (string, error) { return m.exe, nil }

// upload makes the rig's agent another program.
func (r *rig) upload(exe string) {
	r.t.Helper()
	if len(r.there(exe)) == 0 {
		r.write(exe, "MZ "+exe)
	}
	r.a.sys.Machine = runsAs{r.a.sys.Machine, exe}
}

func (r *rig) facts() plan.HostFacts {
	r.t.Helper()
	f, err := r.a.Facts(r.t.Context(), plan.FactsRequest{})
	r.must(err)
	return f
}

func (r *rig) pids(names ...string) map[string]uint32 {
	r.t.Helper()
	out := map[string]uint32{}
	for _, n := range names {
		st, err := r.a.sys.Services.Status(n)
		r.must(err)
		out[n] = st.PID
	}
	return out
}

// there are those of paths that exist.
func (r *rig) there(paths ...string) []string {
	r.t.Helper()
	var out []string
	for _, path := range paths {
		ok, err := disk.Exists(r.a.sys.Files, path)
		r.must(err)
		if ok {
			out = append(out, path)
		}
	}
	return out
}

// TestAgentUpdate: `wmcb apply` of another agent points the service to itself, with the plan that the machine is in sync with. Nothing of the
// node is touched, and of the agents before only the last one stays.
func TestAgentUpdate(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		theirs := []string{`C:\Windows\wmcb\00000000000000ee`, `C:\Windows\wmcb\theirs\file`}
		for _, path := range theirs {
			r.write(path, "x")
		}
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		node := r.pids("containerd", "kubelet")
		for _, tc := range []struct {
			exe  string
			want []string
		}{
			{secondExe, []string{agentExe, secondExe}},
			{thirdExe, []string{secondExe, thirdExe}},
			{thirdExe, []string{secondExe, thirdExe}},
			{secondExe, []string{secondExe, thirdExe}},
		} {
			r.upload(tc.exe)
			r.applied(envelope(1, r.node(), nil), plan.PhaseInSync)
			have, exists, st, err := r.a.agentService()
			r.must(err)
			if !exists || have.Exe != tc.exe || st.State != system.ServiceRunning {
				t.Errorf("%s: the service runs %s, state %d", tc.exe, have.Exe, st.State)
			}
			if f := r.facts(); f.ServiceAgent != f.AgentDigest || f.ServiceAgent != disk.Sum([]byte("MZ "+tc.exe)) {
				t.Errorf("%s: the service runs %s, this agent is %s", tc.exe, f.ServiceAgent, f.AgentDigest)
			}
			if folders := r.there(disk.Parent(agentExe), disk.Parent(secondExe), disk.Parent(thirdExe)); len(folders) != len(tc.want) {
				t.Errorf("%s: folders %v", tc.exe, folders)
			}
			if d := cmp.Diff(tc.want, r.there(agentExe, secondExe, thirdExe)); d != "" {
				t.Errorf("%s: agents on the disk (-want +got):\n%s", tc.exe, d)
			}
		}
		if d := cmp.Diff(node, r.pids("containerd", "kubelet")); d != "" {
			t.Errorf("services of the node were started again:\n%s", d)
		}
		if d := cmp.Diff(theirs, r.there(theirs...)); d != "" {
			t.Errorf("what is no agent is gone:\n%s", d)
		}
	})
}

// TestServiceAgentDiffers: after the upload of another agent, and before it has applied anything, its facts show that the service still runs
// the older one; a service whose file is gone shows none.
func TestServiceAgentDiffers(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		if f := r.facts(); f.ServiceAgent != "" {
			t.Errorf("no service: %q", f.ServiceAgent)
		}
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		r.upload(secondExe)
		if f := r.facts(); f.ServiceAgent != disk.Sum([]byte("MZ wmcb")) || f.AgentDigest != disk.Sum([]byte("MZ "+secondExe)) {
			t.Errorf("service %q, agent %q", f.ServiceAgent, f.AgentDigest)
		}
		have, err := r.a.sys.Services.Config(plan.AgentService)
		r.must(err)
		have.Exe = `C:\Windows\wmcb\gone\wmcb.exe`
		r.must(r.a.sys.Services.Update(have))
		if f := r.facts(); f.ServiceAgent != "" {
			t.Errorf("file that is gone: %q", f.ServiceAgent)
		}
	})
}

// TestApplyAgainInSync: the plan that the machine is in sync with changes nothing outside of the agent's own folder, starts no service again
// and finds every step in sync.
func TestApplyAgainInSync(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		seq, before, pids := lastSeq(r.journal()), r.m.Dump(), r.pids(plan.AgentService, "containerd", "kubelet")
		var written []string
		r.m.Intercept(func(op fake.Op) fake.Verdict {
			// A folder that is there is asked for and refused.
			if !disk.Below(plan.AgentRoot, op.Path) && op.Kind != fake.OpMkdir {
				written = append(written, string(op.Kind)+" "+op.Path)
			}
			return fake.Verdict{}
		})
		r.applied(envelope(1, r.node(), nil), plan.PhaseInSync)
		r.m.Intercept(nil)
		if len(written) > 0 {
			t.Errorf("written: %v", written)
		}
		if d := cmp.Diff(pids, r.pids(plan.AgentService, "containerd", "kubelet")); d != "" {
			t.Errorf("services were started again:\n%s", d)
		}
		for _, e := range r.journal() {
			if e.Seq > seq && (e.Code == CodeStepApplied || e.Code == CodeStepRemoved) {
				t.Errorf("entry %+v", e)
			}
		}
		after := r.m.Dump()
		for _, files := range []map[string]fake.FileState{before.Files, after.Files} {
			maps.DeleteFunc(files, func(path string, _ fake.FileState) bool { return disk.Below(plan.AgentRoot, path) })
		}
		r.same(before, after)
	})
}

func TestOutdated(t *testing.T) {
	at := func(name string) string { return disk.Join(plan.AgentBin, name) }
	const one, two, three = "0000000000000001", "0000000000000002", "0000000000000003"
	list := []system.Info{
		{Path: at(one), Dir: true},
		{Path: at(two), Dir: true},
		{Path: at(three), Dir: true},
		{Path: at("0000000000000004")},
		{Path: at("theirs"), Dir: true},
		{Path: at("abcd"), Dir: true},
		{Path: at("zzzzzzzzzzzzzzzz"), Dir: true},
	}
	for _, tc := range []struct {
		name, runs, before string
		want               []string
	}{
		{"newer", at(three) + `\wmcb.exe`, at(two) + `\wmcb.exe`, []string{at(one)}},
		{"older again, in other letters", strings.ToUpper(at(two)) + `\WMCB.EXE`, at(three) + `\wmcb.exe`, []string{at(one)}},
		{"the one before was run from elsewhere", at(three) + `\wmcb.exe`, `C:\tools\wmcb.exe`, []string{at(one), at(two)}},
		{"this one is run from elsewhere", `C:\tools\wmcb.exe`, at(three) + `\wmcb.exe`, nil},
		{"only the configuration differed", at(three) + `\wmcb.exe`, at(three) + `\wmcb.exe`, nil},
	} {
		if d := cmp.Diff(tc.want, outdated(list, tc.runs, tc.before)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, d)
		}
	}
}
