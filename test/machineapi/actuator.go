package machineapi

import (
	"context"
	"fmt"
	"sync"

	machinev1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// actuator is what the Machine controller calls; it remembers which instances exist.
type actuator struct {
	client   client.Client
	provider Provider

	mu        sync.Mutex
	instances map[client.ObjectKey]Instance
}

func newActuator(c client.Client, p Provider) *actuator {
	return &actuator{client: c, provider: p, instances: map[client.ObjectKey]Instance{}}
}

// Create makes the instance and writes it to the Machine. The controller calls it one at a time for a Machine, and again after
// an error; an instance that exists is not made twice.
func (a *actuator) Create(ctx context.Context, m *machinev1.Machine) error {
	key := client.ObjectKeyFromObject(m)
	if _, ok := a.instance(key); !ok {
		made, err := a.provider.Create(ctx, key.Namespace, key.Name)
		if err != nil {
			return fmt.Errorf("creating the instance of %s: %w", key, err)
		}
		a.mu.Lock()
		a.instances[key] = made
		a.mu.Unlock()
	}
	return a.Update(ctx, m)
}

// Update writes provider id and addresses to the Machine, as a cloud's actuator does on every pass.
func (a *actuator) Update(ctx context.Context, m *machinev1.Machine) error {
	i, ok := a.instance(client.ObjectKeyFromObject(m))
	if !ok {
		return fmt.Errorf("machine %s has no instance", client.ObjectKeyFromObject(m))
	}
	if ptr.Deref(m.Spec.ProviderID, "") != i.ID {
		base := client.MergeFrom(m.DeepCopy())
		m.Spec.ProviderID = ptr.To(i.ID)
		if err := a.client.Patch(ctx, m, base); err != nil {
			return fmt.Errorf("writing the provider id: %w", err)
		}
	}
	base := client.MergeFrom(m.DeepCopy())
	m.Status.Addresses = i.Addresses
	if err := a.client.Status().Patch(ctx, m, base); err != nil {
		return fmt.Errorf("writing the addresses: %w", err)
	}
	return nil
}

// Exists says whether the Machine has an instance.
func (a *actuator) Exists(_ context.Context, m *machinev1.Machine) (bool, error) {
	_, ok := a.instance(client.ObjectKeyFromObject(m))
	return ok, nil
}

// Delete destroys the instance.
func (a *actuator) Delete(ctx context.Context, m *machinev1.Machine) error {
	key := client.ObjectKeyFromObject(m)
	if _, ok := a.instance(key); !ok {
		return nil
	}
	if err := a.provider.Delete(ctx, key.Namespace, key.Name); err != nil {
		return fmt.Errorf("deleting the instance of %s: %w", key, err)
	}
	a.mu.Lock()
	delete(a.instances, key)
	a.mu.Unlock()
	return nil
}

func (a *actuator) instance(key client.ObjectKey) (Instance, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := a.instances[key]
	return i, ok
}
