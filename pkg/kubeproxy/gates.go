package kubeproxy

import "github.com/windowsmachine/operator/pkg/kubelet"

// Minor versions of Kubernetes 1 at which the feature gates of Windows changed (pkg/features/kube_features.go of v1.31.14, v1.35.0 and v1.37.2).
const (
	// dsrFrom has WinDSR, off by default; from dsrDefault on it is on by default, and from 1.34 on it can no longer be turned off.
	dsrFrom    = 14
	dsrDefault = 33
	// overlayDefault has WinOverlay on by default; it is locked from 1.34 on.
	overlayDefault = 20
)

// gates names a feature gate only where it is needed and off by default: a gate that has gone is an error at start, one that is locked to true
// may not be set to false.
func gates(v kubelet.Version, overlay, dsr bool) map[string]bool {
	out := map[string]bool{}
	if dsr && v.Before(1, dsrDefault) {
		out["WinDSR"] = true
	}
	if overlay && v.Before(1, overlayDefault) {
		out["WinOverlay"] = true
	}
	return out
}

// Builds of Windows whose HNS can return answers directly: kube-proxy asks for HNS 9.3 and newer of version 9, and for 10.2 and newer
// (DSRVersion in hcn/hcnglobals.go of hcsshim).
const (
	build2019 = 17763
	// ubr2019 is the update of October 2020, the first of Server 2019 with HNS 9.3.
	ubr2019 = 1432
	// build2004 is the first release of which every update has HNS 10.2 or newer.
	build2004 = 19041
)

// SupportsDSR reports whether the HNS of a Windows build can return answers directly. ubr is the update revision. Without it kube-proxy refuses
// to start with direct server return.
func SupportsDSR(build, ubr int) bool {
	if build == build2019 {
		return ubr >= ubr2019
	}
	return build >= build2004
}
