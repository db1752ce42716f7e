package step_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// TestUsedService: somebody else's service keeps its configuration, is restarted when the file changes and when the file is put back.
func TestUsedService(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.must(r.m.WriteFile(`C:\theirs\containerd.exe`, []byte("MZ")))
		r.must(r.m.WriteFile(`C:\k\config.toml`, []byte("theirs")))
		theirs := system.ServiceConfig{Name: "containerd", Exe: `C:\theirs\containerd.exe`, Args: []string{"a"}}
		r.must(r.sys.Services.Create(theirs))
		r.must(r.sys.Services.Start("containerd"))
		pid := func() uint32 {
			st, err := r.sys.Services.Status("containerd")
			r.must(err)
			return st.PID
		}
		first := pid()
		p := plan.Plan{
			Files:    []plan.File{{Path: `C:\k\config.toml`, Access: plan.AccessPublic, Inline: []byte("ours")}},
			Services: []plan.Service{{Name: "containerd", Existing: plan.ExistingUse, Watch: []string{`C:\k\config.toml`}}},
		}
		d, err := step.Differences(t.Context(), p, r.ledger, r.sys, r.opts)
		if err != nil || len(d) != 2 || d[1].Object != step.KindService || len(d[1].Minus)+len(d[1].Plus) != 0 {
			t.Errorf("%+v, %v", d, err)
		}
		for range 2 {
			for _, s := range step.Build(p, r.ledger, r.sys, r.opts) {
				drift, err := s.Check(t.Context())
				r.must(err)
				if drift.InSync() {
					continue
				}
				_, err = s.Apply(t.Context())
				r.must(err)
			}
		}
		second := pid()
		if have, err := r.sys.Services.Config("containerd"); err != nil || second == first || !cmp.Equal(have.Args, theirs.Args) || have.Exe != theirs.Exe {
			t.Errorf("%+v, %v, not restarted: %v", have, err, second == first)
		}
		if step.OwnsService(r.ledger.Inventory(), "containerd") {
			t.Error("it counts as the agent's own")
		}
		for _, s := range step.Stale(plan.Plan{}, r.ledger, r.sys, r.opts) {
			r.must(s.Remove(t.Context()))
		}
		if b, err := r.m.ReadFile(`C:\k\config.toml`); err != nil || string(b) != "theirs" || pid() == second {
			t.Errorf("%s, %v, not restarted: %v", b, err, pid() == second)
		}
		// One that is not there is nobody's to make.
		r.must(r.sys.Services.Stop("containerd"))
		r.must(step.NewManager(r.sys, step.Timing{}).Stop(t.Context(), "containerd"))
		r.must(r.sys.Services.Delete("containerd"))
		_, err = step.Build(plan.Plan{Services: p.Services[:1]}, r.ledger, r.sys, r.opts)[0].Apply(t.Context())
		if !errors.Is(err, system.ErrServiceNotFound) {
			t.Errorf("error %v", err)
		}
	})
}

// TestW17FolderThatLooksRight: a folder to be emptied is emptied once, also when its access list needs no change.
func TestW17FolderThatLooksRight(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		const lease = `C:\var\lib\cni\networks\n\10.132.0.77`
		r.must(r.m.WriteFile(lease, []byte("x")))
		r.must(r.sys.Files.SetAccess(`C:\var\lib\cni\networks`, plan.AccessPublic))
		p := plan.Plan{Directories: []plan.Directory{{Path: `C:\var\lib\cni\networks`, Access: plan.AccessPublic, Purge: true}}}
		s := step.Build(p, r.ledger, r.sys, r.opts)[0]
		drift, err := s.Check(t.Context())
		if err != nil || drift.InSync() {
			t.Fatalf("%v, %v", drift, err)
		}
		_, err = s.Apply(t.Context())
		r.must(err)
		if _, err := r.sys.Files.Stat(lease); !errors.Is(err, system.ErrNotExist) {
			t.Errorf("the lease of a former cluster is still there: %v", err)
		}
		r.must(r.m.WriteFile(lease, []byte("ours")))
		if drift, err := s.Check(t.Context()); err != nil || !drift.InSync() {
			t.Errorf("%v, %v", drift, err)
		}
	})
}
