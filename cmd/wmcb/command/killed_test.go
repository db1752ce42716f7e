package command

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// killAt kills the processes that run wmcb with one of the commands at their nth change of the disk, and counts the changes.
func (r *rig) killAt(n int, seen *int) {
	service := r.service()
	r.m.Intercept(func(op fake.Op) fake.Verdict {
		if op.PID == 0 || op.PID == service || op.Kind == fake.OpSync || op.Kind == fake.OpClose {
			return fake.Verdict{}
		}
		*seen++
		return fake.Verdict{KillBefore: *seen == n, Keep: 3}
	})
}

// service is the process of the agent's service, 0 when it does not run.
func (r *rig) service() uint32 {
	st, err := r.m.System().Services.Status(plan.AgentService)
	if err != nil {
		return 0
	}
	return st.PID
}

// TestApplyKilledAtEveryWrite: the machine keeps the old plan or has the new one, never something in between, and applying again works.
func TestApplyKilledAtEveryWrite(t *testing.T) {
	total := 0
	for n := 0; n <= total; n++ {
		withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
			if exit, out, _ := r.run(envelope(t, 1, variable("old")), "apply", "--json"); exit != ExitOK {
				t.Fatalf("exit %d, %s", exit, out)
			}
			seen := 0
			r.killAt(n, &seen)
			_, _, _ = r.run(envelope(t, 2, variable("new")), "apply", "--json")
			r.m.Intercept(nil)
			if n == 0 {
				total = seen
			}
			_, out, _ := r.run("", "status", "--json")
			if got := reports(t, out)[0]; got.Generation != 1 && got.Generation != 2 {
				t.Errorf("killed at write %d: %+v", n, got)
			}
			exit, out, _ := r.run(envelope(t, 2, variable("new")), "apply", "--json")
			if exit != ExitOK {
				t.Errorf("killed at write %d, applied again: exit %d, %s", n, exit, out)
			}
		})
	}
	if total < 3 {
		t.Errorf("only %d writes seen", total)
	}
}

// TestRemoveKilledAtEveryWrite: removing again ends what was begun, and leaves a machine with C:\k, or without, as it was.
func TestRemoveKilledAtEveryWrite(t *testing.T) {
	t.Run("without", func(t *testing.T) { removeKilled(t, func(*rig) error { return nil }) })
	t.Run("with", func(t *testing.T) { removeKilled(t, closedInstallDir) })
}

// closedInstallDir makes a C:\k that is somebody's and that only administrators can read.
func closedInstallDir(r *rig) error {
	return errors.Join(
		r.m.System().Files.Mkdir(plan.InstallDir, plan.AccessSecret),
		r.m.WriteFile(`C:\k\theirs`, []byte("x")),
	)
}

func removeKilled(t *testing.T, prepare func(*rig) error) {
	t.Helper()
	total := 0
	for n := 0; n <= total; n++ {
		withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
			if err := prepare(r); err != nil {
				t.Fatal(err)
			}
			before := r.m.Dump()
			if exit, out, _ := r.run(envelope(t, 1, variable("b")), "apply", "--json"); exit != ExitOK {
				t.Fatalf("exit %d, %s", exit, out)
			}
			seen := 0
			r.killAt(n, &seen)
			_, _, _ = r.run("", "remove", "--json")
			r.m.Intercept(nil)
			if n == 0 {
				total = seen
			}
			if exit, out, _ := r.run("", "remove", "--json"); exit != ExitOK {
				t.Errorf("killed at write %d, removed again: exit %d, %s", n, exit, out)
			}
			if d := cmp.Diff(before, r.m.Dump(), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("killed at write %d: the machine is not as it was (-want +got):\n%s", n, d)
			}
		})
	}
	if total < 10 {
		t.Errorf("only %d writes seen", total)
	}
}

// TestFirstApplyKilledAtEveryWrite: what C:\k was like before the first command of all is not forgotten.
func TestFirstApplyKilledAtEveryWrite(t *testing.T) {
	total := 0
	for n := 0; n <= total; n++ {
		withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
			if err := closedInstallDir(r); err != nil {
				t.Fatal(err)
			}
			before := r.m.Dump()
			seen := 0
			r.killAt(n, &seen)
			_, _, _ = r.run(envelope(t, 1, variable("b")), "apply", "--json")
			r.m.Intercept(nil)
			if n == 0 {
				total = seen
			}
			for _, tc := range []struct{ stdin, command string }{{envelope(t, 1, variable("b")), "apply"}, {"", "remove"}} {
				if exit, out, _ := r.run(tc.stdin, tc.command, "--json"); exit != ExitOK {
					t.Errorf("killed at write %d, then %s: exit %d, %s", n, tc.command, exit, out)
				}
			}
			if d := cmp.Diff(before, r.m.Dump(), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("killed at write %d: the machine is not as it was (-want +got):\n%s", n, d)
			}
		})
	}
	if total < 10 {
		t.Errorf("only %d writes seen", total)
	}
}

// TestReceiveEnds: a receive whose sender has fallen silent ends as a process, although its read of standard input never does, and others can
// write again.
func TestReceiveEnds(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		in, operator := io.Pipe()
		defer operator.Close()
		var out output
		p, err := r.m.StartProcess(exe, []string{"receive"}, fake.Streams{Stdin: in, Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if exit, _, _ := r.run(envelope(t, 1, variable("b")), "apply", "--json"); exit != ExitBusy {
			t.Errorf("apply during the upload: exit %d", exit)
		}
		if exit := p.Wait(); exit != ExitFailed || !strings.Contains(out.String(), agent.CodeTransferInvalid) {
			t.Errorf("exit %d, %s", exit, out.String())
		}
		if exit, out, _ := r.run(envelope(t, 1, variable("b")), "apply", "--json"); exit != ExitOK {
			t.Errorf("apply after it: exit %d, %s", exit, out)
		}
	})
}

// TestApplyIsKilled: the run goes on without the command, as it must when the connection drops.
func TestApplyIsKilled(t *testing.T) {
	withRig(t, fake.Options{Features: map[string]fake.Feature{"Containers": {Enabled: true}}}, func(t *testing.T, r *rig) {
		p := plan.Plan{Networks: []plan.Network{{
			Name: "wmo", Type: plan.NetworkL2Bridge, ManagementIP: "192.0.2.10", Prefix: "10.244.3.0/24", Gateway: "10.244.3.1",
		}}}
		started := make(chan struct{})
		cancel := r.m.Watch(func(e fake.Event) {
			if e == fake.EventLinkDown {
				close(started)
			}
		})
		defer cancel()
		var out output
		command, err := r.m.StartProcess(exe, []string{"apply", "--json"}, fake.Streams{Stdin: strings.NewReader(envelope(t, 1, p)), Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		<-started
		command.Kill()
		<-command.Done()
		exit, follow, _ := r.run("", "status", "--follow", "--json")
		all := reports(t, follow)
		if exit != ExitOK || all[len(all)-1].Phase != plan.PhaseInSync {
			t.Errorf("exit %d, %+v", exit, all)
		}
	})
}
