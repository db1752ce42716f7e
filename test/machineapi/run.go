package machineapi

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	configv1 "github.com/openshift/api/config/v1"
	apifeatures "github.com/openshift/api/features"
	machinev1 "github.com/openshift/api/machine/v1beta1"
	"github.com/openshift/machine-api-operator/pkg/controller/machine"
	"github.com/openshift/machine-api-operator/pkg/controller/machineset"
	"github.com/openshift/machine-api-operator/pkg/controller/nodelink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// machineWorkers is how many Machines are created at a time. The other controllers keep maps without locks: one each.
const machineWorkers = 10

// Instance is a machine that a Provider has made.
type Instance struct {
	// ID is the provider id, for example "sim:///win-abc12". It must differ between instances.
	ID string
	// Addresses go into the Machine's status as they are.
	Addresses []corev1.NodeAddress
}

// Provider makes and destroys machines. Its methods may be called at the same time for different Machines, and again after
// an error.
type Provider interface {
	// Create makes the instance of a Machine.
	Create(ctx context.Context, namespace, name string) (Instance, error)
	// Delete destroys it. The controllers have drained its node before, and delete the Node object afterwards.
	Delete(ctx context.Context, namespace, name string) error
}

// SetLogger decides where the controllers and client-go log, for the whole process: they use klog, which is global. Call it
// once, before anything logs. logr.Discard() makes them silent.
func SetLogger(log logr.Logger) {
	klog.SetLogger(log)
	ctrl.SetLogger(log)
}

// Run runs the controllers until ctx ends, and then returns nil. The Machine and MachineSet CRDs (CRDs) must be served before.
// Which instances exist is remembered within one Run: Machines do not outlive it.
func Run(ctx context.Context, cfg *rest.Config, provider Provider) error {
	mgr, err := newManager(cfg)
	if err != nil {
		return fmt.Errorf("machine API: %w", err)
	}
	if err := addControllers(mgr, newActuator(mgr.GetClient(), provider)); err != nil {
		return fmt.Errorf("machine API: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("machine API: %w", err)
	}
	return nil
}

// newManager serves no ports. Controller names are unique within a process unless told otherwise, and tests run several.
func newManager(cfg *rest.Config) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, machinev1.Install, configv1.Install} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	skip := true
	return manager.New(cfg, manager.Options{
		Scheme:                 scheme,
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Controller:             config.Controller{SkipNameValidation: &skip},
	})
}

func addControllers(mgr manager.Manager, a machine.Actuator) error {
	gate := featuregate.NewFeatureGate()
	// The controllers ask for this gate and panic if nobody has registered it.
	err := gate.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		featuregate.Feature(apifeatures.FeatureGateMachineAPIMigration): {Default: false, PreRelease: featuregate.Alpha},
	})
	if err != nil {
		return err
	}
	if err := machineset.Add(mgr, manager.Options{}, gate); err != nil {
		return err
	}
	if err := nodelink.Add(mgr, manager.Options{}); err != nil {
		return err
	}
	return machine.AddWithActuatorOpts(mgr, a, controller.Options{MaxConcurrentReconciles: machineWorkers}, gate)
}
