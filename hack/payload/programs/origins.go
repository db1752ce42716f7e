package programs

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/windowsmachine/operator/hack/gobuild"
)

const (
	// modulesFolder holds the tools modules, below the repository's root.
	modulesFolder = "hack/payload/modules"
	// recipe names the way of building in the cache key; raise it when gobuild changes what is built.
	recipe = "1"
	// targetOS and targetArch are those of the machines.
	targetOS, targetArch = "windows", "amd64"
)

// origin is one tools module and what is built from it.
type origin struct {
	// folder is its name below modulesFolder, module the project in it, licence the project's SPDX expression.
	folder, module, licence string
	// takes is how long a first build lasts, for people.
	takes    string
	programs []program
	// stamps returns what the linker sets so that the programs report their version.
	stamps func(version string) []string
}

// program is one program of an origin.
type program struct {
	name, pkg string
	// module is where the package lies when that is not the origin's; its version is then the program's.
	module string
}

// origins are what a payload is built from.
func origins() []origin {
	const plugins = "github.com/containernetworking/plugins"
	return []origin{
		{
			folder: "kubernetes", module: "k8s.io/kubernetes", licence: "Apache-2.0", takes: "about 4 minutes on two idle cores",
			programs: []program{
				{name: "kube-log-runner.exe", pkg: "k8s.io/component-base/logs/kube-log-runner", module: "k8s.io/component-base"},
				{name: "kube-proxy.exe", pkg: "k8s.io/kubernetes/cmd/kube-proxy"},
				{name: "kubelet.exe", pkg: "k8s.io/kubernetes/cmd/kubelet"},
			},
			stamps: gobuild.KubernetesStamps,
		},
		{
			folder: "containerd", module: "github.com/containerd/containerd/v2", licence: "Apache-2.0", takes: "about a minute on two idle cores",
			programs: []program{{name: "containerd.exe", pkg: "github.com/containerd/containerd/v2/cmd/containerd"}},
			stamps:   stamp("github.com/containerd/containerd/v2/version.Version"),
		},
		{
			folder: "runhcs", module: "github.com/Microsoft/hcsshim", licence: "MIT", takes: "about half a minute on two idle cores",
			programs: []program{{name: "containerd-shim-runhcs-v1.exe", pkg: "github.com/Microsoft/hcsshim/cmd/containerd-shim-runhcs-v1"}},
			stamps:   stamp("main.version"),
		},
		{
			folder: "cni", module: plugins, licence: "Apache-2.0", takes: "about half a minute on two idle cores",
			programs: []program{
				{name: "host-local.exe", pkg: plugins + "/plugins/ipam/host-local"},
				{name: "win-bridge.exe", pkg: plugins + "/plugins/main/windows/win-bridge"},
				{name: "win-overlay.exe", pkg: plugins + "/plugins/main/windows/win-overlay"},
			},
			stamps: stamp(plugins + "/pkg/utils/buildversion.BuildVersion"),
		},
		{
			folder: "exporter", module: "github.com/prometheus-community/windows_exporter", licence: "MIT", takes: "about half a minute on two idle cores",
			programs: []program{{name: "windows_exporter.exe", pkg: "github.com/prometheus-community/windows_exporter"}},
			stamps:   stamp("github.com/prometheus/common/version.Version"),
		},
	}
}

// stamp sets one variable to the version.
func stamp(variable string) func(string) []string {
	return func(version string) []string { return []string{variable + "=" + version} }
}

// Part is the programs of one tools module.
type Part struct {
	gobuild.Set
	module gobuild.Module
	// blobs describe the programs, by name.
	blobs map[string]description
}

// description is what the manifest says beside sizes and digest.
type description struct{ version, licence, source string }

// Parts reads the tools modules below the repository's root. It starts no program.
func Parts(root string) ([]Part, error) {
	var out []Part
	for _, o := range origins() {
		m, err := gobuild.OpenModule(filepath.Join(root, filepath.FromSlash(modulesFolder), o.folder))
		if err != nil {
			return nil, err
		}
		p, err := newPart(o, m, runtime.Version())
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func newPart(o origin, m gobuild.Module, goVersion string) (Part, error) {
	version, err := m.Version(o.module)
	if err != nil {
		return Part{}, err
	}
	p := Part{module: m, blobs: map[string]description{}, Set: gobuild.Set{
		Label: "payload " + o.folder, Kind: "payload-" + o.folder,
		What: fmt.Sprintf("%s %s for %s/%s", o.module, version, targetOS, targetArch), Takes: o.takes,
		Dir: m.Dir, OS: targetOS, Arch: targetArch,
	}}
	key := []string{recipe, goVersion, targetOS, targetArch}
	for _, pr := range o.programs {
		source, v := o.module, version
		if pr.module != "" {
			source = pr.module
			if v, err = m.Version(source); err != nil {
				return Part{}, err
			}
		}
		built := gobuild.Program{Name: pr.name, Package: pr.pkg, Stamps: o.stamps(version)}
		p.Programs = append(p.Programs, built)
		p.blobs[pr.name] = description{version: v, licence: o.licence, source: source}
		key = append(key, pr.name, strings.Join(gobuild.Args(built, ""), " "))
	}
	p.Folder = fmt.Sprintf("payload-%s-%s-%s", o.folder, version, m.Key(key...))
	return p, nil
}
