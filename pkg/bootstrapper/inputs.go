package bootstrapper

import (
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/ignition"
	"github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
)

// Parts of the accepted plan that the commands own. They are merged in the order of their names: the network's stands over the kubelet's.
const (
	PartKubelet = "kubelet"
	PartNetwork = "network"
)

// Program is an executable file on the machine.
type Program struct {
	// Path of the file, "" where there is none.
	Path string
	// SHA256 in lower-case hexadecimal, Size in bytes.
	SHA256 string
	Size   int64
	// Output is what it printed when it was asked for its version.
	Output string
	// Err says why it could not be read or run.
	Err error
}

// Blob is a file for the payload: its digest, and where it lies.
type Blob struct{ SHA256, Path string }

// Part is what a command puts into the accepted plan.
type Part struct {
	Plan plan.Plan
	// Secrets is the content of Plan.Secrets by name.
	Secrets map[string][]byte
	// Cluster is the API server of the cluster that the machine joins.
	Cluster string
	// Blobs have to be taken into the payload first.
	Blobs []Blob
}

// Codes of findings, beside those of planner.Preflight.
const (
	// CodeIgnition surfaces when the ignition file cannot be read, or lacks something.
	CodeIgnition planner.Code = "Ignition"
	// CodeKubelet surfaces when kubelet.exe cannot be read or run, or is no kubelet that is known.
	CodeKubelet planner.Code = "Kubelet"
	// CodeRuntime surfaces when there is no container runtime for the kubelet, or its configuration cannot be changed.
	CodeRuntime planner.Code = "ContainerRuntime"
	// CodeFlag surfaces when the value of a flag cannot be used.
	CodeFlag planner.Code = "FlagInvalid"
	// CodePlatform surfaces when the platform cannot be asked, or has a condition that cannot be seen from the machine.
	CodePlatform planner.Code = "Platform"
	// CodeInstallDir surfaces when the folder for the installation may not be used.
	CodeInstallDir planner.Code = "InstallDir"
	// CodeClusterDNS surfaces when nobody says which DNS server pods use.
	CodeClusterDNS planner.Code = "ClusterDNS"
	// CodeFieldsLeftOut names the fields of the kubelet.conf that are not carried over.
	CodeFieldsLeftOut planner.Code = "FieldsLeftOut"
	// CodeNoLog surfaces when the kubelet's log will be lost.
	CodeNoLog planner.Code = "NoKubeletLog"
	// CodeReplaced surfaces when a kubelet service that somebody else made is taken over.
	CodeReplaced planner.Code = "ServiceReplaced"
	// CodeCNI surfaces when the network configuration or the plugins cannot be used.
	CodeCNI planner.Code = "CNI"
	// CodeStaleCNI names configurations of others in the folder that the runtime reads.
	CodeStaleCNI planner.Code = "StaleCNI"
	// CodeOrder surfaces when another command has to run first.
	CodeOrder planner.Code = "Order"
	// CodeOwner surfaces when the machine is somebody else's to configure.
	CodeOwner planner.Code = "Owner"
	// CodeDisk surfaces when the files do not fit on the system volume.
	CodeDisk planner.Code = "DiskSpace"
)

// Runtime is what runs containers on the machine before a command changes anything.
type Runtime struct {
	// Containerd is the executable of service containerd, if there is one; Own is whether a former initialize-kubelet made that service.
	Containerd Program
	Own        bool
	// Given is the containerd of --containerd-path, Shim the shim beside it.
	Given, Shim Program
	// Docker is whether there is a service docker.
	Docker bool
}

// version reads the version out of what `<program> --version` prints: "Kubernetes v1.37.2", "containerd github.com/containerd/containerd/v2
// v2.1.4 75cb2b7".
func (p Program) version() (kubelet.Version, bool) {
	for _, word := range strings.Fields(p.Output) {
		if !strings.HasPrefix(word, "v") && !strings.Contains(word, ".") {
			continue
		}
		if v, err := kubelet.ParseVersion(word); err == nil {
			return v, true
		}
	}
	return kubelet.Version{}, false
}

func fatal(c planner.Code, text string) planner.Finding {
	return planner.Finding{Code: c, Message: text, Fatal: true}
}

func warn(c planner.Code, text string) planner.Finding {
	return planner.Finding{Code: c, Message: text}
}

// bounded keeps more than planner's messages do, since a path is long.
func bounded(s string) string { return planner.Bounded(s, 300) }

func below(path, folder string) bool {
	return len(path) >= len(folder) && strings.EqualFold(path[:len(folder)], folder) && (len(path) == len(folder) || path[len(folder)] == '\\')
}

// rooted adds to a plan the folders beside plan.Roots in which it has something.
func rooted(p *plan.Plan, folders ...string) {
	for _, f := range folders {
		covered := func(root string) bool { return below(f, root) }
		if slices.ContainsFunc(plan.Roots(), covered) || slices.ContainsFunc(p.Roots, covered) {
			continue
		}
		p.Roots = append(p.Roots, f)
		require(p, plan.CapabilityRoots)
	}
}

func require(p *plan.Plan, capability string) {
	if !slices.Contains(p.Requires, capability) {
		p.Requires = append(p.Requires, capability)
	}
}

// folderOf takes what somebody typed: a backslash at the end is dropped.
func folderOf(path string) string {
	for len(path) > 3 && strings.HasSuffix(path, `\`) {
		path = strings.TrimSuffix(path, `\`)
	}
	return path
}

func parent(path string) string {
	i := strings.LastIndexByte(path, '\\')
	if i < 0 {
		return ""
	}
	return path[:i]
}

// MaxIgnition bounds an ignition file, in bytes.
const MaxIgnition = ignition.MaxInput
