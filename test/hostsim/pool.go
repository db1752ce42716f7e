package hostsim

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

// Pool makes and destroys machines by name, as a cloud does for Machines. It is safe for concurrent use.
type Pool struct {
	options func(namespace, name string) Options
	blobs   *fake.Blobs

	mu     sync.Mutex
	hosts  map[string]*Host
	closed bool
}

// ErrPoolClosed is what Create answers after Close.
var ErrPoolClosed = errors.New("pool of machines is closed")

// NewPool returns an empty pool. options says what each machine is like; its Hostname is the Machine's name where it is empty, as
// clouds name their machines, and all share one pool of file content. Machines of one pool that have the same Port need
// addresses of their own, which is the default.
func NewPool(options func(namespace, name string) Options) *Pool {
	return &Pool{options: options, blobs: fake.NewBlobs(), hosts: map[string]*Host{}}
}

func poolKey(namespace, name string) string { return namespace + "/" + name }

// Create returns the machine of that name, and makes it when there is none.
func (p *Pool) Create(ctx context.Context, namespace, name string) (*Host, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrPoolClosed
	}
	if h := p.hosts[poolKey(namespace, name)]; h != nil {
		return h, nil
	}
	o := p.options(namespace, name)
	if o.Hostname == "" {
		o.Hostname = name
	}
	if o.Machine.Blobs == nil {
		o.Machine.Blobs = p.blobs
	}
	h, err := New(o)
	if err != nil {
		return nil, fmt.Errorf("making machine %s: %w", name, err)
	}
	p.hosts[poolKey(namespace, name)] = h
	return h, nil
}

// Delete destroys the machine; one that is not there is no error.
func (p *Pool) Delete(_ context.Context, namespace, name string) error {
	p.mu.Lock()
	h := p.hosts[poolKey(namespace, name)]
	delete(p.hosts, poolKey(namespace, name))
	p.mu.Unlock()
	if h != nil {
		h.Close()
	}
	return nil
}

// Get returns a machine, nil when there is none of that name.
func (p *Pool) Get(namespace, name string) *Host {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hosts[poolKey(namespace, name)]
}

// Hosts returns all machines by namespace/name.
func (p *Pool) Hosts() map[string]*Host {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]*Host, len(p.hosts))
	for k, h := range p.hosts {
		out[k] = h
	}
	return out
}

// Close destroys all machines, side by side.
func (p *Pool) Close() {
	p.mu.Lock()
	hosts := p.hosts
	p.hosts, p.closed = map[string]*Host{}, true
	p.mu.Unlock()
	var work sync.WaitGroup
	for _, h := range hosts {
		work.Go(h.Close)
	}
	work.Wait()
}
