package bootstrapper

import (
	"strings"

	"github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/pkg/planner"
)

const (
	kubeletService    = "kubelet"
	containerdService = "containerd"
	dockerService     = "docker"
)

// runtime is what runs the containers.
type runtime struct {
	// service that the kubelet depends on.
	service string
	// install is whether containerd is this product's to install, with shim.
	install          bool
	containerd, shim Program
	// version of containerd, zero with Docker.
	version kubelet.Version
}

// decideRuntime chooses among what is there, in this order: a containerd that somebody else installed, the given one, Docker where the
// kubelet has a dockershim. A kubelet that cannot use containerd takes Docker if it is there.
func decideRuntime(k kubelet.Version, in Runtime) (runtime, []planner.Finding) {
	if in.takesDocker(k) {
		return runtime{service: dockerService}, nil
	}
	r := runtime{service: containerdService}
	var out []planner.Finding
	switch given := in.Given.Path != ""; {
	case in.theirs():
		r.containerd = in.Containerd
		if given {
			out = append(out, warn(CodeRuntime, "service containerd is there and is used; --containerd-path is not"))
		}
	case given:
		r.install, r.containerd, r.shim = true, in.Given, in.Shim
	case in.Docker:
		return r, []planner.Finding{fatal(CodeRuntime, "kubelet "+k.String()+" no longer runs containers with Docker; install containerd, or give "+
			"--containerd-path")}
	default:
		return r, []planner.Finding{fatal(CodeRuntime, "there is no container runtime; install containerd as a service, or give --containerd-path with a "+
			"folder that has containerd.exe and containerd-shim-runhcs-v1.exe")}
	}
	return r, append(out, r.check(k)...)
}

// theirs: somebody else installed a containerd.
func (in Runtime) theirs() bool { return in.Containerd.Path != "" && !in.Own }

func (in Runtime) takesDocker(k kubelet.Version) bool {
	if !in.Docker || !kubelet.HasDockershim(k) {
		return false
	}
	return k.Before(1, 18) || !in.theirs() && in.Given.Path == ""
}

// check reads the version of containerd and says whether it goes with the kubelet.
func (r *runtime) check(k kubelet.Version) []planner.Finding {
	var out []planner.Finding
	for _, p := range []Program{r.containerd, r.shim} {
		if p.Err != nil {
			out = append(out, fatal(CodeRuntime, "containerd: "+bounded(p.Err.Error())))
		}
	}
	if len(out) > 0 {
		return out
	}
	v, ok := r.containerd.version()
	if !ok {
		return []planner.Finding{fatal(CodeRuntime, "'"+bounded(r.containerd.Path)+" --version' printed "+strings.TrimSpace(bounded(r.containerd.Output))+
			", which is no version")}
	}
	r.version = v
	return planner.CheckContainerd(k, v.String())
}
