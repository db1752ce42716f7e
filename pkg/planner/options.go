package planner

import (
	"github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Options are the choices that are neither facts of the cluster nor of the machine: the profile's settings, the names that
// were settled for this host, and the payload.
type Options struct {
	// NodeName that the kubelet registers, a DNS label in lower case (see NodeName).
	NodeName string
	// NodeIP is the address that the kubelet registers and that networks are bound to (see PickNodeIP).
	NodeIP string
	// KubeletVersion such as "v1.37.2"; the version of payload blob kubelet.exe when empty.
	KubeletVersion string
	// Payload by file name, for example "kubelet.exe". What Build needs depends on the network's mode, see Needs.
	Payload map[string]Blob
	Network Network
	// KubeProxy is that of the node.
	KubeProxy KubeProxy
	// Labels that the node shall carry. Those that a kubelet may not set itself are left out of the plan, see
	// kubelet.SplitLabels.
	Labels map[string]string
	// Taints that the kubelet registers the node with, beside os=Windows:NoSchedule.
	Taints []kubelet.Taint
	// MaxPods and Verbosity overrule what the cluster's facts say; nil when the profile does not say.
	MaxPods   *int32
	Verbosity *int32
	// PauseImage is the sandbox image; one that goes with the kubelet's version when empty.
	PauseImage string
}

// Blob is one file of the payload.
type Blob struct {
	// SHA256 in lower-case hexadecimal, Size in bytes uncompressed, Version as the manifest has it ("v1.37.2", "2.4.2").
	SHA256  string
	Size    int64
	Version string
}

// BootstrapSecret is the name of the plan's secret that holds the bootstrap kubeconfig.
const BootstrapSecret = plan.SecretBootstrap

// Names of payload blobs.
const (
	BlobKubelet    = "kubelet.exe"
	BlobLogRunner  = "kube-log-runner.exe"
	BlobContainerd = "containerd.exe"
	BlobShim       = "containerd-shim-runhcs-v1.exe"
	BlobCrictl     = "crictl.exe"
	BlobWinBridge  = "win-bridge.exe"
	BlobWinOverlay = "win-overlay.exe"
	BlobHostLocal  = "host-local.exe"
	// BlobSDNBridge is needed with PluginSDNBridge only.
	BlobSDNBridge = "sdnbridge.exe"
)

// Needs returns the names of the payload blobs that a plan refers to, in the order in which they are placed.
func Needs(n Network) []string {
	out := []string{BlobKubelet, BlobLogRunner, BlobContainerd, BlobShim}
	if hasCNI(n) {
		out = append(out, BlobWinBridge, BlobWinOverlay, BlobHostLocal)
	}
	if n.Mode == ModeL2Bridge && n.Plugin == PluginSDNBridge {
		out = append(out, BlobSDNBridge)
	}
	if n.KubeProxy {
		out = append(out, BlobKubeProxy)
	}
	return out
}

// optional blobs are placed when the payload has them.
func optional() []string { return []string{BlobCrictl} }
