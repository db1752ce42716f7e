package kubelet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Every node of the product carries this taint from its first moment, so that Linux pods do not land on it.
const (
	taintKey    = "os"
	taintValue  = "Windows"
	taintEffect = "NoSchedule"
)

// cloudConfigGone: --cloud-config is still in 1.31 and gone in 1.35.
const cloudConfigGone = 32

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
		{name: "hostname-override", value: in.NodeName},
		{name: "node-ip", value: in.NodeIP},
		{name: "node-labels", value: pairs(in.Labels), unset: len(in.Labels) == 0},
		// In the configuration from 1.23.
		{name: "register-with-taints", value: taintKey + "=" + taintValue + ":" + taintEffect, gone: 23},
		{name: "cloud-provider", value: in.CloudProvider, unset: !cloudProviderKnown(in)},
		{name: "cloud-config", value: in.CloudConfig, gone: cloudConfigGone, unset: in.CloudProvider == "" || in.CloudConfig == ""},
		{name: "container-runtime", value: "remote", gone: 27},
		// In the configuration from 1.27.
		{name: "container-runtime-endpoint", value: Endpoint, gone: 27},
		// Keeps the sandbox image from being deleted; newer kubelets ask the runtime which images are pinned, and 1.35
		// no longer knows the flag.
		{name: "pod-infra-container-image", value: in.PauseImage, gone: 30, unset: in.PauseImage == ""},
		// In the configuration an empty text was the same as none before 1.23.
		{name: "resolv-conf", value: "", gone: 23},
		{name: "v", value: strconv.Itoa(in.Verbosity)},
	}
}

// cloudProviderKnown: the kubelet's own cloud providers were taken out by 1.31, from then on only "external" is left.
func cloudProviderKnown(in Input) bool {
	return in.CloudProvider == "external" || in.CloudProvider != "" && in.Version.Before(1, 31)
}

// pairs joins a map as k=v,k=v in the order of its keys.
func pairs(m map[string]string) string {
	out := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, ",")
}

// TakesCloudConfig reports whether a kubelet of this version knows --cloud-config.
func TakesCloudConfig(v Version) bool { return flag{gone: cloudConfigGone}.taken(v) }
