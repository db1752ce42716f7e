package node

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/kubelet/config/v1beta1"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

// kubeletVersion is the version whose flags and configuration the light kubelet knows.
const kubeletVersion = "v1.37.2"

// poll is how often the light kubelet looks at the world, runtimeWait how long it waits for the runtime's pipe.
const (
	poll        = 200 * time.Millisecond
	runtimeWait = 5 * time.Second
)

// kubelet is one run.
type kubelet struct {
	node *Node
	p    *fake.Process
	s    system.System
	kubeletSettings
	runtime *cri
	caPool  *x509.CertPool
	log     klog.Logger
}

// kubelet runs until it is asked to stop. As with the real one, flags and configuration are judged before the service manager hears of
// the process, so that a bad one is a failed start (1053); what is missing later ends a running service (1067).
func (n *Node) kubelet(ctx context.Context, p *fake.Process) int {
	if askedForVersion(p) {
		return say(p, "Kubernetes "+kubeletVersion)
	}
	k := &kubelet{node: n, p: p, s: p.System(), log: textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(p.Stderr())))}
	ctx = klog.NewContext(ctx, k.log)
	args, err := parseKubeletArgs(p.Args())
	if err != nil {
		return fail(p, err)
	}
	cfg, err := k.loadConfig(args["config"])
	if err != nil {
		return fail(p, err)
	}
	if k.kubeletSettings, err = settings(args, cfg, k.s.Machine); err != nil {
		return fail(p, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if service, ok := p.Service(); ok && args["windows-service"] == "true" {
		service.Running()
		go func() {
			select {
			case <-service.Stopping():
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	if err := k.run(ctx); err != nil && ctx.Err() == nil {
		n.logf("kubelet %s: %v", k.nodeName, err)
		return fail(p, err)
	}
	return 0
}

func (k *kubelet) loadConfig(path string) (v1beta1.KubeletConfiguration, error) {
	if path == "" {
		return v1beta1.KubeletConfiguration{}, nil
	}
	data, err := readFile(k.s, path)
	if err != nil {
		return v1beta1.KubeletConfiguration{}, fmt.Errorf("failed to load kubelet config file: %w", err)
	}
	return parseKubeletConfig(data)
}

func (k *kubelet) run(ctx context.Context) error {
	if err := k.prepare(ctx); err != nil {
		return err
	}
	client, err := k.connect()
	if err != nil {
		return err
	}
	defer client.close()
	certs, err := k.clientCertificates(ctx, client)
	if err != nil {
		return err
	}
	defer k.end(certs)
	if err := k.until(ctx, func() bool { return certs.current() != nil }); err != nil {
		return err
	}
	client.cert.Store(certs.current())
	if k.registerNode {
		if err := k.until(ctx, func() bool { return k.register(ctx, client) }); err != nil {
			return err
		}
	}
	serving, err := k.serve(ctx, client)
	if err != nil {
		return err
	}
	defer serving.close(k)
	return k.loop(ctx, client, certs)
}

// prepare makes the kubelet's folders and checks everything on the machine that it needs.
func (k *kubelet) prepare(ctx context.Context) error {
	for _, dir := range []string{k.rootDir, k.certDir, k.rootDir + `\pods`, k.rootDir + `\plugins`} {
		if err := mkdirAll(k.s, dir); err != nil {
			return fmt.Errorf("making folders: %w", err)
		}
	}
	if err := k.loadClientCA(); err != nil {
		return err
	}
	if err := k.pickNodeIP(); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, runtimeWait)
	defer cancel()
	if err := k.until(wait, func() bool {
		k.runtime = k.node.dial(pipeName(k.endpoint))
		return k.runtime != nil
	}); err != nil {
		return fmt.Errorf("validate service connection: %s: nothing listens: %w", k.endpoint, err)
	}
	return nil
}

func (k *kubelet) loadClientCA() error {
	if k.clientCA == "" {
		return nil
	}
	data, err := readFile(k.s, k.clientCA)
	if err != nil {
		return fmt.Errorf("unable to load client CA file: %w", err)
	}
	certs, err := cert.ParseCertsPEM(data)
	if err != nil {
		return fmt.Errorf("unable to load client CA file %s: %w", k.clientCA, err)
	}
	k.caPool = x509.NewCertPool()
	for _, c := range certs {
		k.caPool.AddCert(c)
	}
	return nil
}

// pickNodeIP checks that --node-ip is an address of the machine; without the flag it is the one with the default route.
func (k *kubelet) pickNodeIP() error {
	addresses, err := k.s.Machine.Addresses()
	if err != nil {
		return err
	}
	for _, a := range addresses {
		p, err := netip.ParsePrefix(a.Prefix)
		if err != nil || !a.Usable {
			continue
		}
		if k.nodeIP == "" && a.Default {
			k.nodeIP = p.Addr().String()
		}
		if k.nodeIP == p.Addr().String() {
			return nil
		}
	}
	return fmt.Errorf("node IP: %q not found in the host's network interfaces", k.nodeIP)
}

// until calls ready each poll until it is true.
func (k *kubelet) until(ctx context.Context, ready func() bool) error {
	for !ready() {
		if err := k.p.Sleep(ctx, poll); err != nil {
			return err
		}
	}
	return nil
}

// loop renews the lease and keeps the node's status, until the kubelet ends.
func (k *kubelet) loop(ctx context.Context, c *client, certs *certificates) error {
	now := k.s.Clock.Now
	renew := time.Duration(k.leaseSeconds) * time.Second / 4
	var leased, reported time.Time
	var last string
	seen := certs.current()
	for {
		if cur := certs.current(); cur != nil && (seen == nil || !bytes.Equal(cur.Certificate[0], seen.Certificate[0])) {
			seen = cur
			c.cert.Store(cur)
			c.closeIdle() // connections made with the old certificate
		}
		if now().Sub(leased) >= renew && k.renewLease(ctx, c) {
			leased = now()
		}
		if state := k.state(); state.message != last || now().Sub(reported) >= time.Minute {
			if k.report(ctx, c, state) {
				last, reported = state.message, now()
			}
		}
		if err := k.p.Sleep(ctx, poll); err != nil {
			return err
		}
	}
}

type readiness struct {
	ready           bool
	reason, message string
}

// state is the Ready condition, with the real one's reasons.
func (k *kubelet) state() readiness {
	if k.node.dial(pipeName(k.endpoint)) != k.runtime {
		k.runtime = k.node.dial(pipeName(k.endpoint))
	}
	if k.runtime == nil {
		return readiness{false, "KubeletNotReady", "container runtime is down"}
	}
	if err := k.runtime.networkReady(); err != nil {
		return readiness{
			false, "KubeletNotReady", "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady " +
				"message:Network plugin returns error: " + err.Error(),
		}
	}
	return readiness{true, "KubeletReady", "kubelet is posting ready status"}
}

var errNoCredentials = errors.New("neither a kubeconfig with a valid certificate nor a bootstrap kubeconfig")

// end ends a certificate manager without holding up the process.
func (k *kubelet) end(c *certificates) { k.node.work.Go(c.stop) }
