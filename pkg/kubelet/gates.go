package kubelet

import "maps"

// gate is the history of a feature gate: the minor version that first knows it, the one from which it is on, and the one
// from which it may no longer be set; 0 is never. Source: pkg/features/kube_features.go of k8s.io/kubernetes v1.37.2, whose
// entries keep their history.
type gate struct{ first, on, locked int }

// newestGates is the minor version up to which the table of gates is known.
const newestGates = 37

const gateNodeLogQuery = "NodeLogQuery"

// gates are the feature gates that are carried over to Windows. All others are dropped: a gate that a kubelet does not know
// ends it at start, and the gates of a Linux worker speak of Linux.
func gates() map[string]gate {
	return map[string]gate{
		gateNodeLogQuery:                  {first: 27, on: 36, locked: 36},
		"ImageMaximumGCAge":               {first: 29, on: 30, locked: 35},
		"KubeletCrashLoopBackOffMax":      {first: 32, on: 35},
		"KubeletEnsureSecretPulledImages": {first: 33, on: 35},
		"WindowsCPUAndMemoryAffinity":     {first: 32},
		"WindowsGracefulNodeShutdown":     {first: 32, on: 34},
	}
}

// gatedFields are fields that a kubelet refuses unless a gate is on (ValidateKubeletConfiguration in
// pkg/kubelet/apis/config/validation), or that do nothing on Windows without it.
func gatedFields() map[string]string {
	return map[string]string{
		"crashLoopBackOff":                       "KubeletCrashLoopBackOffMax",
		"enableSystemLogQuery":                   gateNodeLogQuery,
		"imageMaximumGCAge":                      "ImageMaximumGCAge",
		"imagePullCredentialsVerificationPolicy": "KubeletEnsureSecretPulledImages",
		"preloadedImagesVerificationAllowlist":   "KubeletEnsureSecretPulledImages",
		"shutdownGracePeriod":                    "WindowsGracefulNodeShutdown",
		"shutdownGracePeriodByPodPriority":       "WindowsGracefulNodeShutdown",
		"shutdownGracePeriodCriticalPods":        "WindowsGracefulNodeShutdown",
	}
}

// settable reports whether a kubelet lets the gate be set.
func (g gate) settable(v Version) bool {
	return v.Minor >= g.first && v.Minor <= newestGates && (g.locked == 0 || v.Minor < g.locked)
}

func (g gate) onByDefault(v Version) bool { return g.on != 0 && v.Minor >= g.on }

// keepGates returns those of the cluster's gates that may be set on a Windows kubelet of this version, and the gate for
// log queries where it is beta and off.
func keepGates(cluster map[string]any, v Version) map[string]any {
	out := map[string]any{}
	for name, g := range gates() {
		if on, ok := cluster[name].(bool); ok && g.settable(v) {
			out[name] = on
		}
	}
	// `kubectl get --raw /api/v1/nodes/NAME/proxy/logs/?query=` reads the event log with it; beta from 1.30.
	if _, said := out[gateNodeLogQuery]; !said && gates()[gateNodeLogQuery].settable(v) && v.Minor >= 30 {
		out[gateNodeLogQuery] = true
	}
	return out
}

// dropGated removes fields whose gate is off.
func dropGated(m map[string]any, kept map[string]any, v Version) {
	closed := map[string]string{}
	for field, name := range gatedFields() {
		on := gates()[name].onByDefault(v)
		if set, ok := kept[name].(bool); ok {
			on = set
		}
		if !on {
			closed[field] = name
		}
	}
	dropPaths(m, closed)
}

// mergeGates puts the gates into the configuration; an empty set is left out.
func mergeGates(m map[string]any, kept map[string]any) {
	if len(kept) > 0 {
		m["featureGates"] = maps.Clone(kept)
	}
}
