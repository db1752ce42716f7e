package planner

import (
	"fmt"
	"slices"

	"github.com/windowsmachine/operator/pkg/cni"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/pkg/kubeproxy"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Who runs kube-proxy, the same words as in a WindowsNodeProfile.
const (
	ProxyAuto    = "Auto"
	ProxyManaged = "Managed"
	ProxyNone    = "None"
)

// KubeProxy is the kube-proxy of a node.
type KubeProxy struct {
	// Mode is one of Proxy*; "" is ProxyNone.
	Mode string
	// Verbosity of its log; 2 when nil.
	Verbosity *int32
	// EnableDSR asks for direct server return, which is used where the machine's HNS can do it; nil is kube-proxy's own default, false.
	EnableDSR *bool
}

// BlobKubeProxy is the name of its payload blob.
const BlobKubeProxy = "kube-proxy.exe"

// ProxySecret is the name of the plan's secret that holds kube-proxy's token. A new token needs no restart: kube-proxy reads the file again by
// itself.
const ProxySecret = "kube-proxy-token"

// Places of kube-proxy on the machine.
const (
	proxyExe        = plan.InstallDir + `\` + BlobKubeProxy
	proxyConfig     = plan.InstallDir + `\kube-proxy.conf`
	proxyKubeconfig = plan.InstallDir + `\kube-proxy.kubeconfig`
	proxyToken      = plan.InstallDir + `\kube-proxy.token`
	proxyLogs       = plan.LogDir + `\kube-proxy`
)

// calicoEndpoint is the host's own endpoint that Calico makes in its network.
const calicoEndpoint = "Calico_ep"

// ManagesProxy reports whether kube-proxy is a service of the plan. Auto is so wherever the operator knows the network that kube-proxy works on. With
// Calico's VXLAN it does not: the source VIP is an address that Calico hands out on the machine itself, and kube-proxy must not start without it.
func ManagesProxy(n Network, k KubeProxy, plane facts.Plane) bool {
	switch k.Mode {
	case ProxyManaged:
		return true
	case ProxyAuto:
		return ownNetwork(n) || n.Mode == ModeCalico && !vxlanOfCalico(n, plane)
	}
	return false
}

func vxlanOfCalico(n Network, plane facts.Plane) bool {
	return n.Mode == ModeCalico && plane.Backend == "VXLAN"
}

// checkProxy refuses what was asked for and cannot be.
func checkProxy(n Network, k KubeProxy, plane facts.Plane) error {
	switch {
	case !slices.Contains([]string{"", ProxyAuto, ProxyManaged, ProxyNone}, k.Mode):
		return fmt.Errorf("%w: kubeProxy.mode %.40q, must be %s, %s or %s", ErrOptions, k.Mode, ProxyAuto, ProxyManaged, ProxyNone)
	case k.Mode != ProxyManaged:
		return nil
	case vxlanOfCalico(n, plane):
		return fmt.Errorf("%w: kubeProxy.mode %s with Calico's VXLAN: Calico gives the source VIP on the machine itself; run kube-proxy as "+
			"Calico's documentation for Windows says and set kubeProxy.mode to %s", ErrOptions, ProxyManaged, ProxyNone)
	case !ownNetwork(n) && n.Mode != ModeCalico:
		return fmt.Errorf("%w: kubeProxy.mode %s with network.mode %q: nothing says which HNS network kube-proxy works on; set kubeProxy.mode to "+
			"%s, or another network.mode", ErrOptions, ProxyManaged, n.Mode, ProxyNone)
	}
	return nil
}

// missingProxy names the facts that kube-proxy needs beside those of the network.
func missingProxy(c facts.Cluster, n Network) []string {
	if !n.KubeProxy {
		return nil
	}
	var out []string
	if c.APIServer == "" {
		out = append(out, facts.APIServer)
	}
	if len(c.APIServerCA) == 0 {
		out = append(out, facts.APIServerCA)
	}
	return out
}

// dsr reports whether kube-proxy uses direct server return. Then the pods' network needs no route for Services.
func (b *builder) dsr() bool {
	asked := b.o.KubeProxy.EnableDSR
	return b.o.Network.KubeProxy && asked != nil && *asked && kubeproxy.SupportsDSR(b.host.Build, b.host.UBR)
}

// kubeProxy adds kube-proxy to a plan that is complete but for it. It comes together with the network: without one kube-proxy asks for it every
// second and without end (kubernetes/kubernetes#79515), and before the Node exists there is nothing that a token could be bound to.
func (b *builder) kubeProxy(p *plan.Plan) error {
	if !b.o.Network.KubeProxy || !b.joined {
		return nil
	}
	version, err := b.proxyVersion()
	if err != nil {
		return err
	}
	in, err := b.proxyInput(p, version)
	if err != nil {
		return err
	}
	config, err := kubeproxy.Config(in)
	if err != nil {
		return err
	}
	kubeconfig, err := kubeproxy.Kubeconfig(b.c.APIServer, b.c.APIServerCA, proxyToken)
	if err != nil {
		return err
	}
	p.Secrets = append(p.Secrets, plan.Secret{Name: ProxySecret, Path: proxyToken})
	p.Directories = append(p.Directories, plan.Directory{Path: proxyLogs, Access: plan.AccessPublic, Purge: true})
	p.Files = append(p.Files, inline(proxyConfig, config), inline(proxyKubeconfig, kubeconfig))
	p.Firewall = append(p.Firewall, plan.FirewallRule{Name: "windowsmachine-kube-proxy", Protocol: "TCP", Port: kubeproxy.HealthPort})
	p.Services = append(p.Services, proxyService(version, b.o.KubeProxy.Verbosity))
	return nil
}

// proxyVersion is that of the payload, and the kubelet's where the payload does not say: they come out of one release.
func (b *builder) proxyVersion() (kubelet.Version, error) {
	text := b.o.Payload[BlobKubeProxy].Version
	if text == "" {
		return b.kubelet, nil
	}
	v, err := kubelet.ParseVersion(text)
	if err != nil {
		return v, fmt.Errorf("%w: kube-proxy version: %w", ErrOptions, err)
	}
	return v, nil
}

// proxyInput takes the network from the plan itself, so that there is one name for it.
func (b *builder) proxyInput(p *plan.Plan, v kubelet.Version) (kubeproxy.Input, error) {
	in := kubeproxy.Input{
		Version: v, NodeName: b.o.NodeName, NodeIP: b.o.NodeIP, Kubeconfig: proxyKubeconfig, Network: b.o.Network.Name,
		ClusterCIDRs: b.c.PodCIDRs, DSR: b.dsr(),
	}
	if b.o.Network.Mode == ModeCalico {
		in.RootEndpoint = calicoEndpoint
	}
	if len(p.Networks) == 0 {
		return in, nil
	}
	n := p.Networks[0]
	in.Network = n.Name
	if n.HostEndpoint != nil {
		in.RootEndpoint = n.HostEndpoint.Name
	}
	if n.Type != plan.NetworkOverlay {
		return in, nil
	}
	// A fixed address, kept free of pods: kube-proxy makes the endpoint itself, and one that a plugin hands out changes and gets lost
	// (kubernetes/kubernetes#78338, #123014).
	vip, err := cni.Address(n.Prefix, cni.HostEndpoint)
	if err != nil {
		return in, fmt.Errorf("kube-proxy's source VIP: %w", err)
	}
	in.Overlay, in.SourceVIP = true, vip.String()
	return in, nil
}

// proxyService depends on no other service. When a plan is applied the network comes before all services; at boot kube-proxy waits for it by
// itself, and HNS starts when it is asked the first thing. A dependency on HNS would only keep a person from restarting HNS. The token is no file
// whose change restarts kube-proxy.
func proxyService(v kubelet.Version, verbosity *int32) plan.Service {
	level := defaultVerbosity
	if verbosity != nil {
		level = int(*verbosity)
	}
	log := proxyLogs + `\kube-proxy.log`
	return plan.Service{
		// kube-proxy insists on this name.
		Name: "kube-proxy", DisplayName: "kube-proxy", Description: "Kubernetes network proxy",
		Exe:     logRunnerExe,
		Args:    slices.Concat(LogRunnerArgs(log, v), []string{proxyExe}, kubeproxy.Args(proxyConfig, level)),
		LogFile: log, Watch: []string{proxyExe, proxyConfig, proxyKubeconfig}, Recovery: Recovery(),
	}
}
