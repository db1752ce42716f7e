package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/windowsmachine/operator/controllers/csr"
	hostctl "github.com/windowsmachine/operator/controllers/host"
	"github.com/windowsmachine/operator/controllers/machine"
	podcidrctl "github.com/windowsmachine/operator/controllers/podcidr"
	"github.com/windowsmachine/operator/controllers/profile"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/facts/discover"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/lead"
	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/pkg/podcidr"
	"github.com/windowsmachine/operator/pkg/slim"
	"github.com/windowsmachine/operator/pkg/ticket"
	"github.com/windowsmachine/operator/pkg/transport/ssh"
	"github.com/windowsmachine/operator/pkg/transport/winrm"
)

// Leader election:
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=windows-machine-operator,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=windows-machine-operator,resources=leases,resourceNames=windows-machine-operator,verbs=get;update
// +kubebuilder:rbac:groups="",namespace=windows-machine-operator,resources=events,verbs=create;patch

// options are the flags.
type options struct {
	namespace     string
	metricsAddr   string
	probeAddr     string
	leaderElect   bool
	allowLoopback bool
	payloadDir    string
	agent         string
	maxWorkers    int
	maxUploads    int
	debug         bool
}

func main() {
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "windows-machine-operator:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:           "windows-machine-operator",
		Short:         "Turn Windows Server machines into nodes of this cluster and keep them so",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, _ []string) error { return run(c.Context(), o) },
	}
	f := c.Flags()
	f.StringVar(&o.namespace, "namespace", "windows-machine-operator", "the operator's namespace, the only one whose WindowsHosts and Secrets count")
	f.StringVar(&o.metricsAddr, "metrics-bind-address", "0", "address of the metrics endpoint, 0 for none")
	f.StringVar(&o.probeAddr, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "let only one of several operators work")
	f.BoolVar(&o.allowLoopback, "allow-loopback-hosts", false, "let hosts have loopback addresses; for simulated machines only")
	f.StringVar(&o.payloadDir, "payload", "/payload", "folder of the packed payload")
	f.StringVar(&o.agent, "agent", "/payload/wmcb.exe", "the agent to put on machines")
	f.IntVar(&o.maxWorkers, "max-workers", hostctl.DefaultWorkers, "how many hosts are looked at side by side")
	f.IntVar(&o.maxUploads, "max-uploads", host.DefaultStagings, "how many machines are sent payload at the same time")
	f.BoolVar(&o.debug, "debug", false, "log more")
	return c
}

// check refuses what no value can mean.
func (o options) check() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"max-workers", o.maxWorkers}, {"max-uploads", o.maxUploads}} {
		if f.value < 1 {
			return fmt.Errorf("--%s %d: %w", f.name, f.value, errAtLeastOne)
		}
	}
	return nil
}

var errAtLeastOne = errors.New("must be at least 1")

// prepare sets up the log.
func prepare(o options) {
	level := zapcore.InfoLevel
	if o.debug {
		level = zapcore.DebugLevel
	}
	ctrl.SetLogger(zap.New(zap.UseDevMode(false), zap.Level(level), zap.StacktraceLevel(zapcore.PanicLevel)))
}

func run(ctx context.Context, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	prepare(o)
	store, err := payload.OpenStore(o.payloadDir)
	if err != nil {
		return fmt.Errorf("opening the payload: %w; --payload names a folder that `make payload` has packed", err)
	}
	agent, err := host.LoadAgent(o.agent)
	if err != nil {
		return fmt.Errorf("reading the agent: %w; --agent names the wmcb.exe that `make build` has made", err)
	}
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	lock, err := lead.New(cfg, o.namespace, "windows-machine-operator", lost)
	if err != nil {
		return err
	}
	mgr, err := newManager(cfg, lock, o)
	if err != nil {
		return err
	}
	notifier := &hostctl.Notifier{}
	pool, err := newPool(mgr, o, host.Config{Agent: agent, Store: store, Notify: notifier.Notify, Stagings: o.maxUploads})
	if err != nil {
		return err
	}
	leads := lock.Holds
	if !o.leaderElect {
		leads = func() bool { return true }
	}
	if err := setup(ctx, mgr, o, pool, notifier, store.Manifest(), leads); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newPool makes the connection pool, which ends with the manager.
func newPool(mgr ctrl.Manager, o options, c host.Config) (*host.Pool, error) {
	dialer, opener := &ssh.Dialer{Net: ssh.Outside}, &winrm.Opener{Net: ssh.Outside}
	if o.allowLoopback {
		dialer.Net, opener.Net = nil, nil
	}
	c.Dialer, c.Opener = dialer, opener
	pool := host.NewPool(c)
	err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		pool.Close()
		return nil
	}))
	if err != nil {
		return nil, fmt.Errorf("adding the connection pool: %w", err)
	}
	return pool, nil
}

func setup(ctx context.Context, mgr ctrl.Manager, o options, pool *host.Pool, notifier *hostctl.Notifier, manifest payload.Manifest, leads func() bool) error {
	known, ranges := &facts.Store{}, &podcidr.Store{}
	hostMetrics, err := hostctl.NewMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	for _, c := range []struct {
		name  string
		setup func() error
	}{
		{"profile", func() error {
			return (&profile.Reconciler{
				Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("profile"), Facts: known, PodCIDRs: ranges,
				Namespace: o.namespace, Config: mgr.GetConfig(), Version: serverVersion(mgr),
			}).Setup(mgr)
		}},
		{"podcidr", func() error {
			return (&podcidrctl.Reconciler{
				Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("podcidr"), Clock: clock.RealClock{}, Facts: known,
				Store: ranges, Namespace: o.namespace, Leads: leads,
			}).Setup(mgr)
		}},
		{"host", func() error {
			return (&hostctl.Reconciler{
				Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("host"), Clock: clock.RealClock{}, Pool: pool, Facts: known, PodCIDRs: ranges,
				Tickets:  ticket.Issuer{Client: mgr.GetClient(), Reader: mgr.GetAPIReader()},
				Notifier: notifier, Namespace: o.namespace, AllowLoopback: o.allowLoopback, Payload: manifest, Metrics: hostMetrics,
				Workers: o.maxWorkers, Leads: leads,
			}).Setup(ctx, mgr)
		}},
		{"machine", func() error {
			return (&machine.Reconciler{
				Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("machine"), Clock: clock.RealClock{},
				Namespace: o.namespace, AllowLoopback: o.allowLoopback,
			}).Setup(mgr)
		}},
		{"csr", func() error {
			return csr.Setup(ctx, mgr, csr.Options{
				Namespace: o.namespace, Registerer: metrics.Registry, AllowLoopback: o.allowLoopback, ServerNames: known.ServerNames, Leads: leads,
			})
		}},
	} {
		if err := c.setup(); err != nil {
			return fmt.Errorf("setting up controller %s: %w", c.name, err)
		}
	}
	return nil
}

// lost ends an operator that has woken up and is no longer the leader, before it does anything else.
func lost(holder string) {
	fmt.Fprintln(os.Stderr, "windows-machine-operator: the lead was lost to", holder)
	os.Exit(1)
}

func newManager(cfg *rest.Config, lock resourcelock.Interface, o options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, machine.AddToScheme, discover.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	leaseDuration, renewDeadline, retryPeriod := lead.LeaseDuration, lead.RenewDeadline, lead.RetryPeriod
	own := map[string]cache.Config{o.namespace: {}}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       server.Options{BindAddress: o.metricsAddr},
		HealthProbeBindAddress:        o.probeAddr,
		LeaderElection:                o.leaderElect,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &leaseDuration,
		RenewDeadline:                 &renewDeadline,
		RetryPeriod:                   &retryPeriod,
		// It is made here, so that who has lost it knows at once.
		LeaderElectionResourceLockInterface: lock,
		// Secrets and ConfigMaps are cached in the operator's namespace only: it may not read others.
		Cache: cache.Options{DefaultTransform: slim.Transform, ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {Namespaces: own}, &corev1.ConfigMap{}: {Namespaces: own},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	return mgr, nil
}

// serverVersion asks the API server what it is.
func serverVersion(mgr ctrl.Manager) func() (string, error) {
	return func() (string, error) {
		c, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
		if err != nil {
			return "", err
		}
		v, err := c.ServerVersion()
		if err != nil {
			return "", err
		}
		return v.GitVersion, nil
	}
}
