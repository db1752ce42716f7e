package command

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// same fails when the machine is not as it was.
func (b *bench) same(before fake.Tree) {
	b.t.Helper()
	if d := cmp.Diff(before, b.m.Dump(), cmpopts.EquateEmpty()); d != "" {
		b.t.Errorf("the machine has changed (-want +got):\n%s", d)
	}
}

// TestBootstrapByHand: the three commands in the order of a user's day, each twice.
func TestBootstrapByHand(t *testing.T) {
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
		before := b.m.Dump()
		twice := func(said string, args ...string) {
			b.ok(said, args...)
			after := b.m.Dump()
			pids := b.pids()
			b.ok(said, args...)
			b.t.Helper()
			if d := cmp.Diff(after.Services, b.m.Dump().Services, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("%q changed services the second time: %s", args, d)
			}
			if d := cmp.Diff(pids, b.pids()); d != "" {
				t.Errorf("%q restarted something the second time: %s", args, d)
			}
		}
		conf := `C:\k\cni\config\10-windowsmachine.conf`
		twice(saidInitialized, b.initArgs("--node-ip", "192.0.2.10")...)
		for _, name := range []string{"containerd", "kubelet", plan.AgentService} {
			if !b.running(name) {
				t.Errorf("%s does not run", name)
			}
		}
		if got := b.service("kubelet"); !cmp.Equal(got.DependsOn, []string{"containerd"}) || got.Recovery == nil || got.Description == "" {
			t.Errorf("%+v", got)
		}
		if b.exists(conf) {
			t.Error("a network without configure-cni")
		}
		twice(saidConfigured, b.cniArgs()...)
		if got := b.read(conf); strings.Contains(got, "\r") || !strings.HasPrefix(got, "{\n") {
			t.Errorf("%q", got)
		}
		// Another network may be chosen.
		b.ok(saidInitialized, b.initArgs("--node-ip", "192.0.2.10")...)
		for _, gone := range []string{conf, `C:\k\cni\win-overlay.exe`} {
			if b.exists(gone) {
				t.Errorf("%s is still there", gone)
			}
		}
		b.ok(saidConfigured, b.cniArgs()...)
		twice(saidUninstalled, "uninstall-kubelet")
		b.same(before)
	})
}

func (b *bench) pids() map[string]uint32 {
	out := map[string]uint32{}
	for _, name := range []string{"containerd", "kubelet"} {
		if st, err := b.m.System().Services.Status(name); err == nil {
			out[name] = st.PID
		}
	}
	return out
}

// TestDryRun: the difference is printed, and nothing changes.
func TestDryRun(t *testing.T) {
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
		before := b.m.Dump()
		exit, out, errs := b.run("", b.initArgs("--dry-run")...)
		for _, want := range []string{
			"add    file C:\\k\\kubelet.exe\n", "add    service kubelet\n", "         + --v=4\n", "add    service containerd\n", "add    secret C:\\k\\bootstrap-kubeconfig\n",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		if exit != ExitOK {
			t.Errorf("exit %d, %s", exit, errs)
		}
		b.same(before)

		b.ok(saidInitialized, b.initArgs()...)
		before = b.m.Dump()
		if _, out, _ := b.run("", b.initArgs("--dry-run")...); out != "Nothing would change.\n" {
			t.Errorf("%s", out)
		}
		_, out, _ = b.run("", b.initArgs("--dry-run", "--kubelet-verbosity", "9")...)
		if want := "change service kubelet (has other arguments)\n         - --v=4\n         + --v=9\n"; out != want {
			t.Errorf("%s", out)
		}
		_, out, _ = b.run("", b.cniArgs("--dry-run", "--json")...)
		for line := range strings.Lines(out) {
			var d struct{ Kind, Object, Name string }
			if err := json.Unmarshal([]byte(line), &d); err != nil || d.Kind == "" || d.Object == "" || d.Name == "" {
				t.Errorf("%s: %v", line, err)
			}
		}
		if strings.Count(out, "\n") < 3 || strings.Contains(out, testToken) {
			t.Errorf("%s", out)
		}
		b.same(before)
	})
}

// TestEverythingAtOnce: all that is wrong is named before anything is changed.
func TestEverythingAtOnce(t *testing.T) {
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{NotElevated: true, Build: 14393}, func(t *testing.T, b *bench) {
		said := b.refused("initialize-kubelet", "--ignition-file", `C:\in\absent.ign`, "--kubelet-path", "kubelet.exe", "--node-ip", "x", "--cluster-dns", "y",
			"--kubelet-verbosity", "z", "--node-labels", "node-role.kubernetes.io/worker=,a", "--register-with-taints", "q", "--install-dir", `C:\Windows\k`)
		for _, want := range []string{
			"OSTooOld", "NotElevated", "absent.ign", "not an absolute path", "--node-ip", "--cluster-dns", "--kubelet-verbosity", "node-role.kubernetes.io/worker",
			`"a" is not key=value`, "--register-with-taints", "--install-dir",
		} {
			if !strings.Contains(said, want) {
				t.Errorf("nothing about %s in\n%s", want, said)
			}
		}
		said = b.refused("configure-cni", "--cni-dir", `C:\in\absent`, "--cni-config", `C:\in\absent.conf`)
		for _, want := range []string{"OSTooOld", "NotElevated", `C:\in\absent:`, `absent.conf`, "initialize-kubelet"} {
			if !strings.Contains(said, want) {
				t.Errorf("nothing about %s in\n%s", want, said)
			}
		}
		if said := b.refused("uninstall-kubelet"); !strings.Contains(said, "NotElevated") {
			t.Errorf("%s", said)
		}
	})
}

// TestW50OddBootstrapUsage: what is not understood does nothing.
func TestW50OddBootstrapUsage(t *testing.T) {
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
		before := b.m.Dump()
		for _, args := range [][]string{
			{"initialize-kubelet"},
			{"initialize-kubelet", "--ignition-file", ignitionFile},
			// Two quotes were never closed, so that the rest of the line is one argument.
			{"configure-cni", `--cni-dir=C:\k\cni --cni-config=C:\k\cni\config\cni.conf`},
			{"configure-cni", "--cni-dir"},
			{"uninstall-kubelet", "now"},
			{"initialize-kubelet", "--kubelet-path", kubeletFile, "--ignition-file", ignitionFile, `C:\k\`},
		} {
			if exit, out, errs := b.run("", args...); exit != ExitUsage || out != "" || errs == "" {
				t.Errorf("%q: exit %d, %s, %s", args, exit, out, errs)
			}
		}
		b.same(before)
		exit, _, errs := b.run("", "initialize-kubelet")
		if exit != ExitUsage || !strings.Contains(errs, "ignition-file") || !strings.Contains(errs, "kubelet-path") {
			t.Errorf("both flags at once? %s", errs)
		}
	})
}

// TestW53InstallDirWithSpaces: the command line of the service is a list to the end.
func TestW53InstallDirWithSpaces(t *testing.T) {
	const install, logs = `C:\Program Files\k8s node`, `C:\var\log\kube let`
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
		b.put(`C:\in\kube-log-runner.exe`, "MZ runner 1.31")
		before := b.m.Dump()
		b.ok(saidInitialized, b.initArgs("--install-dir", install+`\`, "--log-dir", logs)...)
		c := b.service("kubelet")
		want := []string{`-log-file=C:\var\log\kube let\kubelet.log`, install + `\kubelet.exe`, "--config=" + install + `\kubelet.conf`}
		if d := cmp.Diff(want, c.Args[:3]); d != "" || c.Exe != install+`\kube-log-runner.exe` {
			t.Errorf("%s %s", c.Exe, d)
		}
		b.ok(saidConfigured, b.cniArgs()...)
		if !b.exists(install + `\cni\config\10-windowsmachine.conf`) {
			t.Error("the network is elsewhere")
		}
		pids := b.pids()
		b.ok(saidConfigured, b.cniArgs("--install-dir", install)...)
		if d := cmp.Diff(pids, b.pids()); d != "" {
			t.Errorf("restarted: %s", d)
		}
		if said := b.refused(b.cniArgs("--install-dir", `C:\k`)...); !strings.Contains(said, install) {
			t.Errorf("%s", said)
		}
		b.ok(saidUninstalled, "uninstall-kubelet")
		b.same(before)
	})
}

// TestW53StartFailureSaysWhere: a service that does not come up is named with its code and its log.
func TestW53StartFailureSaysWhere(t *testing.T) {
	withBench(t, "v1.25.16", "v1.7.24", fake.Options{}, func(t *testing.T, b *bench) {
		b.put(kubeletFile, "MZ kubelet v1.25.16 mute")
		exit, out, errs := b.run("", b.initArgs()...)
		if exit != ExitFailed || out != "" {
			t.Fatalf("exit %d, %s", exit, out)
		}
		for _, want := range []string{"start-kubelet", "ServiceStartTimeout", "1053", `C:\var\log\kubelet\kubelet.log`} {
			if !strings.Contains(errs, want) {
				t.Errorf("no %q in\n%s", want, errs)
			}
		}
	})
}

// TestW54ServiceRules: a deleted service that somebody holds open is waited for, dependents are stopped in order and started again.
func TestW54ServiceRules(t *testing.T) {
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
		b.ok(saidInitialized, b.initArgs()...)
		b.put(`C:\hybrid\hybrid-overlay-node.exe`, "MZ hybrid 1")
		services := b.m.System().Services
		for _, err := range []error{
			services.Create(system.ServiceConfig{Name: "hybrid-overlay-node", Exe: `C:\hybrid\hybrid-overlay-node.exe`, DependsOn: []string{"kubelet"}}),
			services.Start("hybrid-overlay-node"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		b.ok(saidInitialized, b.initArgs("--kubelet-verbosity", "8")...)
		if !b.running("hybrid-overlay-node") || !b.running("kubelet") {
			t.Error("what depends on the kubelet was not started again")
		}
		if err := services.Stop("hybrid-overlay-node"); err != nil {
			t.Fatal(err)
		}
		// Somebody has services.msc open for a while.
		release, err := b.m.HoldService("kubelet")
		if err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(20*time.Second, release)
		defer timer.Stop()
		b.ok(saidUninstalled, "uninstall-kubelet")
	})
}

// TestJSON: every line of standard output is JSON.
func TestJSON(t *testing.T) {
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
		for _, args := range [][]string{b.initArgs("--json"), b.cniArgs("--json"), {"uninstall-kubelet", "--json"}} {
			exit, out, errs := b.run("", args...)
			if exit != ExitOK {
				t.Fatalf("exit %d, %s, %s", exit, out, errs)
			}
			var last map[string]any
			for line := range strings.Lines(out) {
				last = nil
				if err := json.Unmarshal([]byte(line), &last); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
			}
			if text, _ := last["message"].(string); !strings.HasSuffix(text, "successfully") {
				t.Errorf("%v", last)
			}
		}
	})
}
