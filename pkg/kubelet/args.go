package kubelet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	// cloudConfigGone: --cloud-config is still in 1.31 and gone in 1.35.
	cloudConfigGone = 32
	// dockershimGone: the dockershim was taken out with 1.24.
	dockershimGone = 24
	// klogGone: the flags of klog but --v and --vmodule were taken out with 1.26.
	klogGone = 26
)

// flag is one command line flag with the versions that take it: from minor version first (0: always) up to, and without,
// minor version gone (0: still there). Source: cmd/kubelet/app/options of k8s.io/kubernetes v1.16.15, v1.23.17, v1.27.16,
// v1.31.14, v1.35.0 and v1.37.2; between two of them the narrower choice is made.
type flag struct {
	name, value string
	first, gone int
	// unset leaves the flag out.
	unset bool
}

func (f flag) taken(v Version) bool {
	return !f.unset && v.Minor >= f.first && (f.gone == 0 || v.Minor < f.gone)
}

// Args returns the kubelet's arguments, each `--name=value` as one element, in a fixed order; the program itself is not
// among them. No flag appears twice, and none that this version of the kubelet does not know.
func Args(in Input) ([]string, error) {
	if !supported(in.Version) {
		return nil, fmt.Errorf("%w: %s", ErrUnsupported, in.Version)
	}
	if in.Docker && !in.Version.Before(1, dockershimGone) {
		return nil, fmt.Errorf("%w: %s has no dockershim", ErrUnsupported, in.Version)
	}
	if err := checkLabels(in.Labels); err != nil {
		return nil, err
	}
	var out []string
	for _, f := range flags(in) {
		if f.taken(in.Version) {
			out = append(out, "--"+f.name+"="+f.value)
		}
	}
	return out, nil
}

func flags(in Input) []flag {
	return []flag{
		{name: "config", value: in.Paths.Config},
		{name: "bootstrap-kubeconfig", value: in.Paths.Bootstrap},
		{name: "kubeconfig", value: in.Paths.Kubeconfig},
		{name: "cert-dir", value: in.Paths.CertDir},
		{name: "root-dir", value: in.Paths.RootDir},
		{name: "windows-service", value: "true"},
		// Above normal, or busy pods starve the kubelet and the node turns NotReady.
		{name: "windows-priorityclass", value: "ABOVE_NORMAL_PRIORITY_CLASS", first: 23},
		{name: "hostname-override", value: in.NodeName, unset: in.NodeName == ""},
		{name: "node-ip", value: in.NodeIP, unset: in.NodeIP == ""},
		{name: "node-labels", value: pairs(in.Labels), unset: len(in.Labels) == 0},
		// In the configuration from 1.23.
		{name: "register-with-taints", value: taintList(in.Taints), gone: 23},
		{name: "cloud-provider", value: in.CloudProvider, unset: !KnowsCloudProvider(in.Version, in.CloudProvider)},
		{name: "cloud-config", value: in.CloudConfig, gone: cloudConfigGone, unset: !KnowsCloudProvider(in.Version, in.CloudProvider) || in.CloudConfig == ""},
		{name: "container-runtime", value: "remote", gone: 27, unset: in.Docker},
		// In the configuration from 1.27.
		{name: "container-runtime-endpoint", value: Endpoint, gone: 27, unset: in.Docker},
		// Flags of the dockershim, which went with it. Windows images are large.
		{name: "image-pull-progress-deadline", value: "30m", gone: dockershimGone, unset: !in.Docker},
		{name: "network-plugin", value: "cni", gone: dockershimGone, unset: !in.Docker || in.CNIBinDir == ""},
		{name: "cni-bin-dir", value: in.CNIBinDir, gone: dockershimGone, unset: !in.Docker || in.CNIBinDir == ""},
		{name: "cni-conf-dir", value: in.CNIConfDir, gone: dockershimGone, unset: !in.Docker || in.CNIBinDir == ""},
		// Keeps the sandbox image from being deleted; newer kubelets ask the runtime which images are pinned, and 1.35
		// no longer knows the flag.
		{name: "pod-infra-container-image", value: in.PauseImage, gone: 30, unset: in.PauseImage == ""},
		// In the configuration an empty text was the same as none before 1.23.
		{name: "resolv-conf", value: "", gone: 23},
		// klog's own flags, which the kubelet had up to 1.25.
		{name: "logtostderr", value: "false", gone: klogGone, unset: in.LogFile == ""},
		{name: "log-file", value: in.LogFile, gone: klogGone, unset: in.LogFile == ""},
		{name: "v", value: strconv.Itoa(in.Verbosity)},
	}
}

// KnowsCloudProvider reports whether a kubelet takes the name for --cloud-provider. The kubelet's own cloud providers were taken out by 1.31, from
// then on only "external" is left.
func KnowsCloudProvider(v Version, name string) bool {
	return name == "external" || name != "" && v.Before(1, 31)
}

// pairs joins a map as k=v,k=v in the order of its keys.
func pairs(m map[string]string) string {
	out := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, ",")
}

// HasDockershim reports whether a kubelet of this version runs containers with Docker.
func HasDockershim(v Version) bool { return v.Before(1, dockershimGone) }

// WritesLog reports whether a kubelet of this version can write its log into a file itself.
func WritesLog(v Version) bool { return v.Before(1, klogGone) }

// TakesCloudConfig reports whether a kubelet of this version knows --cloud-config.
func TakesCloudConfig(v Version) bool { return flag{gone: cloudConfigGone}.taken(v) }
