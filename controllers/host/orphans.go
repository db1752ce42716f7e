package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiwait "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

// sweepEvery is how often tickets without a host are looked for. They are rare: a deletion revokes the host's ticket, and only an
// object whose finalizer somebody else removed leaves one behind.
const sweepEvery = 10 * time.Minute

// sweep revokes such tickets until ctx ends. A manager runs it on the leader only.
func (r *Reconciler) sweep(ctx context.Context) error {
	apiwait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := r.revokeOrphans(ctx); err != nil {
			log.FromContext(ctx).Error(err, "revoking tickets without a host")
		}
	}, sweepEvery)
	return nil
}

// revokeOrphans revokes the tickets whose host is gone.
func (r *Reconciler) revokeOrphans(ctx context.Context) error {
	var hosts v1alpha1.WindowsHostList
	if err := r.Client.List(ctx, &hosts, client.InNamespace(r.Namespace)); err != nil {
		return fmt.Errorf("listing WindowsHosts: %w", err)
	}
	names, err := r.Tickets.Orphans(ctx, hosts.Items, r.Clock.Now())
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if err := r.Tickets.RevokeAccount(ctx, name); err != nil {
			errs = append(errs, err)
			continue
		}
		log.FromContext(ctx).Info("revoked a ticket whose host is gone", "account", name)
	}
	return errors.Join(errs...)
}
