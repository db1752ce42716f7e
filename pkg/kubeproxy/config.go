package kubeproxy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/windowsmachine/operator/pkg/kubelet"
)

// ErrInput: no configuration can be made of an input.
var ErrInput = errors.New("kube-proxy cannot be configured")

// Ports of kube-proxy.
const (
	// HealthPort answers health checks of cloud load balancers, so it listens on every address.
	HealthPort = 10256
	// MetricsPort listens on the machine's own address 127.0.0.1 only.
	MetricsPort = 10249
)

// Input is what the configuration depends on.
type Input struct {
	// Version of kube-proxy.
	Version kubelet.Version
	// NodeName is the name of its Node, NodeIP the address that the node registered with.
	NodeName, NodeIP string
	// Kubeconfig is the path of its kubeconfig on the machine.
	Kubeconfig string
	// Network is the name of the HNS network. kube-proxy waits without end for one that is not there.
	Network string
	// Overlay is whether the network is an overlay: it needs a SourceVIP, the address within the node's pod CIDR, given to no pod, that the
	// node's own connections to Services come from. Other networks must have none.
	Overlay   bool
	SourceVIP string
	// RootEndpoint is the name of the host's own endpoint in the network, "" where there is none.
	RootEndpoint string
	// ClusterCIDRs are the ranges of all pods; the first of IPv4 is told.
	ClusterCIDRs []string
	// DSR turns direct server return on, see DSR.
	DSR bool
}

// configuration has the fields of KubeProxyConfiguration that matter on Windows, in the order and with the names of
// k8s.io/kube-proxy/config/v1alpha1. What is left out has kube-proxy's own default.
type configuration struct {
	Kind             string           `json:"kind"`
	APIVersion       string           `json:"apiVersion"`
	FeatureGates     map[string]bool  `json:"featureGates,omitempty"`
	ClientConnection clientConnection `json:"clientConnection"`
	HostnameOverride string           `json:"hostnameOverride"`
	BindAddress      string           `json:"bindAddress"`
	Healthz          string           `json:"healthzBindAddress"`
	Metrics          string           `json:"metricsBindAddress"`
	Mode             string           `json:"mode"`
	Winkernel        winkernel        `json:"winkernel"`
	ClusterCIDR      string           `json:"clusterCIDR,omitempty"`
	// RunAsService: with --config the flag --windows-service counts for nothing (cmd/kube-proxy/app/options.go of v1.31.14: the file's
	// configuration takes the place of the flags').
	RunAsService bool `json:"windowsRunAsService"`
}

type clientConnection struct {
	Kubeconfig string `json:"kubeconfig"`
}

type winkernel struct {
	NetworkName         string `json:"networkName"`
	SourceVIP           string `json:"sourceVip,omitempty"`
	EnableDSR           bool   `json:"enableDSR"`
	RootHnsEndpointName string `json:"rootHnsEndpointName,omitempty"`
}

// Config returns KubeProxyConfiguration v1alpha1 as YAML. ErrInput names everything that is missing or does not go together.
func Config(in Input) ([]byte, error) {
	cluster, err := in.check()
	if err != nil {
		return nil, err
	}
	out, err := yaml.Marshal(configuration{
		Kind: "KubeProxyConfiguration", APIVersion: "kubeproxy.config.k8s.io/v1alpha1",
		FeatureGates:     gates(in.Version, in.Overlay, in.DSR),
		ClientConnection: clientConnection{Kubeconfig: in.Kubeconfig},
		HostnameOverride: in.NodeName,
		BindAddress:      in.NodeIP,
		Healthz:          fmt.Sprintf("0.0.0.0:%d", HealthPort),
		Metrics:          fmt.Sprintf("127.0.0.1:%d", MetricsPort),
		Mode:             "kernelspace",
		Winkernel:        winkernel{NetworkName: in.Network, SourceVIP: in.SourceVIP, EnableDSR: in.DSR, RootHnsEndpointName: in.RootEndpoint},
		ClusterCIDR:      cluster,
		RunAsService:     true,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding kube-proxy's configuration: %w", err)
	}
	return out, nil
}

// check returns the pods' range that kube-proxy is told.
func (in Input) check() (string, error) {
	var errs []error
	no := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInput}, args...)...))
		}
	}
	no(in.NodeName == "", "no node name")
	no(in.Network == "", "no name of a network")
	no(in.Kubeconfig == "", "no kubeconfig")
	no(!isIPv4(in.NodeIP), "node IP %.45q is no IPv4 address", in.NodeIP)
	no(in.Overlay && !isIPv4(in.SourceVIP), "an overlay network needs a source VIP, and %.45q is no IPv4 address", in.SourceVIP)
	no(!in.Overlay && in.SourceVIP != "", "a source VIP is for overlay networks only")
	no(in.DSR && in.Version.Before(1, dsrFrom), "direct server return needs kube-proxy 1.%d or newer, this is %s", dsrFrom, in.Version)
	for _, c := range in.ClusterCIDRs {
		_, err := netip.ParsePrefix(c)
		no(err != nil, "%.50q is no range of pods", c)
	}
	return firstIPv4(in.ClusterCIDRs), errors.Join(errs...)
}

func isIPv4(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is4()
}

// firstIPv4 leaves IPv6 out, since pods on Windows have IPv4 addresses here, and further ranges: kube-proxy takes one of a family at most.
func firstIPv4(cidrs []string) string {
	i := slices.IndexFunc(cidrs, func(c string) bool {
		p, err := netip.ParsePrefix(c)
		return err == nil && p.Addr().Is4()
	})
	if i < 0 {
		return ""
	}
	return cidrs[i]
}

// Args is the command line behind the program's name. The level of the log is a flag, which counts beside --config in every version; the
// service flag counts in versions that do not know the field of the configuration yet.
func Args(config string, verbosity int) []string {
	return []string{"--config=" + config, "--windows-service", fmt.Sprintf("--v=%d", verbosity)}
}
