package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Step is one step of a plan.
type Step interface {
	// Name is plan.Step* or made by plan.ServiceStep.
	Name() string
	// Check compares the machine with the plan and changes nothing.
	Check(ctx context.Context) (Drift, error)
	// Apply changes what Check finds. It may be repeated after any failure.
	Apply(ctx context.Context) (Outcome, error)
	// Remove takes back what the ledger says the step made.
	Remove(ctx context.Context) error
}

// Drift is the difference between machine and plan, a sentence for each object, for people.
type Drift []string

// InSync reports whether there is no difference.
func (d Drift) InSync() bool { return len(d) == 0 }

// Outcome is what Apply did.
type Outcome struct {
	// Changed names the objects that were changed.
	Changed []string
	// Reboot is whether the machine must be rebooted before the step is in sync.
	Reboot bool
}

// Timing bounds the waits; a zero field has the default beside it.
type Timing struct {
	// Poll is the pause between two looks, 100 ms.
	Poll time.Duration
	// ServiceStart and ServiceStop bound a service's transitions, 60 s each; the service manager itself gives a program
	// 30 s to answer.
	ServiceStart, ServiceStop time.Duration
	// ServiceMarked bounds the wait for a service that is marked for deletion, 30 s.
	ServiceMarked time.Duration
	// Address bounds the wait for a usable management address before and after a network is made, 60 s each.
	Address time.Duration
	// NetworkGone bounds the wait for a deleted network, 60 s.
	NetworkGone time.Duration
	// Reach bounds the wait for the API server after a first network was made, 120 s.
	Reach time.Duration
}

func (t Timing) withDefaults() Timing {
	for _, d := range []struct {
		at    *time.Duration
		value time.Duration
	}{
		{&t.Poll, 100 * time.Millisecond},
		{&t.ServiceStart, time.Minute},
		{&t.ServiceStop, time.Minute},
		{&t.ServiceMarked, 30 * time.Second},
		{&t.Address, time.Minute},
		{&t.NetworkGone, time.Minute},
		{&t.Reach, 2 * time.Minute},
	} {
		if *d.at == 0 {
			*d.at = d.value
		}
	}
	return t
}

// Options are what steps need beside plan, ledger and machine.
type Options struct {
	// Root is the agent's folder; steps use Root\tmp, Root\old and Root\backup, which must exist, and Root\blobs\sha256.
	Root string
	// Secrets is the content of plan.Secrets by name, of those that were handed over and not yet put in place.
	Secrets map[string][]byte
	Timing  Timing
}

// Folders below Options.Root.
const (
	// TempDir holds files that are being written; whatever is in it when a run begins is rubbish.
	TempDir = "tmp"
	// OldDir holds running executables that were renamed away; they are deleted once their process has ended.
	OldDir = "old"
	// BackupDir holds files that were there before the agent.
	BackupDir = "backup"
)

// BlobPath returns where the payload blob of that digest lies below an agent's root.
func BlobPath(root, digest string) string { return disk.Join(root, "blobs", "sha256", digest) }

// Build returns the steps of p in the order of p.Steps.
func Build(p plan.Plan, ledger *Ledger, sys system.System, o Options) []Step {
	b := newBench(p, ledger, sys, o)
	var out []Step
	for _, name := range p.Steps() {
		out = append(out, &itemStep{name: name, b: b, items: b.items(name)})
	}
	return out
}

// bench is what all items of a build share.
type bench struct {
	Manager
	plan   plan.Plan
	ledger *Ledger
	opts   Options
}

func newBench(p plan.Plan, ledger *Ledger, sys system.System, o Options) *bench {
	return &bench{Manager: NewManager(sys, o.Timing), plan: p, ledger: ledger, opts: o}
}

// item is one object of a plan.
type item interface {
	id() ID
	// name is the object's name as the plan writes it, for people.
	name() string
	// check says how the object differs from the plan, "" when it does not.
	check(ctx context.Context) (string, error)
	// claim looks at what is there before the first change.
	claim(ctx context.Context) (Owned, error)
	// apply makes the object what the plan says; reboot is whether that takes a reboot.
	apply(ctx context.Context) (reboot bool, err error)
}

// items returns the objects of the step of that name.
func (b *bench) items(step string) []item {
	if name, ok := plan.ServiceOf(step); ok {
		i := slices.IndexFunc(b.plan.Services, func(s plan.Service) bool { return s.Name == name })
		return []item{serviceItem{b, b.plan.Services[i]}}
	}
	return map[string]func() []item{
		plan.StepCredentials: func() []item { return each(b.plan.Secrets, func(s plan.Secret) item { return b.secret(s) }) },
		plan.StepEnvironment: func() []item { return each(b.plan.Env, func(v plan.EnvVar) item { return envItem{b, v} }) },
		plan.StepFeatures:    func() []item { return each(b.plan.Features, func(f plan.Feature) item { return featureItem{b, f} }) },
		plan.StepDirectories: func() []item {
			return each(b.plan.Directories, func(d plan.Directory) item { return folderItem{b, d} })
		},
		plan.StepDefender: func() []item {
			return each(b.plan.Defender, func(e plan.DefenderExclusion) item { return defenderItem{b, e} })
		},
		plan.StepFiles: func() []item { return each(b.plan.Files, func(f plan.File) item { return b.file(f) }) },
		plan.StepCertificates: func() []item {
			return each(b.plan.Certificates, func(c plan.Certificate) item { return newCertificate(b, c) })
		},
		plan.StepFirewall: func() []item {
			return each(b.plan.Firewall, func(r plan.FirewallRule) item { return firewallItem{b, r} })
		},
		plan.StepNetwork: b.networkItems,
		plan.StepRoutes:  func() []item { return each(b.plan.Routes, func(r plan.Route) item { return routeItem{b, r} }) },
	}[step]()
}

// networkItems are the networks, and then what lies in them.
func (b *bench) networkItems() []item {
	out := each(b.plan.Networks, func(n plan.Network) item { return networkItem{b, n} })
	for _, n := range b.plan.Networks {
		out = append(out, b.inside(n)...)
	}
	return out
}

// inside are the objects that lie in a network, and go with it.
func (b *bench) inside(n plan.Network) []item {
	var out []item
	if n.HostEndpoint != nil {
		out = append(out, endpointItem{b, n})
	}
	if len(n.Remotes) > 0 {
		out = append(out, remotesItem{b, n})
	}
	return out
}

func each[T any](in []T, f func(T) item) []item {
	out := make([]item, 0, len(in))
	for _, v := range in {
		out = append(out, f(v))
	}
	return out
}

// itemStep is a Step over items.
type itemStep struct {
	name  string
	b     *bench
	items []item
}

// Name implements Step.
func (s *itemStep) Name() string { return s.name }

// Check implements Step.
func (s *itemStep) Check(ctx context.Context) (Drift, error) {
	var drift Drift
	for _, it := range s.items {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		why, err := it.check(ctx)
		if err != nil {
			return nil, fmt.Errorf("checking %s: %w", title(it), err)
		}
		if why != "" {
			drift = append(drift, fmt.Sprintf("%s: %s", title(it), why))
		}
	}
	return drift, nil
}

// Apply implements Step. All objects are claimed with one write of the ledger before the first is changed.
func (s *itemStep) Apply(ctx context.Context) (Outcome, error) {
	todo, err := s.drifted(ctx)
	if err != nil {
		return Outcome{}, err
	}
	if err := s.b.claim(ctx, todo); err != nil {
		return Outcome{}, err
	}
	var out Outcome
	for _, it := range todo {
		reboot, err := it.apply(ctx)
		if err != nil {
			return out, fmt.Errorf("applying %s: %w", title(it), err)
		}
		out.Changed = append(out.Changed, title(it))
		out.Reboot = out.Reboot || reboot
	}
	return out, nil
}

func (s *itemStep) drifted(ctx context.Context) ([]item, error) {
	var out []item
	for _, it := range s.items {
		why, err := it.check(ctx)
		if err != nil {
			return nil, fmt.Errorf("checking %s: %w", title(it), err)
		}
		if why != "" {
			out = append(out, it)
		}
	}
	return out, ctx.Err()
}

// claim records the items that are not owned yet.
func (b *bench) claim(ctx context.Context, items []item) error {
	var records []Owned
	for _, it := range items {
		if _, ok := b.ledger.Find(it.id()); ok {
			continue
		}
		o, err := it.claim(ctx)
		if err != nil {
			return fmt.Errorf("claiming %s: %w", title(it), err)
		}
		o.ID = it.id()
		records = append(records, o)
	}
	return b.ledger.Record(records...)
}

// Remove implements Step: in reverse order, going on after a failure.
func (s *itemStep) Remove(ctx context.Context) error {
	var errs []error
	for _, it := range slices.Backward(s.items) {
		if o, ok := s.b.ledger.Find(it.id()); ok {
			errs = append(errs, s.b.release(ctx, o))
		}
	}
	return errors.Join(errs...)
}

// title names an object of a plan for people.
func title(it item) string { return string(it.id().Kind) + " " + it.name() }

// title names a record for people.
func (o Owned) title() string { return string(o.Kind) + " " + o.Name }
