package machine

import (
	"context"
	"fmt"
	"time"

	machinev1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwait "k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// lookEvery is how often a cluster without the Machine API is asked for it again.
const lookEvery = time.Minute

// Setup adds the reconciler to mgr: at once where the cluster has the Machine API, else when it appears. A controller whose kind is not there
// would end the whole operator after two minutes (controller-runtime, CacheSyncTimeout), and a cluster without Machines is a cluster to which
// people bring their hosts themselves.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	there := func() (bool, error) { return served(mgr.GetRESTMapper()) }
	ok, err := there()
	if err != nil {
		return err
	}
	if ok {
		return r.build(mgr)
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		log.FromContext(ctx).Info("the cluster has no Machine API: WindowsHosts are made by hand only, until it appears", "looking again every", lookEvery.String())
		return await(ctx, lookEvery, there, func() error { return r.build(mgr) })
	}))
}

// served reports whether the API server knows Machines.
func served(mapper meta.RESTMapper) (bool, error) {
	_, err := mapper.RESTMapping(schema.GroupKind{Group: machinev1.GroupName, Kind: "Machine"}, machinev1.GroupVersion.Version)
	switch {
	case err == nil:
		return true, nil
	case meta.IsNoMatchError(err):
		return false, nil
	}
	return false, fmt.Errorf("asking the API server for Machines: %w", err)
}

// await calls start once there answers yes. An API server that does not answer is asked again.
func await(ctx context.Context, every time.Duration, there func() (bool, error), start func() error) error {
	err := apiwait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		ok, err := there()
		if err != nil {
			log.FromContext(ctx).Error(err, "looking for the Machine API")
		}
		return ok, nil
	})
	if ctx.Err() != nil {
		// The operator is being stopped.
		return nil //nolint:nilerr // Stopping is no failure.
	}
	if err != nil {
		return err
	}
	log.FromContext(ctx).Info("the Machine API has appeared")
	return start()
}
