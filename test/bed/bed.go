package bed

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	machinev1 "github.com/openshift/api/machine/v1beta1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/test/controlplane"
	"github.com/windowsmachine/operator/test/hostsim"
	"github.com/windowsmachine/operator/test/machineapi"
	"github.com/windowsmachine/operator/test/payload"
)

// Namespaces that the manifests use.
const (
	Namespace        = "windows-machine-operator"
	MachineNamespace = "openshift-machine-api"
	account          = "windows-machine-operator"
)

// Options of Start.
type Options struct {
	// Root is the checkout, "." when empty.
	Root string
	// Agent is the wmcb.exe that the operator puts on machines.
	Agent string
	// Operator is the operator's program.
	Operator string
	// Scale of the stand-in payload, 1 for real sizes.
	Scale float64
	// PodCIDR from which nodes get theirs; empty for none.
	PodCIDR string
	// MachineAPI starts OpenShift's Machine controllers.
	MachineAPI bool
	// OpenShift makes the cluster look like OpenShift on that platform, for example "Azure"; empty: like one of kubeadm.
	OpenShift string
	// HardWay makes the cluster look like one that was put together by hand: see HardWay* for its ranges. There is no kubeadm-config, and no
	// node is given a pod CIDR until AllocateNodeCIDRs. PodCIDR must be empty.
	HardWay bool
	// Payload is a packed payload to use instead of the stand-in.
	Payload string
	// Provider makes the machines of Machines instead of simulated ones. They have SSH on port 22, and are not on the loopback interface.
	Provider machineapi.Provider
	// Address is an address of this machine under which such machines reach the API server.
	Address string
	// Machine changes the options of a Machine's simulated machine before it is made; nil leaves them.
	Machine func(name string, o *hostsim.Options)
	// Dir keeps the control plane's data, the operator's log and kubeconfig; a new temporary folder when empty.
	Dir string
	// Env is added to the environment of operators.
	Env []string
	// Logf gets progress; nil discards it.
	Logf func(format string, args ...any)
}

// Bed is a running set. It is safe for concurrent use.
type Bed struct {
	*controlplane.ControlPlane
	Client client.Client

	opts    Options
	dir     string
	private []byte
	public  ssh.PublicKey
	digest  string
	payload string
	work    sync.WaitGroup
	// alive ends with Close.
	alive context.Context
	stop  context.CancelFunc

	mu       sync.Mutex
	port     int
	hosts    map[string]*hostsim.Host
	operator *process
}

// Start starts everything but the operator.
func Start(ctx context.Context, o Options) (b *Bed, err error) {
	if o.Root == "" {
		o.Root = "."
	}
	// The control plane's own tools run in another folder.
	if o.Root, err = filepath.Abs(o.Root); err != nil {
		return nil, err
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	b = &Bed{opts: o, hosts: map[string]*hostsim.Host{}}
	b.alive, b.stop = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
			b = nil
		}
	}()
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"keys and payload", b.prepare},
		{"control plane", b.startControlPlane},
		{"manifests", b.install},
		{"Machine API", b.startMachineAPI},
	} {
		began := time.Now()
		if err := step.run(ctx); err != nil {
			return b, fmt.Errorf("%s: %w", step.name, err)
		}
		o.Logf("%-18s %5.1f s", step.name, time.Since(began).Seconds())
	}
	return b, nil
}

func (b *Bed) prepare(context.Context) error {
	b.dir = b.opts.Dir
	if b.dir == "" {
		dir, err := os.MkdirTemp("", "windowsmachine-")
		if err != nil {
			return err
		}
		b.dir = dir
	}
	agent, err := os.ReadFile(b.opts.Agent)
	if err != nil {
		return fmt.Errorf("reading the agent: %w", err)
	}
	b.digest = hostsim.Agent(agent)
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	if b.public, err = ssh.NewPublicKey(public); err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return err
	}
	b.private = pem.EncodeToMemory(block)
	if b.opts.Payload != "" {
		b.payload, err = filepath.Abs(b.opts.Payload)
		return err
	}
	store, err := payload.Cached(b.opts.Scale)
	if err != nil {
		return err
	}
	b.payload = store.Dir()
	return nil
}

func (b *Bed) startControlPlane(ctx context.Context) (err error) {
	b.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{
		Dir: filepath.Join(b.dir, "controlplane"), NodeCIDRs: b.opts.PodCIDR, ServiceCIDR: b.serviceCIDR(), Address: b.opts.Address,
		ControllerManagerArgs: b.managerArgs(),
	})
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, v1alpha1.AddToScheme, machinev1.Install, configv1.Install, mcfgv1.Install,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	b.Client, err = client.New(b.RESTConfig(), client.Options{Scheme: scheme})
	return err
}

// install applies config/default as an admin does, and the Secret with the key that logs in.
func (b *Bed) install(ctx context.Context) error {
	crds, err := machineapi.CRDs()
	if err != nil {
		return err
	}
	if !b.opts.MachineAPI {
		crds = nil
	}
	openshift, err := b.openshiftCRDs()
	if err != nil {
		return err
	}
	crds = append(crds, openshift...)
	crds = append(crds,
		filepath.Join(b.opts.Root, "config/crd/bases/windowsmachine.dev_windowshosts.yaml"),
		filepath.Join(b.opts.Root, "config/crd/bases/windowsmachine.dev_windowsnodeprofiles.yaml"))
	if err := b.InstallCRDs(ctx, crds...); err != nil {
		return err
	}
	if out, err := b.Kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(b.opts.Root, "config/default")); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if err := b.distribution(ctx); err != nil {
		return err
	}
	return b.createAll(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: MachineNamespace}},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "cloud-private-key"},
			Data:       map[string][]byte{"private-key.pem": b.private},
		})
}

func (b *Bed) startMachineAPI(context.Context) error {
	if !b.opts.MachineAPI {
		return nil
	}
	b.work.Go(func() {
		if err := machineapi.Run(b.alive, b.RESTConfig(), b.provider()); err != nil {
			b.opts.Logf("Machine API controllers ended: %v", err)
		}
	})
	return nil
}

func (b *Bed) provider() machineapi.Provider {
	if b.opts.Provider != nil {
		return b.opts.Provider
	}
	return b
}

// PrivateKey is the key that logs in to all machines, PublicKey what they authorize.
func (b *Bed) PrivateKey() []byte { return bytes.Clone(b.private) }

// Folder is where the operator's log is.
func (b *Bed) Folder() string { return b.dir }

// Close ends everything: the operator, machines, controllers, control plane. It leaves nothing behind.
func (b *Bed) Close() error {
	errs := []error{b.StopOperator()}
	b.stop()
	b.work.Wait()
	b.mu.Lock()
	hosts := b.hosts
	b.hosts = map[string]*hostsim.Host{}
	b.mu.Unlock()
	var closing sync.WaitGroup
	for _, h := range hosts {
		closing.Go(h.Close)
	}
	closing.Wait()
	if b.ControlPlane != nil {
		errs = append(errs, b.Stop())
	}
	if b.opts.Dir == "" && b.dir != "" {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return errors.Join(errs...)
}

// applySample reads a sample, lets edit change it, and applies it.
func (b *Bed) applySample(ctx context.Context, name string, edit func(string) string) error {
	raw, err := os.ReadFile(filepath.Join(b.opts.Root, "config/samples", name))
	if err != nil {
		return err
	}
	text := string(raw)
	if edit != nil {
		text = edit(text)
	}
	return b.Apply(ctx, []byte(text))
}

// PublicKey is what machines authorize.
func (b *Bed) PublicKey() ssh.PublicKey { return b.public }

// APIServer is the URL by which machines reach the API server.
func (b *Bed) APIServer() (string, error) {
	u, err := url.Parse(b.URL())
	if err != nil || b.opts.Address == "" {
		return b.URL(), err
	}
	u.Host = net.JoinHostPort(b.opts.Address, u.Port())
	return u.String(), nil
}

// ApplyProfile applies config/samples/windowsnodeprofile.yaml with the port of the machines, and the API server's address where they have a
// network of their own.
func (b *Bed) ApplyProfile(ctx context.Context) error {
	if b.opts.Provider != nil {
		server, err := b.APIServer()
		if err != nil {
			return err
		}
		return b.applySample(ctx, "windowsnodeprofile.yaml", func(s string) string {
			return strings.Replace(s, "spec:\n", "spec:\n  cluster:\n    apiServer: "+server+"\n", 1)
		})
	}
	port, err := b.Port()
	if err != nil {
		return err
	}
	return b.applySample(ctx, "windowsnodeprofile.yaml", func(s string) string {
		return strings.Replace(s, "spec:\n", fmt.Sprintf("spec:\n  connection:\n    port: %d\n", port), 1)
	})
}

// ApplyMachineSet applies config/samples/machineset.yaml with that many replicas.
func (b *Bed) ApplyMachineSet(ctx context.Context, replicas int) error {
	return b.applySample(ctx, "machineset.yaml", func(s string) string {
		return strings.Replace(s, "replicas: 3", fmt.Sprintf("replicas: %d", replicas), 1)
	})
}

var _ io.Closer = (*Bed)(nil)
