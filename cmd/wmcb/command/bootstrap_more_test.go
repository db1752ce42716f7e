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

const (
	theirTOML = `C:\Program Files\containerd\config.toml`
	theirConf = "version = 2\n# theirs\n[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = 'their/pause:1'\n"
)

// theirs installs a containerd as an administrator would.
func (b *bench) theirs(version string) {
	b.t.Helper()
	b.put(`C:\Program Files\containerd\containerd.exe`, "MZ containerd "+version)
	b.put(theirTOML, theirConf)
	services := b.m.System().Services
	err := services.Create(system.ServiceConfig{Name: "containerd", Exe: `C:\Program Files\containerd\containerd.exe`, Args: []string{"--run-service"}})
	if err == nil {
		err = services.Start("containerd")
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestTheirContainerd: it is used as it is, gets two folders with the network and its own configuration back without.
func TestTheirContainerd(t *testing.T) {
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
		b.theirs("v1.7.24")
		before, pid := b.m.Dump(), b.pids()["containerd"]
		init := []string{"initialize-kubelet", "--ignition-file", ignitionFile, "--kubelet-path", kubeletFile}
		b.ok(saidInitialized, init...)
		if b.read(theirTOML) != theirConf || b.pids()["containerd"] != pid {
			t.Error("initialize-kubelet touched their containerd")
		}
		b.ok(saidConfigured, b.cniArgs()...)
		conf := b.read(theirTOML)
		if !strings.Contains(conf, "their/pause:1") || !strings.Contains(conf, `C:\k\cni\config`) {
			t.Error(conf)
		}
		after := b.pids()
		if after["containerd"] == pid || !b.running("containerd") || !b.running("kubelet") {
			t.Error("containerd was not restarted with its new configuration")
		}
		b.ok(saidConfigured, b.cniArgs()...)
		if d := cmp.Diff(after, b.pids()); d != "" {
			t.Errorf("restarted the second time: %s", d)
		}
		// It is still their file: what they change in it is not taken back, and goes into the next run.
		b.put(theirTOML, conf+"# mine\n[debug]\nlevel = 'info'\n")
		if err := b.m.System().Clock.Sleep(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := b.read(theirTOML); !strings.Contains(got, "# mine") || b.pids()["containerd"] != after["containerd"] {
			t.Errorf("their change was taken back:\n%s", got)
		}
		b.ok(saidConfigured, b.cniArgs()...)
		if got := b.read(theirTOML); !strings.Contains(got, "level = 'info'") || !strings.Contains(got, `C:\k\cni\config`) {
			t.Errorf("their change is lost:\n%s", got)
		}
		b.put(theirTOML, b.read(theirTOML)+"# and again\n")
		after = b.pids()
		if err := b.m.System().Clock.Sleep(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := b.read(theirTOML); !strings.Contains(got, "# and again") || b.pids()["containerd"] != after["containerd"] {
			t.Errorf("their second change was taken back:\n%s", got)
		}
		b.ok(saidInitialized, init...)
		if b.read(theirTOML) != theirConf || b.pids()["containerd"] == after["containerd"] || !b.running("kubelet") {
			t.Error("their configuration is not back and in use")
		}
		b.ok(saidConfigured, b.cniArgs()...)
		b.ok(saidUninstalled, "uninstall-kubelet")
		if !b.running("containerd") {
			t.Error("their containerd does not run")
		}
		b.same(before)
	})
}

// TestDockerByHand: the dockershim's flags come with the network and go without it.
func TestDockerByHand(t *testing.T) {
	withBench(t, "v1.16.2", "v1.7.24", fake.Options{}, func(t *testing.T, b *bench) {
		b.put(`C:\docker\dockerd.exe`, "MZ dockerd 19")
		services := b.m.System().Services
		if err := services.Create(system.ServiceConfig{Name: "docker", Exe: `C:\docker\dockerd.exe`}); err != nil {
			t.Fatal(err)
		}
		flags := func() string { return strings.Join(b.service("kubelet").Args, " ") }
		b.ok(saidInitialized, b.initArgs()...)
		if got := b.service("kubelet"); !cmp.Equal(got.DependsOn, []string{"docker"}) || strings.Contains(flags(), "cni") || !b.running("docker") {
			t.Errorf("%+v", got)
		}
		b.ok(saidConfigured, b.cniArgs()...)
		if !strings.Contains(flags(), `--network-plugin=cni --cni-bin-dir=C:\k\cni --cni-conf-dir=C:\k\cni\config`) {
			t.Error(flags())
		}
		b.ok(saidInitialized, b.initArgs()...)
		if strings.Contains(flags(), "cni") {
			t.Error(flags())
		}
	})
}

// TestReplacedByHand: a kubelet that somebody else installed is updated in place.
func TestReplacedByHand(t *testing.T) {
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
		b.put(`C:\k\kubelet.exe`, "MZ kubelet v1.20.0")
		b.put(`C:\var\lib\kubelet\pki\kubelet-client-current.pem`, "theirs")
		services := b.m.System().Services
		if err := services.Create(system.ServiceConfig{Name: "kubelet", Exe: `C:\k\kubelet.exe`, Args: []string{"--old"}}); err != nil {
			t.Fatal(err)
		}
		if err := services.Start("kubelet"); err != nil {
			t.Fatal(err)
		}
		if _, errs := b.ok(saidInitialized, b.initArgs()...); !strings.Contains(errs, "ServiceReplaced") {
			t.Error(errs)
		}
		if got := b.read(`C:\k\kubelet.exe`); got != "MZ kubelet v1.31.14" || !b.running("kubelet") {
			t.Errorf("%s", got)
		}
		if got := b.read(`C:\var\lib\kubelet\pki\kubelet-client-current.pem`); got != "theirs" {
			t.Errorf("%s", got)
		}
		pids := b.pids()
		b.ok(saidInitialized, b.initArgs()...)
		if d := cmp.Diff(pids, b.pids()); d != "" {
			t.Error(d)
		}
		b.ok(saidUninstalled, "uninstall-kubelet")
		if _, err := services.Config("kubelet"); err == nil {
			t.Error("the kubelet is still there")
		}
	})
}

// TestW17AnotherCluster: leases and certificates of the former cluster go when the machine joins another one, and when it is given back.
func TestW17AnotherCluster(t *testing.T) {
	lease, cert := `C:\var\lib\cni\networks\OVNKubernetesHybridOverlayNetwork\10.132.0.77`, `C:\var\lib\kubelet\pki\kubelet-client-current.pem`
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
		b.put(lease, "left by a predecessor")
		b.ok(saidInitialized, b.initArgs()...)
		if b.exists(lease) {
			t.Error("a lease of a former installation is still there")
		}
		b.put(lease, "a")
		b.put(cert, "a")
		b.ok(saidInitialized, b.initArgs()...)
		if !b.exists(lease) || !b.exists(cert) {
			t.Error("the same cluster: nothing may be lost")
		}
		b.put(ignitionFile, string(workerIgnition("3.4.0", map[string]string{
			"/etc/kubernetes/kubeconfig": testKubeconfig("https://api-int.other.test:6443"),
		})))
		b.ok(saidInitialized, b.initArgs()...)
		if b.exists(lease) || b.exists(cert) || !strings.Contains(b.read(`C:\k\bootstrap-kubeconfig`), "other.test") {
			t.Error("another cluster: the machine must begin clean")
		}
		b.put(lease, "b")
		b.ok(saidUninstalled, "uninstall-kubelet")
		for _, path := range []string{lease, cert, `C:\var\lib\kubelet`} {
			if b.exists(path) {
				t.Errorf("%s is still there", path)
			}
		}
	})
}

// TestOperatorsMachine: what the operator keeps is left alone.
func TestOperatorsMachine(t *testing.T) {
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
		if exit, out, _ := b.run(envelope(t, 1, variable("b")), "apply", "--json"); exit != ExitOK {
			t.Fatal(out)
		}
		for _, args := range [][]string{b.initArgs(), b.cniArgs(), {"uninstall-kubelet"}} {
			if said := b.refused(args...); !strings.Contains(said, "Owner") {
				t.Errorf("%q: %s", args, said)
			}
		}
		if exit, out, _ := b.run(envelope(t, 2, variable("b")), "apply", "--only", "x", "--json"); exit != ExitFailed || !strings.Contains(out, "HostMismatch") {
			t.Errorf("exit %d, %s", exit, out)
		}
	})
}

// TestApplyOnly: a part stands beside those of the commands.
func TestApplyOnly(t *testing.T) {
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
		b.ok(saidInitialized, b.initArgs()...)
		before := b.m.Dump()
		exit, out, _ := b.run(envelope(t, 1, variable("b")), "apply", "--only", "tools", "--dry-run")
		if exit != ExitOK || out != "add    env A\n" {
			t.Errorf("exit %d, %s", exit, out)
		}
		b.same(before)
		if exit, out, _ := b.run(envelope(t, 1, variable("b")), "apply", "--only", "tools", "--json"); exit != ExitOK {
			t.Fatal(out)
		}
		value := func() string { v, _, _ := b.m.System().Env.Get("A"); return v }
		if value() != "b" || !b.running("kubelet") {
			t.Error("one part took the other's place")
		}
		b.ok(saidUninstalled, "uninstall-kubelet")
		if value() != "b" || b.exists(`C:\k\kubelet.exe`) || !b.running(plan.AgentService) {
			t.Error("uninstall-kubelet takes back what others made, or leaves its own")
		}
		if exit, out, _ := b.run(envelope(t, 1, plan.Plan{}), "apply", "--only", "tools", "--json"); exit != ExitOK || value() != "" {
			t.Errorf("%s", out)
		}
	})
}

// TestAgentSettles: an executable in a folder of somebody's is not what a service runs.
func TestAgentSettles(t *testing.T) {
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
		const download = `C:\Users\a\Downloads\wmcb.exe`
		b.put(download, "MZ wmcb of today")
		if err := b.m.System().Files.Remove(exe); err != nil {
			t.Fatal(err)
		}
		before := b.m.Dump()
		b.exe = download
		b.ok(saidInitialized, b.initArgs()...)
		if got := b.service(plan.AgentService).Exe; !strings.HasPrefix(got, plan.AgentBin+`\`) || b.read(got) != "MZ wmcb of today" {
			t.Errorf("the service runs %s", got)
		}
		b.ok(saidUninstalled, "uninstall-kubelet")
		after := b.m.Dump()
		for _, folder := range []string{`C:\Windows\wmcb`, exe[:len(exe)-len(`\wmcb.exe`)]} {
			delete(before.Files, folder)
			delete(after.Files, folder)
		}
		if d := cmp.Diff(before, after, cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
	})
}

// TestBootstrapKilledAtEveryWrite: whatever was under way, the same command ends it, and uninstall-kubelet leaves nothing.
func TestBootstrapKilledAtEveryWrite(t *testing.T) {
	total := 0
	// Some twenty of them: each is a whole installation and more.
	for n := 0; n <= total; n += 1 + total/20 {
		withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
			before := b.m.Dump()
			seen := 0
			b.killAt(n, &seen)
			_, _, _ = b.run("", b.initArgs()...)
			if n == 0 {
				total = seen
			}
			_, _, _ = b.run("", b.cniArgs()...)
			b.m.Intercept(nil)
			b.ok(saidInitialized, b.initArgs()...)
			b.ok(saidConfigured, b.cniArgs()...)
			b.ok(saidUninstalled, "uninstall-kubelet")
			b.same(before)
		})
	}
	if total < 5 {
		t.Errorf("only %d writes seen", total)
	}
}

// TestServiceKilledWhileBootstrapping: the agent's service dies at some write of its run; the service manager starts it again, and the command
// that watches goes on.
func TestServiceKilledWhileBootstrapping(t *testing.T) {
	for n := 1; n <= 40; n += 3 {
		withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
			// The command is the first that writes, then the service.
			seen, command := 0, uint32(0)
			b.m.Intercept(func(op fake.Op) fake.Verdict {
				if command == 0 {
					command = op.PID
				}
				if op.PID == 0 || op.PID == command || op.Kind == fake.OpSync || op.Kind == fake.OpClose {
					return fake.Verdict{}
				}
				seen++
				return fake.Verdict{KillBefore: seen == n, Keep: 3}
			})
			exit, out, errs := b.run("", b.initArgs()...)
			b.m.Intercept(nil)
			if exit != ExitOK || out != saidInitialized+"\n" {
				t.Errorf("killed at write %d: exit %d, %s, %s", n, exit, out, errs)
			}
		})
	}
}

// TestNoSecretIsShown: the bootstrap credential is in one file that only administrators read, and in nothing that is printed.
func TestNoSecretIsShown(t *testing.T) {
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
		for _, args := range [][]string{b.initArgs("--dry-run"), b.initArgs("--json"), b.initArgs(), {"status", "--json"}, {"facts", "--json"}} {
			_, out, errs := b.run("", args...)
			if strings.Contains(out+errs, testToken) {
				t.Errorf("%q shows the credential", args)
			}
		}
		for path, f := range b.m.Dump().Files {
			content, err := b.m.ReadFile(path)
			if err == nil && strings.Contains(string(content), testToken) && f.Access != plan.AccessSecret && !strings.HasPrefix(path, `C:\in`) {
				t.Errorf("%s holds the credential and is %q", path, f.Access)
			}
		}
		var list []any
		for _, s := range b.m.Dump().Services {
			list = append(list, s)
		}
		if all, err := json.Marshal(list); err != nil || strings.Contains(string(all), testToken) {
			t.Errorf("a service's command line holds the credential: %v", err)
		}
	})
}

// TestKubeletThatHangs: asking for the version ends after ten seconds, and nothing was changed.
func TestKubeletThatHangs(t *testing.T) {
	withBench(t, "v1.31.14", "v2.1.4", fake.Options{}, func(t *testing.T, b *bench) {
		b.put(kubeletFile, "MZ hang 1")
		if said := b.refused(b.initArgs()...); !strings.Contains(said, kubeletFile) {
			t.Error(said)
		}
	})
}
