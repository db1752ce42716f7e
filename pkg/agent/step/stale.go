package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Stale returns the steps that take back what is owned and not wanted by p, in the order in which that must happen: the
// reverse of plan.Steps, except that folders come last, after the files that lie in them, and behind them the services that are somebody
// else's, which then start with what was there before. Only Name and Remove of these
// steps have something to do.
func Stale(p plan.Plan, ledger *Ledger, sys system.System, o Options) []Step {
	b := newBench(p, ledger, sys, o)
	var out []Step
	for _, g := range groups(unwanted(p, b.wanted(), ledger.Inventory(), o.Root)) {
		out = append(out, &staleStep{name: g.name, b: b, owned: g.owned})
	}
	return out
}

// wanted returns the ids of all objects of the plan.
func (b *bench) wanted() map[ID]bool {
	out := map[ID]bool{}
	for _, name := range b.plan.Steps() {
		for _, it := range b.items(name) {
			out[it.id()] = true
		}
	}
	return out
}

// unwanted returns the records that p has no use for. Folders above a path of p are of use, and so are those above the
// agent's own root, which go with the agent.
func unwanted(p plan.Plan, wanted map[ID]bool, inv Inventory, root string) []Owned {
	above := map[string]bool{}
	for _, path := range append(paths(p), root) {
		for _, a := range disk.Ancestors(path) {
			above[disk.Key(a)] = true
		}
	}
	var out []Owned
	for _, o := range inv {
		if wanted[o.ID] || o.Kind == KindDirectory && above[o.Key] {
			continue
		}
		out = append(out, o)
	}
	return out
}

func paths(p plan.Plan) []string {
	var out []string
	for _, s := range p.Secrets {
		out = append(out, s.Path)
	}
	for _, d := range p.Directories {
		out = append(out, d.Path)
	}
	for _, f := range p.Files {
		out = append(out, f.Path)
	}
	return out
}

type group struct {
	name  string
	owned []Owned
}

// groups sorts records into steps in the order of removal.
func groups(records Inventory) []group {
	var out, used []group
	for _, s := range slices.Backward(records.Of(KindService)) {
		g := group{plan.ServiceStep(s.Name), []Owned{s}}
		if s.Use {
			used = append(used, g)
		} else {
			out = append(out, g)
		}
	}
	for _, k := range []struct {
		name string
		kind Kind
	}{
		{plan.StepRoutes, KindRoute},
		{plan.StepNetwork, KindNetwork},
		{plan.StepFirewall, KindFirewall},
		{plan.StepCertificates, KindCertificate},
		{plan.StepFiles, KindFile},
		{plan.StepDefender, KindDefender},
		{plan.StepFeatures, KindFeature},
		{plan.StepEnvironment, KindEnv},
		{plan.StepCredentials, KindSecret},
		{plan.StepDirectories, KindDirectory},
	} {
		owned := records.Of(k.kind)
		slices.Reverse(owned)
		if k.kind == KindNetwork {
			// What lies in a network goes before it.
			owned = slices.Concat(records.Of(KindRemotes), records.Of(KindEndpoint), owned)
		}
		if k.kind == KindDirectory {
			// What lies deeper goes first.
			slices.SortStableFunc(owned, func(a, b Owned) int { return cmp.Compare(len(b.Key), len(a.Key)) })
		}
		if len(owned) > 0 {
			out = append(out, group{k.name, owned})
		}
	}
	return append(out, used...)
}

// staleStep takes back records that no plan item stands for.
type staleStep struct {
	name  string
	b     *bench
	owned []Owned
}

// Name implements Step.
func (s *staleStep) Name() string { return s.name }

// Check implements Step: everything that is still owned is a difference.
func (s *staleStep) Check(context.Context) (Drift, error) {
	var drift Drift
	for _, o := range s.owned {
		if _, ok := s.b.ledger.Find(o.ID); ok {
			drift = append(drift, fmt.Sprintf("%s: not in the plan", o.title()))
		}
	}
	return drift, nil
}

// Apply implements Step by Remove.
func (s *staleStep) Apply(ctx context.Context) (Outcome, error) { return Outcome{}, s.Remove(ctx) }

// Remove implements Step, going on after a failure.
func (s *staleStep) Remove(ctx context.Context) error {
	var errs []error
	for _, o := range s.owned {
		errs = append(errs, s.b.release(ctx, o))
	}
	return errors.Join(errs...)
}

// release takes back one object and forgets it.
func (b *bench) release(ctx context.Context, o Owned) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.undo(ctx, o); err != nil {
		return fmt.Errorf("removing %s: %w", o.title(), err)
	}
	return b.ledger.Forget(o.ID)
}

func (b *bench) undo(ctx context.Context, o Owned) error {
	undo, ok := map[Kind]func(context.Context, Owned) error{
		KindSecret:      b.undoFile,
		KindFile:        b.undoFile,
		KindEnv:         b.undoEnv,
		KindFeature:     func(context.Context, Owned) error { return nil },
		KindDirectory:   b.undoFolder,
		KindCertificate: b.undoCertificate,
		KindFirewall:    b.undoFirewall,
		KindDefender:    b.undoDefender,
		KindNetwork:     b.undoNetwork,
		KindEndpoint:    b.undoEndpoint,
		KindRemotes:     b.undoRemotes,
		KindRoute:       b.undoRoute,
		KindService:     b.undoService,
	}[o.Kind]
	if !ok {
		// A newer agent may have claimed kinds that this one does not know; they stay until it is back.
		return fmt.Errorf("kind %q: %w", o.Kind, system.ErrUnsupported)
	}
	return undo(ctx, o)
}

// Folder returns the record of a folder that the agent made for itself, before there was a plan.
func Folder(path string) Owned {
	return Owned{ID: newID(KindDirectory, disk.Key(path)), Name: path}
}

// FolderBefore returns the record of a folder that was there, with its class, and that the agent is about to change.
func FolderBefore(path string, access plan.Access) Owned {
	o := Folder(path)
	o.Existed, o.Access = true, access
	return o
}
