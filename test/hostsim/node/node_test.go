package node

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/payload"
)

func newMachine(t *testing.T) *fake.Machine {
	t.Helper()
	n := New(Options{})
	m := fake.New(fake.Options{
		Hostname: "WIN-A", Resolve: n.Resolve, Features: map[string]fake.Feature{"Containers": {Enabled: true}}, Timing: fake.Timing{LinkDown: 2},
	})
	t.Cleanup(func() { m.Close(); n.Close() })
	return m
}

func put(t *testing.T, m *fake.Machine, path, data string) {
	t.Helper()
	if err := m.WriteFile(path, []byte(data)); err != nil {
		t.Fatal(err)
	}
}

// Flags that kubelets of other versions know are refused, as the real one of this version does.
func TestW10FlagsOfOtherVersions(t *testing.T) {
	for flag, ok := range map[string]bool{
		"--config=x": true, "--windows-service": true, "--node-ip=192.0.2.1": true, "--v=4": true, "--node_ip=192.0.2.1": true,
		"--container-runtime=remote": false, "--pod-infra-container-image=registry.k8s.io/pause:3.9": false, "--network-plugin=cni": false,
		"--log-file=x": false, "--logtostderr=false": false, "--image-pull-progress-deadline=20m": false, "--allow-privileged": false,
		"kubelet": false, "--config": false, "-config=x": false,
	} {
		if _, err := parseKubeletArgs([]string{flag}); (err == nil) != ok {
			t.Errorf("%s: %v, want it known: %v", flag, err, ok)
		}
	}
	got, err := parseKubeletArgs([]string{"--config", `C:\k\kubelet.conf`, "--windows-service", "--eviction-hard=memory.available<500Mi"})
	want := map[string]string{"config": `C:\k\kubelet.conf`, "windows-service": "true", "eviction-hard": "memory.available<500Mi"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestKubeletConfigIsReadStrictly(t *testing.T) {
	const head = `{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration"`
	for data, ok := range map[string]bool{
		head + `,"maxPods":250}`: true,
		head + `,"crashLoopBackOff":{"maxContainerRestartPeriod":"5m0s"}}`: true,
		head + `,"noSuchField":1}`:                                                false,
		head + `,"maxPods":1,"maxPods":2}`:                                        false,
		head + `,"singleProcessOOMKill":false}`:                                   false,
		head + `,"userNamespaces":{}}`:                                            false,
		`{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v9"}`: false,
		`{}`: false, `[`: false,
		"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 5\n": true,
	} {
		if _, err := parseKubeletConfig([]byte(data)); (err == nil) != ok {
			t.Errorf("%s: %v", data, err)
		}
	}
}

// Labels that a kubelet may not set on itself end it.
func TestW70ForbiddenLabels(t *testing.T) {
	for flag, ok := range map[string]bool{
		"node.openshift.io/os_id=Windows,team=a_b": true, "node.kubernetes.io/windows-build=10.0.20348": true, "kubernetes.io/os=windows": true,
		"kubelet.kubernetes.io/x=y": true, "": true,
		"node-role.kubernetes.io/worker=": false, "kubernetes.io/custom=x": false, "x.k8s.io/a=b": false, "team=-bad": false, "novalue": false, "a b=c": false,
	} {
		if _, err := parseLabels(flag); (err == nil) != ok {
			t.Errorf("%q: %v", flag, err)
		}
	}
}

func TestTaints(t *testing.T) {
	got, err := parseTaints("os=Windows:NoSchedule,karpenter.sh/unregistered:NoExecute")
	want := []corev1.Taint{
		{Key: "os", Value: "Windows", Effect: corev1.TaintEffectNoSchedule}, {Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, bad := range []string{"os=Windows", ":NoSchedule", "os:"} {
		if _, err := parseTaints(bad); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
}

func TestContainerdConfig(t *testing.T) {
	for name, tc := range map[string]struct {
		toml string
		want containerdConfig
		bad  bool
	}{
		"version 3": {
			toml: "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = ['C:\\k\\cni']\nconf_dir = 'C:\\k\\cni\\config'\n",
			want: containerdConfig{`\\.\pipe\containerd-containerd`, `C:\k\cni\config`, []string{`C:\k\cni`}},
		},
		"version 2": {
			toml: "version = 2\n[grpc]\naddress = '//./pipe/other'\n[plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = 'C:/k/cni'\nconf_dir = 'C:/c'\n",
			want: containerdConfig{`//./pipe/other`, `C:/c`, []string{`C:/k/cni`}},
		},
		"table of the other version": {
			toml: "version = 3\n[plugins.\"io.containerd.grpc.v1.cri\".cni]\nconf_dir = 'C:/c'\n",
			want: containerdConfig{`\\.\pipe\containerd-containerd`, `C:\Program Files\containerd\cni\conf`, []string{`C:\Program Files\containerd\cni\bin`}},
		},
		"both bin dirs": {toml: "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = ['a']\nbin_dir = 'b'\n", bad: true},
		"no version":    {toml: "[grpc]\n", bad: true},
		"no TOML":       {toml: "{", bad: true},
	} {
		got, err := parseContainerd([]byte(tc.toml))
		if tc.bad {
			if err == nil {
				t.Errorf("%s passed", name)
			}
			continue
		}
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(containerdConfig{})); diff != "" || err != nil {
			t.Errorf("%s: %s %v", name, diff, err)
		}
	}
}

// Only the first configuration by name counts, and it counts only with its plugins and its HNS network.
func TestW16NetworkReady(t *testing.T) {
	m := newMachine(t)
	c := &cri{confDir: `C:\k\conf`, binDirs: []string{`C:\k\bin`}, system: m.System()}
	ready := func(want string) {
		t.Helper()
		err := c.networkReady()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("network ready: %v, want %q", err, want)
		}
	}
	ready("cni plugin not initialized")
	put(t, m, `C:\k\conf\10-cni.conflist`, `{"name":"l2","plugins":[{"type":"win-bridge","ipam":{"type":"host-local"}}]}`)
	put(t, m, `C:\k\conf\readme.txt`, "x")
	ready(`"win-bridge"`)
	put(t, m, `C:\k\bin\win-bridge.exe`, "x")
	ready(`"host-local"`)
	put(t, m, `C:\k\bin\host-local.exe`, "x")
	ready(`HNS network "l2" does not exist`)
	network := plan.Network{Name: "l2", Type: plan.NetworkOverlay, VSID: 4096, ManagementIP: "192.0.2.10", Prefix: "10.0.0.0/24", Gateway: "10.0.0.1"}
	if err := m.System().Networks.Create(t.Context(), network); err != nil {
		t.Fatal(err)
	}
	ready("is of type Overlay")
	put(t, m, `C:\k\conf\05.conf`, `{"name":"other","type":"sdnbridge"}`)
	put(t, m, `C:\k\bin\sdnbridge.exe`, "x")
	ready("")
	put(t, m, `C:\k\conf\00-old.conflist`, `{"cniVersion":"0.3.0","name":"cbr0","plugins":[{"type":"flannel"}]}`)
	ready(`"flannel"`)
	put(t, m, `C:\k\conf\00-old.conflist`, `{`)
	ready("00-old.conflist")
	put(t, m, `C:\k\conf\00-old.conflist`, `{"name":"x","plugins":[]}`)
	ready("no plugins")
	put(t, m, `C:\k\conf\00-old.conflist`, strings.Repeat(" ", maxFile+1))
	ready("larger than")
}

func TestPipeNames(t *testing.T) {
	want := pipeName(`\\.\pipe\containerd-containerd`)
	for _, s := range []string{"npipe:////./pipe/containerd-containerd", "npipe://./pipe/containerd-containerd", "//./pipe/Containerd-containerd"} {
		if got := pipeName(s); got != want {
			t.Errorf("%s is %s, want %s", s, got, want)
		}
	}
}

func start(t *testing.T, m *fake.Machine, exe string, args ...string) (exit int, output string) {
	t.Helper()
	var b bytes.Buffer
	p, err := m.StartProcess(exe, args, fake.Streams{Stdout: &b, Stderr: &b})
	if err != nil {
		t.Fatal(err)
	}
	exit = p.Wait()
	m.Close() // so that the program's goroutine has ended before the buffer is read
	return exit, b.String()
}

func TestProgramsSayWhatTheyLack(t *testing.T) {
	const (
		runner, containerd, kubelet = `C:\k\kube-log-runner.exe`, `C:\k\containerd.exe`, `C:\k\kubelet.exe`
		config                      = `{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","containerRuntimeEndpoint":"npipe:////./pipe/x",` +
			`"authentication":{"x509":{"clientCAFile":"C:\\k\\ca.crt"}}}`
	)
	for name, tc := range map[string]struct {
		exe  string
		args []string
		want string
		exit int
	}{
		"runner: log folder":      {runner, []string{`-log-file=C:\var\log\none\x.log`, containerd}, "log file", 1},
		"runner: unknown flag":    {runner, []string{`-nonsense`, containerd}, "nonsense", 2},
		"runner: nothing":         {runner, nil, "no program", 1},
		"runner: no program":      {runner, []string{`C:\k\none.exe`}, "does not exist", 1},
		"runner: child":           {runner, []string{kubelet, "--nonsense"}, "unknown flag", 1},
		"containerd: flag":        {containerd, []string{"--nonsense"}, "unknown flag", 1},
		"containerd: config":      {containerd, []string{"-c", `C:\k\none.toml`}, "does not exist", 1},
		"containerd: shim":        {containerd, []string{"--config", `C:\k\config.toml`}, "shim", 1},
		"kubelet: config":         {kubelet, []string{`--config=C:\k\none`}, "failed to load Kubelet config", 1},
		"kubelet: no endpoint":    {kubelet, nil, "endpoint", 1},
		"kubelet: label":          {kubelet, []string{`--config=C:\k\kubelet.conf`, "--node-labels=node-role.kubernetes.io/worker="}, "unknown 'kubernetes.io'", 1},
		"kubelet: name":           {kubelet, []string{`--config=C:\k\kubelet.conf`, "--hostname-override=a_b"}, "node name", 1},
		"kubelet: client CA":      {kubelet, []string{`--config=C:\k\kubelet.conf`}, "client CA", 1},
		"kubelet: no certificate": {kubelet, []string{`--config=C:\k\kubelet.conf`, `--client-ca-file=C:\k\kubelet.conf`}, "client CA", 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			for _, exe := range []string{runner, containerd, kubelet} {
				put(t, m, exe, string(payload.Marker(exe[len(`C:\k\`):])))
			}
			put(t, m, `C:\k\config.toml`, "version = 3\n")
			put(t, m, `C:\k\kubelet.conf`, config)
			exit, output := start(t, m, tc.exe, tc.args...)
			if exit != tc.exit || !strings.Contains(strings.ToLower(output), strings.ToLower(tc.want)) {
				t.Errorf("exit %d, %q; want %d and %q", exit, output, tc.exit, tc.want)
			}
		})
	}
}

// A containerd without --run-service never connects to the service manager; one with it runs until it is asked to stop.
func TestContainerdAsAService(t *testing.T) {
	for flag, want := range map[string]error{"--run-service": nil, "--service-name=containerd": system.ErrServiceTimeout} {
		n := New(Options{})
		m := fake.New(fake.Options{Resolve: n.Resolve, Timing: fake.Timing{StartTimeout: 200e6}})
		put(t, m, `C:\k\containerd.exe`, string(payload.Marker("containerd.exe")))
		put(t, m, `C:\k\containerd-shim-runhcs-v1.exe`, "x")
		put(t, m, `C:\k\config.toml`, "version = 3\n")
		s := m.System().Services
		cfg := system.ServiceConfig{Name: "containerd", Exe: `C:\k\containerd.exe`, Args: []string{"--config", `C:\k\config.toml`, flag}}
		if err := s.Create(cfg); err != nil {
			t.Fatal(err)
		}
		if err := s.Start("containerd"); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("start with %s: %v, want %v", flag, err, want)
		}
		m.Close()
		n.Close()
		if n.dial(pipeName(`\\.\pipe\containerd-containerd`)) != nil {
			t.Error("the pipe outlives its process")
		}
	}
}
