package step

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// remotesItem are all remote subnets of an Overlay network. They are one object, because HNS lists them in one call, and because nodes come and go: what
// the plan has no more is taken away by the same item, and the network stays. They go with the network, which does not outlive a boot.
type remotesItem struct {
	b *bench
	n plan.Network
}

func (i remotesItem) id() ID { return newID(KindRemotes, i.n.Name) }

func (i remotesItem) name() string { return i.n.Name }

func (i remotesItem) check(context.Context) (string, error) {
	have, err := i.b.sys.Networks.Remotes(i.n.Name)
	if errors.Is(err, system.ErrNetworkNotFound) {
		return "the network is missing", nil
	}
	if err != nil {
		return "", err
	}
	add, drop := remotesDrift(have, i.n.Remotes)
	switch {
	case len(add) > 0:
		return fmt.Sprintf("%d of %d missing, the first %s by %s", len(add), len(i.n.Remotes), add[0].Prefix, add[0].ProviderAddress), nil
	case len(drop) > 0:
		return fmt.Sprintf("%d too many, the first %s by %s", len(drop), drop[0].Prefix, drop[0].ProviderAddress), nil
	}
	return "", nil
}

// remotesDrift returns what must come and what must go. One that differs in anything goes and comes.
func remotesDrift(have, want []plan.RemoteSubnet) (add, drop []plan.RemoteSubnet) {
	wanted := make(map[plan.RemoteSubnet]bool, len(want))
	for _, r := range want {
		wanted[r] = true
	}
	there := make(map[plan.RemoteSubnet]bool, len(have))
	for _, r := range have {
		there[r] = true
		if !wanted[r] {
			drop = append(drop, r)
		}
	}
	return slices.DeleteFunc(slices.Clone(want), func(r plan.RemoteSubnet) bool { return there[r] }), drop
}

func (i remotesItem) claim(context.Context) (Owned, error) {
	return Owned{ID: i.id(), Name: i.n.Name, Network: i.n.Name}, nil
}

// apply takes away first: HNS does not take two routes to one prefix.
func (i remotesItem) apply(ctx context.Context) (bool, error) {
	have, err := i.b.sys.Networks.Remotes(i.n.Name)
	if err != nil {
		return false, err
	}
	add, drop := remotesDrift(have, i.n.Remotes)
	if len(drop) > 0 {
		if err := i.b.sys.Networks.DeleteRemotes(ctx, i.n.Name, drop); err != nil {
			return false, err
		}
	}
	if len(add) > 0 {
		return false, i.b.sys.Networks.AddRemotes(ctx, i.n.Name, add)
	}
	return false, nil
}

// undoRemotes leaves the network without any, where the network itself stays.
func (b *bench) undoRemotes(ctx context.Context, o Owned) error {
	have, err := b.sys.Networks.Remotes(o.Network)
	if errors.Is(err, system.ErrNetworkNotFound) || errors.Is(err, system.ErrUnsupported) {
		return nil
	}
	if err != nil || len(have) == 0 {
		return err
	}
	return b.sys.Networks.DeleteRemotes(ctx, o.Network, have)
}
