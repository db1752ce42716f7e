package step

import (
	"context"
	"errors"
	"fmt"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// endpointItem is the host's own endpoint in an L2Bridge network: made, attached to the host's compartment, and with forwarding on both sides. HNS
// keeps L2Bridge networks over a reboot but no endpoints, and the interfaces of both are new then, so that the first run after a boot does it all again.
type endpointItem struct {
	b *bench
	n plan.Network
}

func (i endpointItem) id() ID { return newID(KindEndpoint, i.n.HostEndpoint.Name) }

func (i endpointItem) name() string { return i.n.HostEndpoint.Name }

func (i endpointItem) check(context.Context) (string, error) {
	have, attached, err := i.b.sys.Networks.Endpoint(i.n.Name, i.n.HostEndpoint.Name)
	switch {
	case errors.Is(err, system.ErrEndpointNotFound), errors.Is(err, system.ErrNetworkNotFound):
		return "missing", nil
	case err != nil:
		return "", err
	case have.Address != i.n.HostEndpoint.Address:
		return fmt.Sprintf("has address %s, not %s", have.Address, i.n.HostEndpoint.Address), nil
	case !attached:
		return "not attached to the host", nil
	}
	return i.notForwarding()
}

// sides are the addresses between which the host forwards: the endpoint's, behind which the pods are, and the node's own.
func (i endpointItem) sides() []string { return []string{i.n.HostEndpoint.Address, i.n.ManagementIP} }

func (i endpointItem) notForwarding() (string, error) {
	for _, address := range i.sides() {
		on, err := i.b.sys.Routes.Forwarding(address)
		switch {
		case errors.Is(err, system.ErrAdapterNotFound):
			return fmt.Sprintf("no adapter holds %s", address), nil
		case err != nil:
			return "", err
		case !on:
			return fmt.Sprintf("the adapter of %s does not forward", address), nil
		}
	}
	return "", nil
}

// claim notes whether the node's own adapter forwarded before.
func (i endpointItem) claim(context.Context) (Owned, error) {
	o := Owned{ID: i.id(), Name: i.n.HostEndpoint.Name, Network: i.n.Name, Value: i.n.ManagementIP}
	on, err := i.b.sys.Routes.Forwarding(i.n.ManagementIP)
	if errors.Is(err, system.ErrAdapterNotFound) {
		// The network of this plan is being made, which takes the address away for some seconds; its new adapter does not forward.
		return o, nil
	}
	o.Existed = on
	return o, err
}

func (i endpointItem) apply(ctx context.Context) (bool, error) {
	have, attached, err := i.b.sys.Networks.Endpoint(i.n.Name, i.n.HostEndpoint.Name)
	missing := errors.Is(err, system.ErrEndpointNotFound)
	switch {
	case err != nil && !missing:
		return false, err
	case !missing && have.Address != i.n.HostEndpoint.Address:
		if err := i.b.sys.Networks.DeleteEndpoint(ctx, i.n.HostEndpoint.Name); err != nil {
			return false, err
		}
		missing, attached = true, false
	}
	if missing {
		if err := i.b.sys.Networks.CreateEndpoint(ctx, i.n.Name, *i.n.HostEndpoint); err != nil {
			return false, err
		}
	}
	if !attached {
		if err := i.b.sys.Networks.AttachEndpoint(ctx, i.n.HostEndpoint.Name); err != nil {
			return false, err
		}
	}
	return false, i.forward(ctx)
}

// forward waits for each adapter, since the one of the endpoint appears some time after it was attached, and turns forwarding on.
func (i endpointItem) forward(ctx context.Context) error {
	for _, address := range i.sides() {
		if _, err := i.b.waitAddress(ctx, address, false); err != nil {
			return fmt.Errorf("after the endpoint was attached: %w", err)
		}
		on, err := i.b.sys.Routes.Forwarding(address)
		if err == nil && !on {
			err = i.b.sys.Routes.SetForwarding(address, true)
		}
		if err != nil {
			return fmt.Errorf("forwarding on the adapter of %s: %w", address, err)
		}
	}
	return nil
}

// undoEndpoint deletes the endpoint and turns forwarding off where it was off before. The network goes after it, and with it the adapter in most cases.
func (b *bench) undoEndpoint(ctx context.Context, o Owned) error {
	err := b.sys.Networks.DeleteEndpoint(ctx, o.Name)
	if err != nil && !errors.Is(err, system.ErrEndpointNotFound) && !errors.Is(err, system.ErrUnsupported) {
		return err
	}
	if o.Existed {
		return nil
	}
	on, err := b.sys.Routes.Forwarding(o.Value)
	if errors.Is(err, system.ErrAdapterNotFound) || errors.Is(err, system.ErrUnsupported) {
		return nil
	}
	if err == nil && on {
		err = b.sys.Routes.SetForwarding(o.Value, false)
	}
	return err
}
