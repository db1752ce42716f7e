package step

import (
	"context"
	"slices"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Difference is one object in which the machine differs from a plan, for people.
type Difference struct {
	// Step is what would change it.
	Step string          `json:"step"`
	Kind plan.ChangeKind `json:"kind"`
	// Object is its kind and Name its name or path.
	Object Kind   `json:"object"`
	Name   string `json:"name"`
	// Why says in a few words how it differs.
	Why string `json:"why,omitempty"`
	// Minus and Plus are the arguments of a service that would go and come.
	Minus []string `json:"minus,omitempty"`
	Plus  []string `json:"plus,omitempty"`
}

// Differences compares the machine with p in the order of a run: what would be taken back, then what would be made or changed. It changes
// nothing.
func Differences(ctx context.Context, p plan.Plan, ledger *Ledger, sys system.System, o Options) ([]Difference, error) {
	b := newBench(p, ledger, sys, o)
	var out []Difference
	for _, g := range groups(unwanted(p, b.wanted(), ledger.Inventory(), o.Root)) {
		for _, own := range g.owned {
			out = append(out, taken(g.name, own))
		}
	}
	for _, name := range p.Steps() {
		for _, it := range b.items(name) {
			d, err := b.difference(ctx, name, it)
			if err != nil {
				return nil, err
			}
			if d.Kind != "" {
				out = append(out, d)
			}
		}
	}
	return out, nil
}

// taken is what becomes of a record that no plan has a use for.
func taken(step string, o Owned) Difference {
	d := Difference{Step: step, Kind: plan.ChangeRemove, Object: o.Kind, Name: o.Name}
	switch {
	case o.Use:
		d.Kind, d.Why = plan.ChangeModify, "is restarted with its former files"
	case o.Existed:
		d.Kind, d.Why = plan.ChangeModify, "what was there before is put back"
	}
	return d
}

func (b *bench) difference(ctx context.Context, step string, it item) (Difference, error) {
	why, err := it.check(ctx)
	if err != nil || why == "" {
		return Difference{}, err
	}
	d := Difference{Step: step, Kind: plan.ChangeModify, Object: it.id().Kind, Name: it.name(), Why: why}
	if why == "missing" || why == "not set" {
		d.Kind, d.Why = plan.ChangeAdd, ""
	}
	s, ok := it.(serviceItem)
	if !ok {
		return d, nil
	}
	v, err := s.view(ctx)
	d.Minus, d.Plus = argsApart(commandOf(v.have), commandOf(v.want))
	return d, err
}

// commandOf is the program with its arguments, nil for a service that is not there.
func commandOf(c system.ServiceConfig) []string {
	if c.Exe == "" {
		return nil
	}
	return append([]string{c.Exe}, c.Args...)
}

// argsApart returns what only one of the lists holds, each in its order.
func argsApart(have, want []string) (minus, plus []string) {
	only := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
	}
	return only(have, want), only(want, have)
}
