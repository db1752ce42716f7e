package windows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/plan"
)

// exercise is one plan, and what is looked at while it is applied.
type exercise struct {
	subject string
	// possible says why it cannot run here, "" when it can; nil is always.
	possible func(*bench) (why string, err error)
	plan     func(context.Context, *bench) (plan.Plan, error)
	// also are looked at while the plan is applied, each a subject of its own.
	also []check
	// after looks at the machine once all is taken back; nil looks at nothing more than the steps do.
	after func(context.Context, *bench) error
	// lasting is whether nothing is taken back, and whether a reboot may be asked for.
	lasting bool
}

// check is a question to a machine on which a plan is applied.
type check struct {
	subject string
	run     func(context.Context, *bench) error
}

var (
	errInSync    = errors.New("in sync before anything was done")
	errDrift     = errors.New("not in sync after it was applied")
	errRepeated  = errors.New("applied again, it changed something")
	errLeft      = errors.New("in sync after it was taken back")
	errOwned     = errors.New("something is still recorded as made")
	errNotRun    = errors.New("not looked at, since the plan could not be applied")
	errNoReports = errors.New("the machine cannot say which it is")
)

// Run does all exercises, one after the other, and reports. An error means that nothing was done.
func Run(ctx context.Context, m Machine) (Report, error) {
	build, ubr, err := m.System.Machine.Version()
	if err != nil {
		return Report{}, fmt.Errorf("%w: %w", errNoReports, err)
	}
	r := Report{
		APIVersion: ReportVersion, Platform: m.Platform, PlatformVersion: m.PlatformVersion, Build: fmt.Sprintf("%d.%d", build, ubr),
		Started: m.System.Clock.Now().UTC().Truncate(time.Second),
	}
	if err := m.prepare(ctx); err != nil {
		return Report{}, err
	}
	r.Results = append(r.Results, m.facts())
	for _, e := range exercises() {
		r.Results = append(r.Results, m.do(ctx, e)...)
	}
	slices.SortStableFunc(r.Results, func(a, b Result) int {
		return slices.Index(Subjects(), a.Step) - slices.Index(Subjects(), b.Step)
	})
	return r, m.clean(ctx)
}

// do runs one exercise, with one result for it and one for each of its checks.
func (m Machine) do(ctx context.Context, e exercise) []Result {
	b := &bench{Machine: m, opts: step.Options{Root: agentRoot}}
	b.ledger = step.NewLedger(nil, func(step.Inventory) error { return nil })
	m.Logf("=== %s", e.subject)
	began := m.System.Clock.Now()
	main := Result{Step: e.subject}
	out := []Result{main}
	why, err := b.canDo(e)
	if err != nil || why != "" {
		out[0] = main.ended(why, err)
		for _, c := range e.also {
			out = append(out, Result{Step: c.subject}.ended(why, err))
		}
		return m.told(out, began)
	}
	applied, err := b.apply(ctx, e)
	main.Changed = applied.changed
	for _, c := range e.also {
		cerr := errNotRun
		if err == nil {
			cerr = c.run(ctx, b)
		}
		out = append(out, Result{Step: c.subject}.ended("", cerr))
	}
	if !e.lasting {
		uerr := b.undo(ctx, applied.steps)
		if e.after != nil {
			uerr = errors.Join(uerr, e.after(ctx, b))
		}
		main.Undone = uerr == nil
		err = errors.Join(err, uerr)
	}
	out[0] = main.ended("", err)
	return m.told(out, began)
}

// canDo says why an exercise is not done, "" when it is.
func (b *bench) canDo(e exercise) (string, error) {
	if len(b.Only) > 0 && !slices.Contains(b.Only, e.subject) {
		return "left out by -only", nil
	}
	if e.possible == nil {
		return "", nil
	}
	return e.possible(b)
}

// ended fills in what came of it.
func (r Result) ended(why string, err error) Result {
	switch {
	case err != nil:
		r.Outcome, r.Why = Failed, err.Error()
	case why != "":
		r.Outcome, r.Why = NotRun, why
	default:
		r.Outcome = Passed
	}
	return r
}

// told says what came of an exercise and how long it took.
func (m Machine) told(results []Result, began time.Time) []Result {
	results[0].Seconds = float64(m.System.Clock.Now().Sub(began).Milliseconds()) / 1000
	for _, r := range results {
		m.Logf("%-8s %s %s", r.Outcome, r.Step, r.Why)
		if len(r.Changed) > 0 {
			m.Logf("         changed: %s; taken back: %v", strings.Join(r.Changed, ", "), r.Undone)
		}
	}
	return results
}

// applied is what apply did.
type applied struct {
	steps   []step.Step
	changed []string
}

// apply brings the plan about: out of sync at first, in sync afterwards, and a second time without a change.
func (b *bench) apply(ctx context.Context, e exercise) (applied, error) {
	p, err := e.plan(ctx, b)
	if err != nil {
		return applied{}, err
	}
	a := applied{steps: step.Build(p, b.ledger, b.System, b.opts)}
	var drifted, reboot bool
	for _, s := range a.steps {
		drift, err := s.Check(ctx)
		if err != nil {
			return a, err
		}
		drifted = drifted || !drift.InSync()
		out, err := s.Apply(ctx)
		a.changed, reboot = append(a.changed, out.Changed...), reboot || out.Reboot
		if err != nil {
			return a, err
		}
	}
	if !drifted {
		return a, errInSync
	}
	if e.lasting && reboot {
		b.Logf("the machine must be rebooted before the step is in sync")
		return a, nil
	}
	return a, b.settled(ctx, a.steps)
}

// settled: everything is in sync, and applying it again changes nothing.
func (b *bench) settled(ctx context.Context, steps []step.Step) error {
	for _, s := range steps {
		drift, err := s.Check(ctx)
		if err != nil {
			return err
		}
		if !drift.InSync() {
			return fmt.Errorf("%w: %s", errDrift, strings.Join(drift, "; "))
		}
		out, err := s.Apply(ctx)
		if err != nil {
			return err
		}
		if len(out.Changed) > 0 {
			return fmt.Errorf("%w: %s", errRepeated, strings.Join(out.Changed, ", "))
		}
	}
	return nil
}

// undo takes everything back, in reverse order, going on after a failure.
func (b *bench) undo(ctx context.Context, steps []step.Step) error {
	var errs []error
	for _, s := range slices.Backward(steps) {
		if err := s.Remove(ctx); err != nil {
			errs = append(errs, fmt.Errorf("taking back %s: %w", s.Name(), err))
		}
	}
	// Folders that were made on the way to a file belong to no step of the plan; the empty plan takes them.
	for _, s := range step.Stale(plan.Empty(), b.ledger, b.System, b.opts) {
		if err := s.Remove(ctx); err != nil {
			errs = append(errs, fmt.Errorf("taking back %s: %w", s.Name(), err))
		}
	}
	for _, s := range steps {
		drift, err := s.Check(ctx)
		switch {
		case err != nil:
			errs = append(errs, err)
		case drift.InSync():
			errs = append(errs, fmt.Errorf("%s: %w", s.Name(), errLeft))
		}
	}
	if inv := b.ledger.Inventory(); len(inv) > 0 {
		errs = append(errs, fmt.Errorf("%w: %s %s", errOwned, inv[0].Kind, inv[0].Name))
	}
	return errors.Join(errs...)
}
