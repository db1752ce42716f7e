package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// startTimeout bounds a start, the programs' first build apart.
	startTimeout = 60 * time.Second
	// stopGrace is how long each program may take to end before it is killed. The API server waits up to a minute for
	// watches that others hold, and nothing needs what it would still do.
	stopGrace = time.Second
)

// ControlPlane is a running control plane. It is safe for concurrent use.
type ControlPlane struct {
	opts    Options
	network network
	bin     string
	folder  *folder
	port    *reservation
	ca      *authority
	admin   *rest.Config
	spawner *spawner
	// relay is nil without Options.Address.
	relay *relay
	// kinds counts the times that InstallCRDs has run. What kubectl has learned before of the kinds that there are is of no use then.
	kinds atomic.Int64

	mu sync.Mutex
	// running are the components in the order of their start; nil after Stop.
	running []*process
	stopped bool
	stopErr error
	done    chan struct{}
	failure error
}

// Start builds the programs if they are not there, starts a control plane and returns once it serves: the API server is ready
// and, with a controller manager, the default namespace has its service account. ctx bounds the start only; the control plane
// then runs until Stop, or until the process ends in whatever way.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	n, err := opts.network()
	if err != nil {
		return nil, fmt.Errorf("starting a control plane: %w", err)
	}
	bin, err := Binaries(ctx, opts.Progress)
	if err != nil {
		return nil, fmt.Errorf("starting a control plane: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cp := &ControlPlane{opts: opts, network: n, bin: bin, done: make(chan struct{})}
	if err := cp.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a control plane: %w", err), cp.Stop())
	}
	return cp, nil
}

func (cp *ControlPlane) start(ctx context.Context) error {
	if err := cp.prepare(); err != nil {
		return err
	}
	cp.spawner = newSpawner()
	// The API server waits for etcd by itself.
	if err := cp.launch("etcd", etcdArgs()); err != nil {
		return err
	}
	if err := cp.startAPIServer(ctx); err != nil {
		return err
	}
	if cp.network.address != nil {
		var err error
		if cp.relay, err = startRelay(cp.network.address, cp.port.port); err != nil {
			return err
		}
	}
	if cp.opts.NoControllerManager {
		return nil
	}
	if err := cp.launch("kube-controller-manager", controllerManagerArgs(cp.network, cp.opts.ControllerManagerArgs)); err != nil {
		return err
	}
	return cp.waitFor(ctx, "the default service account", defaultServiceAccount)
}

// prepare takes a folder and a port and writes every file.
func (cp *ControlPlane) prepare() error {
	var err error
	if cp.folder, err = newFolder(cp.opts.Dir); err != nil {
		return err
	}
	if cp.port, err = reservePort(cp.opts.Port); err != nil {
		return err
	}
	if cp.ca, err = newAuthority(); err != nil {
		return err
	}
	if cp.admin, err = cp.clientConfig("admin", "system:masters"); err != nil {
		return err
	}
	files, err := cp.files()
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(cp.folder.path, name), content, 0o600); err != nil {
			return fmt.Errorf("writing the data folder: %w", err)
		}
	}
	return nil
}

// files are the certificates, keys and kubeconfigs by name.
func (cp *ControlPlane) files() (map[string][]byte, error) {
	addresses := []net.IP{net.IPv4(127, 0, 0, 1), cp.network.apiServiceIP}
	if cp.network.address != nil {
		addresses = append(addresses, cp.network.address)
	}
	api, err := cp.ca.server("kube-apiserver",
		[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		addresses)
	if err != nil {
		return nil, err
	}
	kubelet, err := cp.ca.client("kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return nil, err
	}
	private, public, err := newSigningKey()
	if err != nil {
		return nil, err
	}
	manager, err := cp.Kubeconfig("system:kube-controller-manager")
	if err != nil {
		return nil, err
	}
	admin, err := marshalConfig(cp.admin, "")
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		caCertFile: cp.ca.certPEM, caKeyFile: cp.ca.keyPEM,
		apiCertFile: api.cert, apiKeyFile: api.key,
		kubeletCertFile: kubelet.cert, kubeletKeyFile: kubelet.key,
		tokenKeyFile: private, tokenPublicFile: public,
		managerConfigFile: manager, adminConfigFile: admin,
	}, nil
}

func (cp *ControlPlane) startAPIServer(ctx context.Context) error {
	if err := cp.launch("kube-apiserver", apiServerArgs(cp.network, cp.port.port, cp.opts.APIServerArgs)); err != nil {
		return err
	}
	return cp.waitFor(ctx, "the API server", apiServerReady)
}

// launch starts a component and watches for an end that nobody asked for.
func (cp *ControlPlane) launch(name string, args []string) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.stopped {
		return errStopped
	}
	p, err := startProcess(cp.spawner, cp.folder.path, filepath.Join(cp.bin, name), args)
	if err != nil {
		return err
	}
	cp.running = append(cp.running, p)
	go func() {
		<-p.done
		if !p.stopping.Load() {
			cp.fail(p.failure())
		}
	}()
	return nil
}

// errStopped: the control plane has been stopped.
var errStopped = errors.New("control plane is stopped")

func (cp *ControlPlane) fail(err error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.failure == nil && !cp.stopped {
		cp.failure = err
		close(cp.done)
	}
}

// Done is closed when a component has ended without being asked to; Err then says which, with the end of its log.
func (cp *ControlPlane) Done() <-chan struct{} { return cp.done }

// Err is nil until Done is closed.
func (cp *ControlPlane) Err() error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return cp.failure
}

// Stop ends the components, last started first, by their own process ids, and removes the data folder. Further calls do
// nothing and return the same.
func (cp *ControlPlane) Stop() error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.stopped {
		return cp.stopErr
	}
	cp.stopped = true
	errs := []error{cp.relay.close()}
	for i := len(cp.running) - 1; i >= 0; i-- {
		errs = append(errs, cp.running[i].stop(stopGrace))
	}
	cp.running = nil
	if cp.spawner != nil {
		cp.spawner.close()
	}
	if cp.port != nil {
		errs = append(errs, cp.port.close())
	}
	if cp.folder != nil {
		errs = append(errs, cp.folder.remove())
	}
	if err := errors.Join(errs...); err != nil {
		cp.stopErr = fmt.Errorf("stopping the control plane: %w", err)
	}
	return cp.stopErr
}

// RestartAPIServer stops the API server and starts it again on the same port, and returns once it is ready. Connections
// break; stored objects stay.
func (cp *ControlPlane) RestartAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p, err := cp.take("kube-apiserver")
	if err != nil {
		return fmt.Errorf("restarting the API server: %w", err)
	}
	if err := p.stop(stopGrace); err != nil {
		return fmt.Errorf("restarting the API server: %w", err)
	}
	if err := cp.startAPIServer(ctx); err != nil {
		return fmt.Errorf("restarting the API server: %w", err)
	}
	return nil
}

// RestartControllerManager stops the controller manager and starts it again, with args in place of Options.ControllerManagerArgs, as an admin does
// who mends its flags. It returns when the new one runs; what it does then takes it a moment, and its lease is the old one's until that has expired.
func (cp *ControlPlane) RestartControllerManager(args ...string) error {
	p, err := cp.take("kube-controller-manager")
	if err == nil {
		err = p.stop(stopGrace)
	}
	if err == nil {
		err = cp.launch("kube-controller-manager", controllerManagerArgs(cp.network, args))
	}
	if err != nil {
		return fmt.Errorf("restarting the controller manager: %w", err)
	}
	return nil
}

// take removes a running component from the list and marks its end as wanted.
func (cp *ControlPlane) take(name string) (*process, error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	for i, p := range cp.running {
		if p.name == name {
			p.stopping.Store(true)
			cp.running = append(cp.running[:i:i], cp.running[i+1:]...)
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s does not run: %w", name, errStopped)
}
