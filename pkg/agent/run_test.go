package agent

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/golden"
)

// TestFirstConfigure: accepted, followed step by step to the end, and what is left on the machine.
func TestFirstConfigure(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		e := envelope(1, r.node(), ticket())
		reports := r.apply(e)
		if first := reports[0]; first.Phase != plan.PhaseRunning || first.Digest != e.Plan.Digest() || first.Total != 7 {
			t.Errorf("first report %+v", first)
		}
		var steps []string
		for _, rep := range reports {
			if rep.Step != "" && (len(steps) == 0 || steps[len(steps)-1] != rep.Step) {
				steps = append(steps, rep.Step)
			}
		}
		if d := cmp.Diff(e.Plan.Steps(), steps); d != "" {
			t.Errorf("steps seen (-want +got):\n%s", d)
		}
		last := reports[len(reports)-1]
		if last.Phase != plan.PhaseInSync || last.Seq != lastSeq(r.journal()) || last.Index != 7 {
			t.Errorf("last report %+v", last)
		}
		if pend, err := r.a.loadPending(99); err != nil || len(pend) > 0 {
			t.Errorf("secrets are still stored: %d, %v", len(pend), err)
		}
		for path, want := range map[string]plan.Access{
			plan.AgentRoot: plan.AccessSecret, rooted(planFile): plan.AccessSecret, rooted(stateFile): plan.AccessSecret,
			rooted(journalFile): plan.AccessSecret, `C:\k\bootstrap-kubeconfig`: plan.AccessSecret, `C:\k\kubelet.exe`: plan.AccessPublic,
		} {
			info, err := r.a.sys.Files.Stat(path)
			r.must(err)
			if info.Access != want {
				t.Errorf("%s: access %q, want %q", path, info.Access, want)
			}
		}
	})
}

// TestGoldens: the formats that docs/formats.md describes, byte for byte.
func TestGoldens(t *testing.T) {
	withRig(t, fake.Options{Hostname: "WIN-7", Features: map[string]fake.Feature{"Containers": {Enabled: true}}}, func(t *testing.T, r *rig) {
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		b, err := r.m.ReadFile(rooted(journalFile))
		r.must(err)
		golden.Equal(t, "testdata/journal.jsonl", b)
		rep, err := ASCIIJSON(r.report())
		r.must(err)
		golden.Equal(t, "testdata/report.json", append(rep, '\n'))
		facts, err := r.a.Facts(t.Context(), plan.FactsRequest{Blobs: r.node().Blobs()})
		r.must(err)
		line, err := ASCIIJSON(facts)
		r.must(err)
		golden.Equal(t, "testdata/facts.json", append(line, '\n'))
	})
}

// TestSecondPlan: facts grow, the plan grows; the secret goes, the network comes, and nothing else is touched.
func TestSecondPlan(t *testing.T) {
	withRig(t, fake.Options{Features: map[string]fake.Feature{"Containers": {Enabled: true}}}, func(t *testing.T, r *rig) {
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		before, err := r.a.sys.Services.Status("kubelet")
		r.must(err)
		p := r.node()
		p.Secrets = nil
		p.Networks = []plan.Network{{Name: "wmo", Type: plan.NetworkL2Bridge, ManagementIP: "192.0.2.10", Prefix: "10.244.3.0/24", Gateway: "10.244.3.1"}}
		r.applied(envelope(2, p, nil), plan.PhaseInSync)
		after, err := r.a.sys.Services.Status("kubelet")
		r.must(err)
		if before.PID != after.PID {
			t.Error("the kubelet was restarted")
		}
		if _, err := r.a.sys.Files.Stat(`C:\k\bootstrap-kubeconfig`); err == nil {
			t.Error("the ticket is still on the disk")
		}
	})
}

// TestOverlayReportsItsRouter: the other nodes must know its address; a bridge has none.
func TestOverlayReportsItsRouter(t *testing.T) {
	withRig(t, fake.Options{Features: map[string]fake.Feature{"Containers": {Enabled: true}}}, func(t *testing.T, r *rig) {
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		for generation, c := range []struct {
			kind string
			vsid int
			want string
		}{
			{plan.NetworkOverlay, 4096, "00:15:5d:00:02:0a"},
			{plan.NetworkL2Bridge, 0, ""},
		} {
			p := r.node()
			p.Secrets = nil
			p.Networks = []plan.Network{{Name: "wmo", Type: c.kind, VSID: c.vsid, ManagementIP: "192.0.2.10", Prefix: "10.244.3.0/24", Gateway: "10.244.3.1"}}
			r.applied(envelope(int64(generation)+2, p, nil), plan.PhaseInSync)
			if got := r.report().DRMAC; got != c.want {
				t.Errorf("%s: got %q", c.kind, got)
			}
		}
	})
}

// TestRemoveLeavesMachineAsItWas, file by file and service by service.
func TestRemoveLeavesMachineAsItWas(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.must(r.a.sys.Env.Set("no_proxy", "localhost"))
		r.write(`C:\var\theirs\file`, "x")
		before := r.m.Dump()
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		r.write(`C:\var\lib\kubelet\pki\kubelet.pem`, "made by the kubelet")
		rep, err := r.a.Remove(t.Context(), plan.Claim{}, func(plan.Report) error { return nil })
		r.must(err)
		if rep.Phase != plan.PhaseIdle {
			t.Errorf("report %+v", rep)
		}
		r.same(before, r.m.Dump())
		if _, err := r.a.Remove(t.Context(), plan.Claim{}, func(plan.Report) error { return nil }); err != nil {
			t.Errorf("removed again: %v", err)
		}
		r.same(before, r.m.Dump())
	})
}

// TestRemoveGivesInstallDirBack: a C:\k that only administrators could read before is that again, and keeps what was in it.
func TestRemoveGivesInstallDirBack(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.write(`C:\k\theirs`, "x")
		r.must(r.a.sys.Files.SetAccess(plan.InstallDir, plan.AccessSecret))
		before := r.m.Dump()
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		// Somebody changes it meanwhile: that is not what was there before. An engine that runs would write over a false record.
		r.must(step.NewManager(r.a.sys, r.a.timing).Stop(t.Context(), plan.AgentService))
		r.must(r.a.sys.Files.SetAccess(plan.InstallDir, ""))
		r.applied(envelope(2, r.node(), ticket()), plan.PhaseInSync)
		if info, err := r.a.sys.Files.Stat(plan.InstallDir); err != nil || info.Access != plan.AccessPublic {
			t.Errorf("access %q, %v", info.Access, err)
		}
		_, err := r.a.Remove(t.Context(), plan.Claim{}, func(plan.Report) error { return nil })
		r.must(err)
		r.same(before, r.m.Dump())
	})
}

func TestEmptyPlanIsIdle(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		r.applied(envelope(2, plan.Empty(), nil), plan.PhaseIdle)
		if !has(r.codes(), CodeStepRemoved) {
			t.Errorf("codes %v", r.codes())
		}
	})
}

// TestRepair: drift is put right without credentials and without anybody asking; a machine in sync writes nothing.
func TestRepair(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		r.sleep(time.Minute)
		seq := lastSeq(r.journal())
		before := r.m.Dump()
		r.sleep(time.Hour)
		if got := lastSeq(r.journal()); got != seq {
			t.Errorf("a machine in sync wrote %v", r.codes()[seq:])
		}
		r.same(before, r.m.Dump())
		r.write(`C:\k\kubelet.conf`, "drift")
		r.must(r.a.sys.Env.Unset("NO_PROXY"))
		r.sleep(11 * time.Minute)
		if got, _ := r.m.ReadFile(`C:\k\kubelet.conf`); string(got) == "drift" {
			t.Error("the file was not repaired")
		}
		if v, _, _ := r.a.sys.Env.Get("NO_PROXY"); v != ".svc" {
			t.Error("the variable was not repaired")
		}
		if rep := r.report(); rep.Phase != plan.PhaseInSync {
			t.Errorf("report %+v", rep)
		}
	})
}

// TestRetryAfterFailure: the reason shows, the pauses grow up to five minutes, and the machine gets there on its own.
func TestRetryAfterFailure(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.write(`C:\k\kubelet.conf`, "theirs")
		release, err := r.m.Hold(`C:\k\kubelet.conf`)
		r.must(err)
		last := r.applied(envelope(1, r.node(), ticket()), plan.PhaseFailed)
		if last.Code != CodeFileBusy || last.Step != plan.StepFiles || last.Index != 4 {
			t.Errorf("report %+v", last)
		}
		r.sleep(time.Hour)
		failures := 0
		for _, e := range r.journal() {
			if e.Code == CodeFileBusy {
				failures++
			}
		}
		// 5 s, 10 s, ... 5 min, then every 5 min.
		if failures < 12 || failures > 20 {
			t.Errorf("%d failures in an hour", failures)
		}
		release()
		r.sleep(6 * time.Minute)
		if rep := r.report(); rep.Phase != plan.PhaseInSync {
			t.Errorf("report %+v", rep)
		}
	})
}

// TestReboot: the agent asks for one, waits without end, and goes on after it.
func TestReboot(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		p := r.node()
		p.Features = []plan.Feature{{Name: "Containers"}}
		last := r.applied(envelope(1, p, ticket()), plan.PhaseRebootNeeded)
		if last.Code != CodeRebootNeeded || last.Step != plan.StepFeatures {
			t.Errorf("report %+v", last)
		}
		seq := lastSeq(r.journal())
		r.sleep(time.Hour)
		if got := lastSeq(r.journal()); got != seq || r.report().BootID != last.BootID {
			t.Error("the agent did something while it waited for a reboot")
		}
		r.must(r.m.Reboot(t.Context()))
		r.sleep(time.Minute)
		if rep := r.report(); rep.Phase != plan.PhaseInSync || rep.BootID == last.BootID {
			t.Errorf("report %+v", rep)
		}
	})
}

// TestSuperseded: a plan that comes while another runs takes over at the next step, and the follower of the first is told.
func TestSuperseded(t *testing.T) {
	slow := func(ctx context.Context, p *fake.Process) int {
		_ = p.Sleep(ctx, 10*time.Second)
		return serve(ctx, p)
	}
	withRig(t, fake.Options{Programs: map[string]fake.Program{"containerd.exe": slow}}, func(t *testing.T, r *rig) {
		first, err := r.a.Accept(t.Context(), envelope(1, r.node(), ticket()))
		r.must(err)
		r.must(r.a.EnsureService(t.Context()))
		ended := make(chan error, 1)
		go func() {
			_, err := newAgent(r.m.System()).Follow(t.Context(), first, func(plan.Report) error { return nil })
			ended <- err
		}()
		r.sleep(5 * time.Second)
		p := r.node()
		p.Services = p.Services[:1]
		r.applied(envelope(2, p, nil), plan.PhaseInSync)
		r.wants(<-ended, ErrSuperseded)
		if !has(r.codes(), CodeSuperseded) {
			t.Errorf("codes %v", r.codes())
		}
		if _, err := r.a.sys.Services.Config("kubelet"); err == nil {
			t.Error("the first plan was carried out to its end")
		}
	})
}

// TestLostControl: a plan is taken up although the control code never arrived.
func TestLostControl(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		p := r.node()
		p.Env[0].Value = "new"
		_, err := r.a.Accept(t.Context(), envelope(2, p, nil))
		r.must(err)
		r.sleep(10 * time.Second)
		if v, _, _ := r.a.sys.Env.Get("NO_PROXY"); v != "new" {
			t.Errorf("value %q", v)
		}
	})
}

// TestRefresh: the same plan again brings fresh secrets and no restart.
func TestRefresh(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		before, err := r.a.sys.Services.Status("kubelet")
		r.must(err)
		r.applied(envelope(1, r.node(), map[string][]byte{"bootstrap-kubeconfig": []byte("fresh")}), plan.PhaseInSync)
		b, err := r.m.ReadFile(`C:\k\bootstrap-kubeconfig`)
		r.must(err)
		after, err := r.a.sys.Services.Status("kubelet")
		r.must(err)
		if string(b) != "fresh" || before.PID != after.PID {
			t.Errorf("secret %q, pid %d then %d", b, before.PID, after.PID)
		}
	})
}

// TestJoinOfAnotherHost: a machine that is adopted with a new bootstrap secret begins clean; without one it stays as it is.
func TestJoinOfAnotherHost(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
			r.applied(envelope(7, r.node(), ticket()), plan.PhaseInSync)
			r.write(`C:\var\lib\kubelet\kubeconfig`, "of the other cluster")
			e := envelope(1, r.node(), ticket())
			e.Host, e.Adopt = "host-2", true
			if !fresh {
				e.Plan.Secrets, e.Secrets = nil, nil
			}
			r.applied(e, plan.PhaseInSync)
			_, err := r.a.sys.Files.Stat(`C:\var\lib\kubelet\kubeconfig`)
			if gone := err != nil; gone != fresh {
				t.Errorf("fresh %v: kubeconfig gone %v", fresh, gone)
			}
		})
	}
}

// A host object that was made anew for a node brings kube-proxy's token along and no bootstrap secret: the node stays as it is.
func TestTokenOfKubeProxyJoinsNothing(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.applied(envelope(7, r.node(), ticket()), plan.PhaseInSync)
		r.write(`C:\var\lib\kubelet\kubeconfig`, "of the node")
		e := envelope(1, r.node(), map[string][]byte{"kube-proxy-token": []byte("t")})
		e.Host, e.Adopt = "host-2", true
		e.Plan.Secrets = []plan.Secret{{Name: "kube-proxy-token", Path: `C:\k\kube-proxy.token`}}
		r.applied(e, plan.PhaseInSync)
		for path, want := range map[string]string{`C:\var\lib\kubelet\kubeconfig`: "of the node", `C:\k\kube-proxy.token`: "t"} {
			if b, err := r.m.ReadFile(path); err != nil || string(b) != want {
				t.Errorf("%s holds %q, %v", path, b, err)
			}
		}
	})
}

// TestCanary: a secret's bytes are in its file and nowhere else on the disk.
func TestCanary(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		for path, f := range r.m.Dump().Files {
			if f.Dir || path == `C:\k\bootstrap-kubeconfig` {
				continue
			}
			b, err := r.m.ReadFile(path)
			r.must(err)
			for _, c := range []string{"canary-token", "Y2FuYXJ5LXRva2Vu"} {
				if bytes.Contains(b, []byte(c)) {
					t.Errorf("%s holds the secret", path)
				}
			}
		}
	})
}

// TestDiskFull: a disk without a free byte fails the step with its code, which reaches the journal, and heals.
func TestDiskFull(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.applied(envelope(1, r.node(), ticket()), plan.PhaseInSync)
		p := r.node()
		p.Files[2].Inline = []byte(strings.Repeat("x", 200<<10))
		p.Files = append(p.Files, plan.File{Path: `C:\k\more`, Access: plan.AccessPublic, Inline: []byte(strings.Repeat("y", 200<<10))})
		_, err := r.a.Accept(t.Context(), envelope(2, p, nil))
		r.must(err)
		r.m.FillDisk(0)
		r.sleep(15 * time.Second)
		if rep := r.report(); rep.Phase != plan.PhaseFailed || rep.Code != CodeDiskFull || rep.Step != plan.StepFiles {
			t.Errorf("report %+v", rep)
		}
		r.m.FillDisk(1 << 30)
		r.sleep(10 * time.Minute)
		if rep := r.report(); rep.Phase != plan.PhaseInSync {
			t.Errorf("report %+v", rep)
		}
	})
}

// TestServiceEnds: a service of the agent that dies at once does not let `wmcb apply` wait for ever.
func TestServiceEnds(t *testing.T) {
	dies := func(_ context.Context, p *fake.Process) int {
		if s, ok := p.Service(); ok {
			s.Running()
		}
		return 0
	}
	withRig(t, fake.Options{Programs: map[string]fake.Program{"wmcb.exe": dies}}, func(t *testing.T, r *rig) {
		receipt, err := r.a.Accept(t.Context(), envelope(1, r.node(), ticket()))
		r.must(err)
		err = r.a.EnsureService(t.Context())
		if err == nil {
			_, err = r.a.Follow(t.Context(), receipt, func(plan.Report) error { return nil })
		}
		r.wants(err, step.ErrServiceExited)
	})
}

// TestPowerCut in the middle of a run: the machine boots, the service starts and ends what was begun.
//
//evidence:fake reboot
func TestPowerCut(t *testing.T) {
	slow := func(ctx context.Context, p *fake.Process) int {
		_ = p.Sleep(ctx, 10*time.Second)
		return serve(ctx, p)
	}
	for _, tear := range []fake.Tear{fake.TearZeros, fake.TearTruncate} {
		withRig(t, fake.Options{Programs: map[string]fake.Program{"containerd.exe": slow}}, func(t *testing.T, r *rig) {
			_, err := r.a.Accept(t.Context(), envelope(1, r.node(), ticket()))
			r.must(err)
			r.must(r.a.EnsureService(t.Context()))
			r.sleep(5 * time.Second)
			r.m.PowerCut(tear)
			r.must(r.m.PowerOn(t.Context()))
			r.sleep(time.Minute)
			if rep := r.report(); rep.Phase != plan.PhaseInSync {
				t.Errorf("report %+v", rep)
			}
		})
	}
}
