package bootstrapper

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
	"github.com/windowsmachine/operator/test/golden"
)

var _ = flag.Bool("update", false, "rewrite the goldens; read them before you commit them")

// versions are those for which the outcome is written down, with the runtime that goes with each; "" is Docker.
func versions() []struct{ kubelet, containerd string } {
	return []struct{ kubelet, containerd string }{
		{"v1.16.2", ""},
		{"v1.23.17", "v1.6.36"},
		{"v1.24.17", "v1.7.24"},
		{"v1.27.16", "v1.7.24"},
		{"v1.31.14", "v2.0.5"},
		{"v1.35.0", "v2.1.5"},
		{"v1.37.2", "v2.3.0"},
	}
}

// TestGoldens: ignition of any spec and a kubelet's version give these files and this command line.
func TestGoldens(t *testing.T) {
	for _, v := range versions() {
		var first []byte
		for _, spec := range []string{"2.2.0", "2.4.0", "3.0.0", "3.1.0", "3.4.0", "3.5.0"} {
			part, findings := Initialize(inputs(func(in *Inputs) {
				in.Ignition = worker(spec, nil)
				in.Kubelet.Output = "Kubernetes " + v.kubelet
				in.Flags.NodeIP, in.Flags.Labels = "192.0.2.10", "team=a-b"
				in.Runtime.Docker = v.containerd == ""
				if v.containerd != "" {
					in.Runtime.Given, in.Runtime.Shim = containerdAt(v.containerd)
				}
			}))
			if planner.Fatal(findings) {
				t.Fatalf("%s, %s: %+v", v.kubelet, spec, findings)
			}
			got := readable(part, findings)
			if first == nil {
				first = got
			}
			if d := cmp.Diff(string(first), string(got)); d != "" {
				t.Errorf("%s: spec %s differs from the first one: %s", v.kubelet, spec, d)
			}
			sound(t, v.kubelet, part)
		}
		golden.Equal(t, filepath.Join("testdata", v.kubelet+".txt"), first)
	}
}

// readable is a part for people: what is said, what the services run, which files there are, and the kubelet's configuration.
func readable(p Part, findings []planner.Finding) []byte {
	var b bytes.Buffer
	for _, f := range findings {
		fmt.Fprintf(&b, "said: %s: %s\n", f.Code, f.Message)
	}
	for _, s := range p.Plan.Services {
		fmt.Fprintf(&b, "\nservice %s, depends on %s, existing %q\n  %s\n", s.Name, s.DependsOn, s.Existing, s.Exe)
		for _, a := range s.Args {
			fmt.Fprintf(&b, "    %s\n", a)
		}
	}
	b.WriteString("\n")
	for _, d := range p.Plan.Directories {
		fmt.Fprintf(&b, "folder %s %s purge=%v\n", d.Path, d.Access, d.Purge)
	}
	for _, s := range p.Plan.Secrets {
		fmt.Fprintf(&b, "secret %s, %d bytes\n", s.Path, len(p.Secrets[s.Name]))
	}
	for _, f := range p.Plan.Files {
		fmt.Fprintf(&b, "file   %s %s\n", f.Path, f.Access)
		if f.Inline != nil {
			b.WriteString("    " + strings.ReplaceAll(strings.TrimRight(string(f.Inline), "\n"), "\n", "\n    ") + "\n")
		}
	}
	return b.Bytes()
}

// sound checks a part against what the kubelets themselves know: the flags that each has, and the fields that the newest has.
func sound(t *testing.T, version string, p Part) {
	t.Helper()
	if err := p.Plan.Validate(); err != nil {
		t.Errorf("%s: %v", version, err)
	}
	i := slices.IndexFunc(p.Plan.Services, func(s plan.Service) bool { return s.Name == "kubelet" })
	known := knownFlags(t, version)
	for _, a := range p.Plan.Services[i].Args {
		name, _, isFlag := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		// klog's own flags are added to the kubelet's by another way, up to 1.25.
		klog := (name == "logtostderr" || name == "log-file") && kubelet.WritesLog(parsed(t, version))
		if strings.HasPrefix(a, "--") && isFlag && !known[name] && !klog {
			t.Errorf("%s does not know --%s", version, name)
		}
	}
	for _, f := range p.Plan.Files {
		if !strings.HasSuffix(f.Path, `\kubelet.conf`) {
			continue
		}
		var c v1beta1.KubeletConfiguration
		if err := yaml.UnmarshalStrict(f.Inline, &c); err != nil {
			t.Errorf("%s: %v", version, err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(f.Inline, &fields); err != nil {
			t.Fatal(err)
		}
		for field, want := range map[string]string{"cgroupsPerQOS": "false", "enforceNodeAllocatable": "[]", "resolvConf": `""`} {
			if string(fields[field]) != want {
				t.Errorf("%s: %s = %s, want %s", version, field, fields[field], want)
			}
		}
	}
}

func parsed(t *testing.T, version string) kubelet.Version {
	t.Helper()
	v, err := kubelet.ParseVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// knownFlags are those that a kubelet has on Windows; a version that is not listed has no more than its neighbours.
func knownFlags(t *testing.T, version string) map[string]bool {
	t.Helper()
	files := map[string][]string{
		"v1.16": {"v1.16.15"}, "v1.23": {"v1.23.17"}, "v1.24": {"v1.23.17", "v1.27.16"}, "v1.27": {"v1.27.16"}, "v1.31": {"v1.31.14"}, "v1.35": {"v1.35.0"},
		"v1.37": {"v1.37.2"},
	}[version[:5]]
	known := map[string]bool{}
	for n, f := range files {
		b, err := os.ReadFile(filepath.Join("..", "kubelet", "testdata", "flags", f+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		here := map[string]bool{}
		for _, name := range strings.Fields(string(b)) {
			// 1.24 took the dockershim's flags out, and container-runtime only with 1.27.
			if n == 0 || known[name] || name == "container-runtime-endpoint" {
				here[name] = true
			}
		}
		if n > 0 {
			here["container-runtime"] = true
		}
		known = here
	}
	return known
}
