package step

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// networkItem is an HNS network. While the virtual switch is made the machine's address moves to a new adapter, so that
// every connection drops and the address is unusable for some seconds.
type networkItem struct {
	b *bench
	n plan.Network
}

func (i networkItem) id() ID { return newID(KindNetwork, i.n.Name) }

func (i networkItem) name() string { return i.n.Name }

func (i networkItem) check(context.Context) (string, error) {
	have, err := i.b.sys.Networks.Get(i.n.Name)
	switch {
	case errors.Is(err, system.ErrNetworkNotFound):
		return "missing", nil
	case err != nil:
		return "", err
	}
	if why := networkDrift(have, i.n); why != "" {
		return why, nil
	}
	return i.b.routesLost(i.id())
}

// networkDrift says in what have differs from want. HNS does not always keep the management address; an empty one is no
// difference.
func networkDrift(have, want plan.Network) string {
	for _, f := range []struct{ name, have, want string }{
		{"type", have.Type, want.Type},
		{"prefix", have.Prefix, want.Prefix},
		{"gateway", have.Gateway, want.Gateway},
		{"virtual subnet", fmt.Sprint(have.VSID), fmt.Sprint(want.VSID)},
		{"management address", either(have.ManagementIP, want.ManagementIP), want.ManagementIP},
	} {
		if !strings.EqualFold(f.have, f.want) {
			return fmt.Sprintf("%s is %s, not %s", f.name, f.have, f.want)
		}
	}
	return ""
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// claim: a network of that name that is there but differs is replaced; it is not put back later, since its adapter's state is not
// known. One that is there and equal is in sync and never claimed, so it outlives the plan.
func (i networkItem) claim(context.Context) (Owned, error) {
	routes, err := i.b.noteRoutes()
	return Owned{ID: i.id(), Name: i.n.Name, Value: i.n.ManagementIP, Routes: routes}, err
}

func (i networkItem) apply(ctx context.Context) (bool, error) {
	have, err := i.b.sys.Networks.Get(i.n.Name)
	first := errors.Is(err, system.ErrNetworkNotFound)
	switch {
	case err != nil && !first:
		return false, err
	case err == nil && networkDrift(have, i.n) == "":
		return false, i.b.keepRoutes(i.id())
	}
	if err := i.replace(ctx, first); err != nil {
		return false, err
	}
	if err := i.b.keepRoutes(i.id()); err != nil {
		return false, err
	}
	if err := i.confirm(ctx, first); err != nil {
		return false, err
	}
	return false, i.refill(ctx)
}

// refill makes what lay in the network and has gone with the old one. What was never there is on the step's own list.
func (i networkItem) refill(ctx context.Context) error {
	for _, it := range i.b.inside(i.n) {
		if _, ours := i.b.ledger.Find(it.id()); !ours {
			continue
		}
		if _, err := it.apply(ctx); err != nil {
			return fmt.Errorf("applying %s: %w", title(it), err)
		}
	}
	return nil
}

// replace makes the network, and deletes the one of its name before unless it is the first.
func (i networkItem) replace(ctx context.Context, first bool) error {
	before, err := i.b.waitAddress(ctx, i.n.ManagementIP, false)
	if err != nil {
		return fmt.Errorf("before the network is made: %w", err)
	}
	if !first {
		if err := i.b.deleteNetwork(ctx, i.n.Name); err != nil {
			return err
		}
		if _, err := i.b.waitAddress(ctx, i.n.ManagementIP, before.Default); err != nil {
			return fmt.Errorf("after the old network was deleted: %w", errors.Join(ErrNetworkLost, err))
		}
	}
	if err := i.create(ctx); err != nil {
		return err
	}
	if _, err := i.b.waitAddress(ctx, i.n.ManagementIP, before.Default); err != nil {
		return fmt.Errorf("after the network was made: %w", errors.Join(ErrNetworkLost, err))
	}
	return nil
}

func (i networkItem) create(ctx context.Context) error {
	err := i.b.sys.Networks.Create(ctx, i.n)
	if errors.Is(err, system.ErrNetworkExists) {
		// A deletion can still be under way inside HNS although the network is no longer listed.
		return i.b.wait(ctx, i.b.timing.NetworkGone, ErrNetworkStuck, func() (bool, error) {
			err := i.b.sys.Networks.Create(ctx, i.n)
			if errors.Is(err, system.ErrNetworkExists) {
				return false, nil
			}
			return err == nil, err
		})
	}
	return err
}

// confirm undoes a first network behind which the API server cannot be reached: without it the machine is as reachable as before.
func (i networkItem) confirm(ctx context.Context, first bool) error {
	if !first || i.n.Reach == "" {
		return nil
	}
	err := i.b.wait(ctx, i.b.timing.Reach, ErrNetworkLost, func() (bool, error) {
		return i.b.reaches(ctx, i.n.Reach), ctx.Err()
	})
	if !errors.Is(err, ErrNetworkLost) {
		return err
	}
	err = fmt.Errorf("%s cannot be reached, the network was taken away again: %w", i.n.Reach, err)
	if uerr := i.b.deleteNetwork(ctx, i.n.Name); uerr != nil {
		return errors.Join(err, uerr)
	}
	if _, werr := i.b.waitAddress(ctx, i.n.ManagementIP, false); werr != nil {
		return errors.Join(err, werr)
	}
	return errors.Join(err, i.b.keepRoutes(i.id()))
}

// reachTimeout bounds one attempt to connect.
const reachTimeout = 5 * time.Second

func (b *bench) reaches(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	conn, err := b.sys.Machine.Dial(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// waitAddress waits until an adapter holds ip and it is usable, and has the default route if that is asked for.
func (b *bench) waitAddress(ctx context.Context, ip string, withRoute bool) (plan.AdapterAddress, error) {
	var found plan.AdapterAddress
	state := adapterAbsent
	late := fmt.Errorf("address %s: %w", ip, system.ErrAdapterNotFound)
	err := b.wait(ctx, b.timing.Address, late, func() (bool, error) {
		list, err := b.sys.Machine.Addresses()
		if err != nil {
			return false, err
		}
		found, state = holder(list, ip)
		return state == adapterReady && (found.Default || !withRoute), nil
	})
	if err != nil && state == adapterTentative {
		return found, fmt.Errorf("adapter %q holds it but it is not usable: %w", found.Adapter, err)
	}
	return found, err
}

// deleteNetwork deletes and makes sure that it is gone: what is made too early ends in "already exists".
func (b *bench) deleteNetwork(ctx context.Context, name string) error {
	if err := b.sys.Networks.Delete(ctx, name); err != nil && !errors.Is(err, system.ErrNetworkNotFound) {
		return fmt.Errorf("deleting network %s: %w", name, err)
	}
	return b.wait(ctx, b.timing.NetworkGone, fmt.Errorf("network %s: %w", name, ErrNetworkStuck), func() (bool, error) {
		_, err := b.sys.Networks.Get(name)
		if errors.Is(err, system.ErrNetworkNotFound) {
			return true, nil
		}
		return false, err
	})
}

// undoNetwork deletes the network and waits for the address to move back, unless it had gone before.
func (b *bench) undoNetwork(ctx context.Context, o Owned) error {
	_, err := b.sys.Networks.Get(o.Name)
	// Without the Containers feature there is no Host Networking Service, and no network.
	if errors.Is(err, system.ErrNetworkNotFound) || errors.Is(err, system.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	list, err := b.sys.Machine.Addresses()
	if err != nil {
		return err
	}
	before, state := holder(list, o.Value)
	if err := b.deleteNetwork(ctx, o.Name); err != nil || state == adapterAbsent {
		return err
	}
	if _, err := b.waitAddress(ctx, o.Value, before.Default); err != nil {
		return fmt.Errorf("after the network was deleted: %w", errors.Join(ErrNetworkLost, err))
	}
	return b.restoreRoutes(o.Routes)
}
