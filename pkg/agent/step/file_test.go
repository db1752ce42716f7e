package step_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

const conflist = `C:\k\cni\config\10-windowsmachine.conflist`

func cniPlan() plan.Plan {
	return plan.Plan{Files: []plan.File{{Path: conflist, Access: plan.AccessPublic, Inline: []byte("{\n  \"name\": \"wmo\"\n}\n")}}}
}

// TestW15CNIFileRewrittenOnce: line ends, a byte order mark and an empty file are put right in one pass; the second pass writes
// nothing.
func TestW15CNIFileRewrittenOnce(t *testing.T) {
	right := string(cniPlan().Files[0].Inline)
	for name, found := range map[string]string{
		"CRLF":            strings.ReplaceAll(right, "\n", "\r\n"),
		"empty":           "",
		"byte order mark": "\xef\xbb\xbf" + right,
	} {
		t.Run(name, func(t *testing.T) {
			withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
				r.apply(cniPlan())
				r.write(conflist, found)
				writes := 0
				r.m.Intercept(func(op fake.Op) fake.Verdict {
					if op.Kind == fake.OpRename && op.Path == conflist {
						writes++
					}
					return fake.Verdict{}
				})
				_, err := r.one(cniPlan()).Apply(t.Context())
				r.must(err)
				r.m.Intercept(nil)
				if writes != 1 || r.read(conflist) != right {
					t.Fatalf("%d writes, content %q", writes, r.read(conflist))
				}
				r.frozen(func() {
					_, err := r.one(cniPlan()).Apply(t.Context())
					r.must(err)
				})
			})
		})
	}
}

// TestW46PathsStayWindowsPaths: the same names with backslashes reach the machine whatever this test is built for.
func TestW46PathsStayWindowsPaths(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		var seen []string
		r.m.Intercept(func(op fake.Op) fake.Verdict {
			seen = append(seen, op.Path, op.From)
			return fake.Verdict{}
		})
		r.apply(plan.Plan{Files: []plan.File{{Path: `C:\Program Files\containerd\containerd.exe`, Access: plan.AccessPublic, Inline: []byte("MZ")}}})
		for _, p := range seen {
			if p != "" && (strings.Contains(p, "/") || !strings.HasPrefix(p, `C:\`)) {
				t.Errorf("path %q", p)
			}
		}
		if got := r.read(`C:\Program Files\containerd\containerd.exe`); got != "MZ" {
			t.Errorf("content %q", got)
		}
	})
}

// TestReplaceRunningExecutable: the service that runs the file is stopped first and runs the new one afterwards.
func TestReplaceRunningExecutable(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		exe := `C:\k\kubelet.exe`
		file := func(content string) plan.Plan {
			return plan.Plan{
				Files:    []plan.File{{Path: exe, Access: plan.AccessPublic, Blob: r.blob(content)}},
				Services: []plan.Service{service("kubelet")},
			}
		}
		r.apply(file("MZ old"))
		r.apply(file("MZ new"))
		if got := r.read(exe); got != "MZ new" {
			t.Errorf("content %q", got)
		}
		st, err := r.sys.Services.Status("kubelet")
		r.must(err)
		if st.State != system.ServiceRunning {
			t.Errorf("state %d", st.State)
		}
	})
}

// TestReplaceBusyExecutable: a running executable that no service of ours runs is renamed away and cleaned up later.
func TestReplaceBusyExecutable(t *testing.T) {
	withRig(t, fake.Options{Programs: map[string]fake.Program{"tool.exe": func(ctx context.Context, _ *fake.Process) int {
		<-ctx.Done()
		return 0
	}}}, func(t *testing.T, r *rig) {
		exe := `C:\k\tool.exe`
		file := func(content string) plan.Plan {
			return plan.Plan{Files: []plan.File{{Path: exe, Access: plan.AccessPublic, Inline: []byte(content)}}}
		}
		r.apply(file("MZ old"))
		p, err := r.m.StartProcess(exe, nil, fake.Streams{})
		r.must(err)
		r.apply(file("MZ new"))
		if got := r.read(exe); got != "MZ new" {
			t.Errorf("content %q", got)
		}
		old, err := r.sys.Files.ReadDir(plan.AgentRoot + `\` + step.OldDir)
		r.must(err)
		if len(old) != 1 {
			t.Errorf("renamed away: %v", old)
		}
		p.Kill()
	})
}

func TestReplaceHeldFile(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.apply(cniPlan())
		r.write(conflist, "changed")
		release, err := r.m.Hold(conflist)
		r.must(err)
		_, err = r.one(cniPlan()).Apply(t.Context())
		r.wants(err, system.ErrBusy)
		release()
		r.apply(cniPlan())
	})
}

func TestBlobMissingAndCorrupt(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		digest := r.blob("MZ kubelet")
		p := plan.Plan{Files: []plan.File{{Path: `C:\k\kubelet.exe`, Access: plan.AccessPublic, Blob: digest}}}
		r.write(step.BlobPath(plan.AgentRoot, digest), "MZ kubeleT")
		_, err := r.one(p).Apply(t.Context())
		r.wants(err, step.ErrBlobCorrupt)
		_, err = r.one(p).Apply(t.Context())
		r.wants(err, step.ErrBlobMissing)
		r.blob("MZ kubelet")
		r.apply(p)
	})
}

func TestDiskFullLeavesOldFile(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.apply(plan.Plan{Files: []plan.File{{Path: `C:\k\big`, Access: plan.AccessPublic, Inline: []byte("old")}}})
		p := plan.Plan{Files: []plan.File{{Path: `C:\k\big`, Access: plan.AccessPublic, Inline: []byte(strings.Repeat("x", 64<<10))}}}
		r.m.FillDisk(1000)
		_, err := r.one(p).Apply(t.Context())
		r.wants(err, system.ErrDiskFull)
		if got := r.read(`C:\k\big`); got != "old" {
			t.Errorf("content %q", got)
		}
		if left, _ := r.sys.Files.ReadDir(plan.AgentRoot + `\` + step.TempDir); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// TestPreexistingFile: the file that was there comes back, however many plans replaced it.
func TestPreexistingFile(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.write(`C:\k\kubelet.conf`, "theirs")
		before := r.m.Dump()
		for _, content := range []string{"one", "two", "theirs", "three"} {
			r.apply(plan.Plan{Files: []plan.File{{Path: `C:\k\kubelet.conf`, Access: plan.AccessPublic, Inline: []byte(content)}}})
		}
		r.apply(plan.Empty())
		r.same(before, r.m.Dump())
	})
}

func TestFolderInPlaceOfFile(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.must(r.sys.Files.Mkdir(`C:\k\kubelet.conf`, plan.AccessPublic))
		_, err := r.one(plan.Plan{Files: []plan.File{{Path: `C:\k\kubelet.conf`, Access: plan.AccessPublic, Inline: []byte("x")}}}).Apply(t.Context())
		r.wants(err, step.ErrForeign)
	})
}

func TestSecret(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		const path = `C:\k\bootstrap-kubeconfig`
		p := plan.Plan{Secrets: []plan.Secret{{Name: "ticket", Path: path}}}
		_, err := r.one(p).Apply(t.Context())
		r.wants(err, step.ErrSecretMissing)
		r.opts.Secrets = map[string][]byte{"ticket": []byte("first")}
		r.apply(p)
		info, err := r.sys.Files.Stat(path)
		r.must(err)
		if info.Access != plan.AccessSecret {
			t.Errorf("access %q", info.Access)
		}
		r.opts.Secrets["ticket"] = []byte("second")
		r.apply(p)
		if got := r.read(path); got != "second" {
			t.Errorf("content %q", got)
		}
		// In place and forgotten: only its presence and its access count from now on.
		r.opts.Secrets = nil
		r.must(r.sys.Files.SetAccess(path, plan.AccessPublic))
		r.drifted(r.one(p))
		r.apply(p)
		r.apply(plan.Empty())
		if _, err := r.sys.Files.Stat(path); !errors.Is(err, system.ErrNotExist) {
			t.Errorf("the secret is still there: %v", err)
		}
	})
}

// TestW17LeasesOfAnotherCluster: the addresses that host-local gave out for another cluster are gone before the new one uses the
// folder, also when the agent dies between clearing and recording, and nothing else is touched.
func TestW17LeasesOfAnotherCluster(t *testing.T) {
	const networks = `C:\var\lib\cni\networks`
	p := plan.Plan{Directories: []plan.Directory{{Path: networks, Access: plan.AccessPublic, Purge: true}}}
	for _, crash := range []bool{false, true} {
		withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
			r.write(networks+`\OVNKubernetesHybridOverlayNetwork\last_reserved_ip.0`, "10.132.0.77")
			r.write(networks+`\OVNKubernetesHybridOverlayNetwork\10.132.0.2`, "")
			r.write(networks+`\OVNKubernetesHybridOverlayNetwork\lock`, "")
			r.write(`C:\var\lib\theirs\keep`, "theirs")
			if crash {
				failing := step.NewLedger(nil, func(step.Inventory) error { return errors.New("power cut") })
				if _, err := step.Build(p, failing, r.sys, r.opts)[0].Apply(t.Context()); err == nil {
					t.Fatal("the ledger did not fail")
				}
				r.write(networks+`\OVNKubernetesHybridOverlayNetwork\10.132.0.9`, "written by the old cluster meanwhile")
			}
			r.apply(p)
			left, err := r.sys.Files.ReadDir(networks)
			r.must(err)
			if len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			// What this cluster's plugin writes stays for as long as the plan does, and goes with it.
			r.write(networks+`\wmo\10.244.3.4`, "")
			r.apply(p)
			if r.read(networks+`\wmo\10.244.3.4`) != "" {
				t.Error("a lease of this cluster was changed")
			}
			r.apply(plan.Empty())
			left, err = r.sys.Files.ReadDir(networks)
			r.must(err)
			if len(left) > 0 || r.read(`C:\var\lib\theirs\keep`) != "theirs" {
				t.Errorf("after removal: %v", left)
			}
		})
	}
}

func TestFolderKeepsWhatOthersPutThere(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.apply(plan.Plan{Directories: []plan.Directory{{Path: `C:\var\log\pods`, Access: plan.AccessPublic}}})
		r.write(`C:\var\log\pods\theirs.log`, "x")
		r.apply(plan.Empty())
		if r.read(`C:\var\log\pods\theirs.log`) != "x" {
			t.Error("another's file is gone")
		}
		if inv := r.ledger.Inventory(); len(inv) > 0 {
			t.Errorf("still owned: %v", inv)
		}
	})
}

// TestKilledAtEveryWrite: the agent is killed before and after every change that it makes to the disk; a new run makes the machine
// right, and the empty plan then leaves it as it was.
func TestKilledAtEveryWrite(t *testing.T) {
	p := plan.Plan{
		Secrets:     []plan.Secret{{Name: "ticket", Path: `C:\k\ticket`}},
		Directories: []plan.Directory{{Path: `C:\var\lib\kubelet`, Access: plan.AccessSecret, Purge: true}},
		Files: []plan.File{
			{Path: `C:\k\kubelet.conf`, Access: plan.AccessPublic, Inline: []byte("ours")},
			{Path: `C:\k\bin\kubelet.exe`, Access: plan.AccessPublic, Inline: []byte("MZ")},
		},
	}
	total := 0
	for n := 0; n <= total; n++ {
		for _, after := range []bool{false, true} {
			withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
				r.opts.Secrets = map[string][]byte{"ticket": []byte("token")}
				r.write(`C:\k\kubelet.conf`, "theirs")
				before := r.m.Dump()
				seen := 0
				r.m.Intercept(func(fake.Op) fake.Verdict {
					seen++
					return fake.Verdict{KillBefore: seen == n && !after, KillAfter: seen == n && after}
				})
				agent, err := r.m.StartBuiltin("agent", nil, fake.Streams{}, func(ctx context.Context, p2 *fake.Process) int {
					for _, s := range step.Build(p, r.ledger, p2.System(), r.opts) {
						if _, err := s.Apply(ctx); err != nil {
							return 1
						}
					}
					return 0
				})
				r.must(err)
				agent.Wait()
				r.m.Intercept(nil)
				if n == 0 {
					total = seen
				}
				r.must(clearTemp(r))
				r.apply(p)
				if r.read(`C:\k\kubelet.conf`) != "ours" || r.read(`C:\k\ticket`) != "token" {
					t.Errorf("killed at write %d: not healed", n)
				}
				r.apply(plan.Empty())
				r.same(before, r.m.Dump())
			})
		}
	}
	if total < 10 {
		t.Errorf("only %d writes seen", total)
	}
}

// clearTemp does what a run of the agent begins with.
func clearTemp(r *rig) error {
	list, err := r.sys.Files.ReadDir(plan.AgentRoot + `\` + step.TempDir)
	for _, e := range list {
		err = errors.Join(err, r.sys.Files.Remove(e.Path))
	}
	return err
}
