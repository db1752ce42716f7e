package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

const (
	// proxyRetry is how often the light kube-proxy asks for a network that is not there, as the real one does (NewProxier in
	// pkg/proxy/winkernel/proxier.go), and for an API server that did not answer.
	proxyRetry = time.Second
	// proxyLook is how often it reads its token again and looks whether the API server still takes it. The real one does so each minute.
	proxyLook = 5 * time.Minute
)

// kubeProxy runs until it is asked to stop. Flags and configuration are judged before the service manager hears of the process.
func (n *Node) kubeProxy(ctx context.Context, p *fake.Process) int {
	if askedForVersion(p) {
		return say(p, "Kubernetes "+kubeletVersion)
	}
	k := &kubelet{node: n, p: p, s: p.System()}
	cfg, err := k.proxyConfig()
	if err != nil {
		return fail(p, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if service, ok := p.Service(); ok && cfg.WindowsRunAsService {
		service.Running()
		go func() {
			select {
			case <-service.Stopping():
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	if err := k.runProxy(ctx, cfg); ctx.Err() == nil {
		n.logf("kube-proxy %s: %v", cfg.HostnameOverride, err)
		return fail(p, err)
	}
	return 0
}

// proxyConfig reads flags and configuration strictly.
func (k *kubelet) proxyConfig() (v1alpha1.KubeProxyConfiguration, error) {
	var out v1alpha1.KubeProxyConfiguration
	set := flag.NewFlagSet("kube-proxy", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	path := set.String("config", "", "")
	set.Bool("windows-service", false, "")
	set.Int("v", 0, "")
	if err := set.Parse(k.p.Args()); err != nil {
		return out, err
	}
	data, err := readFile(k.s, *path)
	if err != nil {
		return out, fmt.Errorf("failed to load kube-proxy config file: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, &out); err != nil {
		return out, fmt.Errorf("failed to load kube-proxy config file: %w", err)
	}
	for gate := range out.FeatureGates {
		// All gates for Windows are locked in this version (pkg/features/kube_features.go).
		return out, fmt.Errorf("cannot set feature gate %s", gate)
	}
	return out, checkProxy(out)
}

func checkProxy(c v1alpha1.KubeProxyConfiguration) error {
	if c.Mode != "kernelspace" || c.Kind != "KubeProxyConfiguration" {
		return fmt.Errorf("kind %s, mode %s", c.Kind, c.Mode)
	}
	if _, err := netip.ParseAddr(c.BindAddress); err != nil {
		return fmt.Errorf("bindAddress: %w", err)
	}
	if c.Winkernel.NetworkName == "" {
		return errors.New("unable to find HNS network name: neither config nor KUBE_NETWORK")
	}
	return nil
}

// runProxy always ends with an error, that of ctx when the process was asked to stop.
func (k *kubelet) runProxy(ctx context.Context, cfg v1alpha1.KubeProxyConfiguration) error {
	user, err := k.readKubeconfig(cfg.ClientConnection.Kubeconfig)
	if err != nil {
		return fmt.Errorf("loading the kubeconfig: %w", err)
	}
	network, err := k.waitForNetwork(ctx, cfg.Winkernel.NetworkName)
	if err != nil {
		return err
	}
	if network.Type == plan.NetworkOverlay && cfg.Winkernel.SourceVip == "" {
		return errors.New("source-vip flag not set")
	}
	for {
		pause := proxyLook
		if err := k.lookAtServices(ctx, user); err != nil {
			_, _ = fmt.Fprintf(k.p.Stderr(), "Failed to watch services: %v\n", err)
			pause = proxyRetry
		}
		if err := k.p.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// waitForNetwork asks without end, as the real one does.
func (k *kubelet) waitForNetwork(ctx context.Context, name string) (plan.Network, error) {
	for {
		n, err := k.s.Networks.Get(name)
		if err == nil || !errors.Is(err, system.ErrNetworkNotFound) {
			return n, err
		}
		_, _ = fmt.Fprintf(k.p.Stderr(), "Unable to find HNS Network specified. Please check network name and CNI deployment: %s\n", name)
		if err := k.p.Sleep(ctx, proxyRetry); err != nil {
			return n, err
		}
	}
}

// lookAtServices lists what a kube-proxy lives by, with the token that is in the file now.
func (k *kubelet) lookAtServices(ctx context.Context, user kubeconfig) error {
	if user.tokenFile != "" {
		token, err := readFile(k.s, user.tokenFile)
		if err != nil {
			return err
		}
		user.token = strings.TrimSpace(string(token))
	}
	c := &client{}
	defer c.close()
	api, err := k.clientset(c, user, false)
	if err != nil {
		return err
	}
	one := metav1.ListOptions{Limit: 1}
	_, services := api.CoreV1().Services("").List(ctx, one)
	_, slices := api.DiscoveryV1().EndpointSlices("").List(ctx, one)
	return errors.Join(services, slices)
}
