//go:build linux && wine

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"

	"github.com/windowsmachine/operator/test/machineapi"
	"github.com/windowsmachine/operator/test/wine"
)

// linkDrop is for how long a machine's link drops when its network is made.
const linkDrop = 500 * time.Millisecond

// yard is the cloud: it makes a machine of Wine for each Machine.
type yard struct {
	network *wine.Network
	dir     string
	logf    func(string, ...any)

	mu       sync.Mutex
	keys     []ssh.PublicKey
	machines map[string]*wine.Machine
	made     int
}

func newYard(ctx context.Context, dir string, logf func(string, ...any)) (*yard, error) {
	kit, err := wine.Prepare(ctx, "..", os.Stdout)
	if err != nil {
		return nil, err
	}
	network, err := kit.NewNetwork(ctx, netip.MustParsePrefix("10.77.0.0/24"))
	if err != nil {
		return nil, err
	}
	return &yard{network: network, dir: filepath.Join(dir, "machines"), logf: logf, machines: map[string]*wine.Machine{}}, nil
}

// authorize lets a key log in to machines that are made from now on.
func (y *yard) authorize(k ssh.PublicKey) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.keys = append(y.keys, k)
}

func (y *yard) machine(name string) (*wine.Machine, bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	m, ok := y.machines[name]
	return m, ok
}

func (y *yard) all() []*wine.Machine {
	y.mu.Lock()
	defer y.mu.Unlock()
	var out []*wine.Machine
	for _, m := range y.machines {
		out = append(out, m)
	}
	return out
}

// make makes a machine and switches it on.
func (y *yard) make(ctx context.Context, name string, edit func(*wine.Options)) (*wine.Machine, error) {
	y.mu.Lock()
	y.made++
	o := wine.Options{
		Name: name, Address: y.network.Address(y.made).String(), Keys: y.keys, Dir: y.dir, LinkDrop: linkDrop, Logf: y.logf,
	}
	y.mu.Unlock()
	if edit != nil {
		edit(&o)
	}
	m, err := y.network.NewMachine(o)
	if err != nil {
		return nil, err
	}
	y.mu.Lock()
	y.machines[name] = m
	y.mu.Unlock()
	return m, m.PowerOn(ctx)
}

// Create implements machineapi.Provider.
func (y *yard) Create(ctx context.Context, _, name string) (machineapi.Instance, error) {
	m, ok := y.machine(name)
	if !ok {
		var err error
		if m, err = y.make(ctx, name, nil); err != nil {
			return machineapi.Instance{}, err
		}
	}
	return machineapi.Instance{ID: "wine:///" + name, Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: m.Address()},
		{Type: corev1.NodeInternalDNS, Address: name},
		{Type: corev1.NodeHostName, Address: name},
	}}, nil
}

// Delete implements machineapi.Provider.
func (y *yard) Delete(_ context.Context, _, name string) error {
	m, ok := y.machine(name)
	if !ok {
		return nil
	}
	y.mu.Lock()
	delete(y.machines, name)
	y.mu.Unlock()
	return m.Destroy()
}

func (y *yard) close() error {
	var errs []error
	for _, m := range y.all() {
		if err := m.Destroy(); err != nil {
			errs = append(errs, fmt.Errorf("destroying %s: %w", m.Name(), err))
		}
	}
	return errors.Join(append(errs, y.network.Close())...)
}
