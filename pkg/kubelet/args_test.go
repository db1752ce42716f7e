package kubelet

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func args(t *testing.T, in Input) []string {
	t.Helper()
	out, err := Args(in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func everything(in *Input) {
	in.Labels = map[string]string{"team": "a-b", "node.openshift.io/os_id": "Windows"}
	in.CloudProvider, in.CloudConfig, in.PauseImage = "external", `C:\k\cloud.conf`, "registry.k8s.io/pause:3.9"
}

func TestArgs(t *testing.T) {
	want := []string{
		`--config=C:\k\kubelet.conf`,
		`--bootstrap-kubeconfig=C:\k\bootstrap-kubeconfig`,
		`--kubeconfig=C:\var\lib\kubelet\kubeconfig`,
		`--cert-dir=C:\var\lib\kubelet\pki`,
		`--root-dir=C:\var\lib\kubelet`,
		`--windows-service=true`,
		`--windows-priorityclass=ABOVE_NORMAL_PRIORITY_CLASS`,
		`--hostname-override=win-a`,
		`--node-ip=192.0.2.10`,
		`--node-labels=node.openshift.io/os_id=Windows,team=a-b`,
		`--cloud-provider=external`,
		`--v=2`,
	}
	if diff := cmp.Diff(want, args(t, input(everything))); diff != "" {
		t.Error(diff)
	}
}

func TestW10FlagsByVersion(t *testing.T) {
	for _, c := range []struct {
		name  string
		minor int
		have  []string
		lack  []string
	}{
		{"1.16", 16, []string{"register-with-taints=os=Windows:NoSchedule", "container-runtime=remote", "resolv-conf="}, []string{"windows-priorityclass"}},
		{"1.26", 26, []string{
			"container-runtime=remote", "container-runtime-endpoint=npipe:////./pipe/containerd-containerd",
			"pod-infra-container-image=registry.k8s.io/pause:3.9", `cloud-config=C:\k\cloud.conf`,
		}, []string{"register-with-taints", "network-plugin", "log-file", "logtostderr", "resolv-conf"}},
		{"1.27", 27, []string{"pod-infra-container-image=registry.k8s.io/pause:3.9"}, []string{"container-runtime", "container-runtime-endpoint"}},
		{"1.33", 33, nil, []string{"container-runtime", "pod-infra-container-image", "cloud-config"}},
		{"1.35", 35, nil, []string{"container-runtime", "pod-infra-container-image", "cloud-config", "log-file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := args(t, input(version(at(c.minor)), everything))
			for _, f := range c.have {
				if !slices.Contains(got, "--"+f) {
					t.Errorf("--%s is missing in %q", f, got)
				}
			}
			for _, f := range c.lack {
				if slices.ContainsFunc(got, func(a string) bool { return strings.HasPrefix(a, "--"+f+"=") }) {
					t.Errorf("--%s must not be there", f)
				}
			}
		})
	}
}

// The files in testdata/flags list the flags that the kubelet of that version registers on Windows. A version in between
// must do with what the versions on both sides know.
func TestW10NoFlagThatAKubeletDoesNotKnow(t *testing.T) {
	known := map[int]map[string]bool{}
	for _, file := range []string{"v1.16.15", "v1.23.17", "v1.27.16", "v1.31.14", "v1.35.0", "v1.37.2"} {
		b, err := os.ReadFile(filepath.Join("testdata", "flags", file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		v, err := ParseVersion(file)
		if err != nil {
			t.Fatal(err)
		}
		known[v.Minor] = map[string]bool{}
		for _, name := range strings.Fields(string(b)) {
			known[v.Minor][name] = true
		}
	}
	minors := slices.Sorted(maps.Keys(known))
	for minor := 16; minor <= 40; minor++ {
		seen := map[string]bool{}
		for _, a := range args(t, input(version(at(minor)), everything)) {
			name, _, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
			if seen[name] {
				t.Errorf("1.%d: --%s appears twice", minor, name)
			}
			seen[name] = true
			for i, m := range minors {
				between := m <= minor && (i+1 == len(minors) || minors[i+1] > minor)
				if between && !known[m][name] {
					t.Errorf("1.%d: --%s is not known to 1.%d", minor, name, m)
				}
			}
		}
	}
}

func TestW11OneTaintFlagAndValuesOfOneWord(t *testing.T) {
	for minor := 16; minor <= 37; minor++ {
		in := input(version(at(minor)), everything)
		flags := 0
		for _, a := range args(t, in) {
			if strings.HasPrefix(a, "--register-with-taints=") {
				flags++
			}
			if strings.ContainsAny(a, "\" \t\r\n") {
				t.Errorf("1.%d: argument %q", minor, a)
			}
		}
		_, inConfig := config(t, in)["registerWithTaints"]
		if inConfig == (flags == 1) || flags > 1 {
			t.Errorf("1.%d: taint in configuration %v, flags %d: exactly one place", minor, inConfig, flags)
		}
	}
	_, err := Args(input(func(in *Input) { in.Labels = map[string]string{"team": "a b is invalid, so use a-b"} }))
	if !errors.Is(err, ErrLabel) || !strings.Contains(err.Error(), `"team"`) {
		t.Errorf("got %v", err)
	}
}

func TestW13EmptyMapGivesNoFlag(t *testing.T) {
	for _, labels := range []map[string]string{nil, {}} {
		for _, a := range args(t, input(func(in *Input) { in.Labels = labels })) {
			if strings.HasPrefix(a, "--node-labels") {
				t.Errorf("got %q", a)
			}
		}
	}
	first := args(t, input(everything))
	for range 100 {
		if diff := cmp.Diff(first, args(t, input(everything))); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestW46ArgumentsHaveBackslashesOnly(t *testing.T) {
	for _, a := range args(t, input(everything)) {
		_, value, _ := strings.Cut(a, "=")
		if strings.Contains(value, ":\\") && strings.Contains(value, "/") {
			t.Errorf("path %q", a)
		}
	}
}

func TestCloudProviderOfTheKubeletItself(t *testing.T) {
	for minor, want := range map[int]bool{26: true, 30: true, 31: false, 37: false} {
		got := args(t, input(version(at(minor)), func(in *Input) { in.CloudProvider = "azure" }))
		if slices.Contains(got, "--cloud-provider=azure") != want {
			t.Errorf("1.%d: %q", minor, got)
		}
	}
}

func TestTakesCloudConfig(t *testing.T) {
	if !TakesCloudConfig(at(31)) || TakesCloudConfig(at(32)) {
		t.Error("--cloud-config is taken up to 1.31")
	}
}

func TestW70Labels(t *testing.T) {
	kubelet, controller, err := SplitLabels(map[string]string{
		"node-role.kubernetes.io/worker": "", "kubernetes.io/custom": "x", "node.kubernetes.io/windows-build": "10.0.20348",
		"node.openshift.io/os_id": "Windows", "team": "a_b", "node-restriction.kubernetes.io/x": "y", "x.k8s.io/y": "z",
		"sub.node.kubernetes.io/a": "b", "topology.kubernetes.io/zone": "eu-1", "fakekubernetes.io/a": "b",
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{
		"node.kubernetes.io/windows-build": "10.0.20348", "node.openshift.io/os_id": "Windows", "team": "a_b",
		"sub.node.kubernetes.io/a": "b", "topology.kubernetes.io/zone": "eu-1", "fakekubernetes.io/a": "b",
	}, kubelet); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{
		"node-role.kubernetes.io/worker": "", "kubernetes.io/custom": "x", "node-restriction.kubernetes.io/x": "y", "x.k8s.io/y": "z",
	}, controller); diff != "" {
		t.Error(diff)
	}
}

func TestW70LabelsThatAreRefused(t *testing.T) {
	bad := map[string]string{"team": "-bad", "a//b": "x", "": "x", "kubernetes.io/os": "linux", "long": strings.Repeat("x", 64), "ok": "ok"}
	_, _, err := SplitLabels(bad)
	if !errors.Is(err, ErrLabel) {
		t.Fatalf("got %v", err)
	}
	for k := range bad {
		if k != "ok" && !strings.Contains(err.Error(), `"`+k+`"`) {
			t.Errorf("%q is not named in %v", k, err)
		}
	}
	if strings.Contains(err.Error(), `"ok"`) {
		t.Errorf("a good label is named: %v", err)
	}
	many := map[string]string{}
	for i := range maxLabels + 1 {
		many[strings.Repeat("x", i%60+1)+strings.Repeat("y", i/60)] = "v"
	}
	if _, _, err := SplitLabels(many); !errors.Is(err, ErrLabel) {
		t.Errorf("%d labels: got %v", len(many), err)
	}
	if _, err := Args(input(func(in *Input) { in.Labels = map[string]string{"node-role.kubernetes.io/worker": ""} })); !errors.Is(err, ErrLabel) {
		t.Errorf("got %v", err)
	}
}

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]Version{
		"v1.37.2": {1, 37, 2}, "1.37": {1, 37, 0}, "v1.33.5+k3s1": {1, 33, 5}, "v1.34.0-rc.1": {1, 34, 0}, "2.4.2": {2, 4, 2},
		"v1.27.16-eks-a737599": {1, 27, 16},
	} {
		got, err := ParseVersion(in)
		if err != nil || got != want {
			t.Errorf("%q: got %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "v", "1", "latest", "1.2.3.4", "v1.99999.0", "1.37.2 ", "v1.37.2\n"} {
		if _, err := ParseVersion(in); !errors.Is(err, ErrVersion) {
			t.Errorf("%q: got %v", in, err)
		}
	}
	if at(26).Before(1, 26) || !at(25).Before(1, 26) || !(Version{1, 99, 0}).Before(2, 0) || (Version{2, 0, 0}).Before(1, 99) {
		t.Error("Before is wrong")
	}
}
