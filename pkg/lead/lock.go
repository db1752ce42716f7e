package lead

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The times of the election; those of client-go's documentation and of controller-runtime.
const (
	// LeaseDuration is how long others wait after the last renewal that they saw.
	LeaseDuration = 15 * time.Second
	// RenewDeadline is how long a leader that cannot reach the API server goes on.
	RenewDeadline = 10 * time.Second
	// RetryPeriod is the time between two tries.
	RetryPeriod = 2 * time.Second
)

// Lock is a lease that knows whether it is held.
type Lock struct {
	resourcelock.Interface
	// Lost is called when somebody else has the lease that this process had. It must not return before nothing is done any more.
	Lost func(holder string)
	// Now is the clock; nil is time.Now.
	Now func() time.Time

	mu sync.Mutex
	// renewed is when the last renewal that went well began, zero while the lease is not held.
	renewed time.Time
}

// New returns the lock on the Lease of that name, for an identity of its own.
func New(cfg *rest.Config, namespace, name string, lost func(holder string)) (*Lock, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming this operator: %w", err)
	}
	id := resourcelock.ResourceLockConfig{Identity: hostname + "_" + string(uuid.NewUUID())}
	inner, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, name, id, cfg, RenewDeadline)
	if err != nil {
		return nil, fmt.Errorf("making the lock on Lease %s/%s: %w", namespace, name, err)
	}
	return &Lock{Interface: inner, Lost: lost}, nil
}

// Holds reports whether nobody else can have the lease yet.
func (l *Lock) Holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.renewed.IsZero() && l.now().Sub(l.renewed) < LeaseDuration
}

func (l *Lock) now() time.Time {
	if l.Now != nil {
		return l.Now()
	}
	return time.Now()
}

// Get implements resourcelock.Interface.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := l.Interface.Get(ctx)
	if err == nil && r.HolderIdentity != l.Identity() && l.drop() {
		l.Lost(r.HolderIdentity)
	}
	return r, raw, err
}

// drop notes that the lease is somebody else's; it reports whether it was ours.
func (l *Lock) drop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := !l.renewed.IsZero()
	l.renewed = time.Time{}
	return held
}

// Create implements resourcelock.Interface.
func (l *Lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(r, func() error { return l.Interface.Create(ctx, r) })
}

// Update implements resourcelock.Interface.
func (l *Lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(r, func() error { return l.Interface.Update(ctx, r) })
}

// write notes what was written. Others count from when they see it, which is later than when it was begun.
func (l *Lock) write(r resourcelock.LeaderElectionRecord, do func() error) error {
	began := l.now()
	if err := do(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = began
	if r.HolderIdentity != l.Identity() {
		// It was given back.
		l.renewed = time.Time{}
	}
	return nil
}
