package bed

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"

	"github.com/windowsmachine/operator/test/hostsim"
	"github.com/windowsmachine/operator/test/machineapi"
)

// NewHost starts a simulated machine that the operator's key may log in to; edits change its options first.
func (b *Bed) NewHost(name string, edits ...func(*hostsim.Options)) (*hostsim.Host, error) {
	port, err := b.Port()
	if err != nil {
		return nil, err
	}
	o := hostsim.Options{
		Hostname: name, Port: port, AuthorizedKeys: []ssh.PublicKey{b.public},
		Agents: map[string]string{b.digest: "bed"},
	}
	for _, e := range edits {
		e(&o)
	}
	h, err := hostsim.New(o)
	if err != nil {
		return nil, fmt.Errorf("starting machine %s: %w", name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hosts[name] = h
	return h, nil
}

// Port is the SSH port of all machines; each has an address of its own.
func (b *Bed) Port() (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.port != 0 {
		return b.port, nil
	}
	probe, err := hostsim.New(hostsim.Options{})
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	_, b.port = probe.Addr()
	probe.Close()
	return b.port, nil
}

// Host returns the machine of that name.
func (b *Bed) Host(name string) (*hostsim.Host, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.hosts[name]
	return h, ok
}

// Hosts counts the machines that run.
func (b *Bed) Hosts() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.hosts)
}

// Create implements machineapi.Provider: a Machine gets a simulated machine of its name.
func (b *Bed) Create(_ context.Context, _, name string) (machineapi.Instance, error) {
	h, ok := b.Host(name)
	if !ok {
		var err error
		if h, err = b.NewHost(name, b.ofMachine(name)); err != nil {
			return machineapi.Instance{}, err
		}
	}
	ip, _ := h.Addr()
	return machineapi.Instance{ID: "sim:///" + name, Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: ip},
		{Type: corev1.NodeInternalDNS, Address: name},
		{Type: corev1.NodeHostName, Address: name},
	}}, nil
}

func (b *Bed) ofMachine(name string) func(*hostsim.Options) {
	return func(o *hostsim.Options) {
		if b.opts.Machine != nil {
			b.opts.Machine(name, o)
		}
	}
}

// Delete implements machineapi.Provider: the machine is destroyed as it stands.
func (b *Bed) Delete(_ context.Context, _, name string) error {
	b.mu.Lock()
	h := b.hosts[name]
	delete(b.hosts, name)
	b.mu.Unlock()
	if h != nil {
		h.Close()
	}
	return nil
}

// File returns a file of a machine as it is now.
func (b *Bed) File(name, path string) ([]byte, error) {
	h, ok := b.Host(name)
	if !ok {
		return nil, fmt.Errorf("there is no machine %s", name)
	}
	f, err := h.Machine().System().Files.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening %s on %s: %w", path, name, err)
	}
	defer f.Close()
	return io.ReadAll(f)
}
