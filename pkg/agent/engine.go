package agent

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

// engine is the one that runs: it holds run.lock and is the only writer of journal and state.
type engine struct {
	a       *Agent
	journal *journal
	st      state
	release func() error
}

// openEngine secures the agent's folder and takes the run lock. During an update the old service may hold it for a moment longer.
func (a *Agent) openEngine(ctx context.Context) (*engine, error) {
	if err := a.secureRoot(ctx); err != nil {
		return nil, err
	}
	release, err := a.takeRunLock(ctx)
	if err != nil {
		return nil, err
	}
	e := &engine{a: a, release: release}
	if err := e.open(ctx); err != nil {
		return nil, errors.Join(err, release())
	}
	return e, nil
}

func (e *engine) open(ctx context.Context) error {
	var err error
	if e.st, err = e.a.loadState(); err != nil {
		return err
	}
	if e.journal, err = e.a.openJournal(); err != nil {
		return err
	}
	e.a.fillReserve(ctx)
	return nil
}

// runLockTries and runLockPause bound the wait for another engine to end: 60 s, the time that stopping a service may take.
const (
	runLockTries = 120
	runLockPause = 500 * time.Millisecond
)

func (a *Agent) takeRunLock(ctx context.Context) (func() error, error) {
	for n := 0; ; n++ {
		release, err := a.lock(runLockFile)
		if !errors.Is(err, ErrBusy) || n == runLockTries {
			return release, err
		}
		if err := a.sys.Clock.Sleep(ctx, runLockPause); err != nil {
			return nil, err
		}
	}
}

func (e *engine) close() error { return e.release() }

// result is how a run ended.
type result struct {
	phase plan.Phase
	// err is why, when phase is PhaseFailed or the run was superseded or stopped.
	err error
}

// run is one pass over the plan.
type run struct {
	e   *engine
	rec accepted
	// why is the reason for the journal.
	why string
	// quiet runs write to the journal only once they have something to say: repairs and retries.
	quiet, spoke bool
	index, total int
	started      time.Time
}

// runOnce does one pass over the accepted plan. A quiet one writes nothing when the machine is in sync.
func (e *engine) runOnce(ctx context.Context, why string, quiet bool) result {
	rec, had, err := e.a.loadAccepted()
	if err != nil {
		return result{plan.PhaseFailed, err}
	}
	if !had {
		return result{phase: plan.PhaseIdle}
	}
	r := &run{e: e, rec: rec, why: why, quiet: quiet}
	if err := r.takeUp(); err != nil {
		return result{plan.PhaseFailed, err}
	}
	return r.finish(r.do(ctx))
}

// takeUp notes an acceptance that is new to the engine: first in the journal, then in the state, so that a report never takes the end
// of an older run for that of this one.
func (r *run) takeUp() error {
	if r.rec.Accept == r.e.st.Accept {
		return nil
	}
	r.quiet = false
	if err := r.note(plan.Entry{Code: CodeAccepted}); err != nil {
		return err
	}
	st := r.e.st
	st.Accept = r.rec.Accept
	return r.e.save(st)
}

func (e *engine) save(st state) error {
	if err := e.a.saveState(st); err != nil {
		return err
	}
	e.st = st
	return nil
}

// errReboot ends a run at a step that needs a reboot.
var errReboot = errors.New("reboot needed")

// do brings the machine into sync.
func (r *run) do(ctx context.Context) error {
	p, err := r.rec.plan()
	if err != nil {
		return err
	}
	if err := r.e.a.sweep(ctx); err != nil {
		return err
	}
	secrets, err := r.e.a.loadPending(r.rec.Accept)
	if err != nil {
		return err
	}
	opts := step.Options{Root: plan.AgentRoot, Secrets: secrets, Timing: r.e.a.timing}
	stale, steps := r.steps(p, opts)
	r.total = len(stale) + len(steps)
	if !r.quiet {
		if err := r.speak(); err != nil {
			return err
		}
	}
	if err := r.each(ctx, stale, r.remove); err != nil {
		return err
	}
	if err := r.joined(); err != nil {
		return err
	}
	if err := r.each(ctx, steps, r.apply); err != nil {
		return err
	}
	return r.done(ctx, p)
}

func (r *run) steps(p plan.Plan, opts step.Options) (stale, steps []step.Step) {
	keep := p
	if r.rec.Join != r.e.st.Joined {
		keep = plan.Empty()
	}
	ledger := step.NewLedger(r.e.st.Inventory, func(inv step.Inventory) error {
		st := r.e.st
		st.Inventory = inv
		return r.e.save(st)
	})
	return step.Stale(keep, ledger, r.e.a.sys, opts), step.Build(p, ledger, r.e.a.sys, opts)
}

// each runs f over steps and stops at a newer acceptance.
func (r *run) each(ctx context.Context, steps []step.Step, f func(context.Context, step.Step) error) error {
	for _, s := range steps {
		r.index++
		r.started = r.e.a.sys.Clock.Now()
		accept, err := r.e.a.currentAccept()
		if err != nil {
			return stepError{s.Name(), err}
		}
		if accept != r.rec.Accept {
			return stepError{s.Name(), ErrSuperseded}
		}
		if err := f(ctx, s); err != nil {
			return stepError{s.Name(), err}
		}
	}
	return nil
}

// stepError is an error with the step that it ended.
type stepError struct {
	step string
	err  error
}

func (e stepError) Error() string { return e.err.Error() }
func (e stepError) Unwrap() error { return e.err }

func (r *run) remove(ctx context.Context, s step.Step) error {
	if err := r.say(plan.Entry{Step: s.Name(), Code: CodeStepStarted}); err != nil {
		return err
	}
	if err := s.Remove(ctx); err != nil {
		return err
	}
	return r.say(plan.Entry{Step: s.Name(), Code: CodeStepRemoved, Millis: r.millis()})
}

func (r *run) apply(ctx context.Context, s step.Step) error {
	if !r.quiet || r.spoke {
		if err := r.say(plan.Entry{Step: s.Name(), Code: CodeStepStarted}); err != nil {
			return err
		}
	}
	drift, err := s.Check(ctx)
	if err != nil {
		return err
	}
	if drift.InSync() {
		if r.quiet && !r.spoke {
			return nil
		}
		return r.say(plan.Entry{Step: s.Name(), Code: CodeStepInSync, Millis: r.millis()})
	}
	if r.quiet && !r.spoke {
		if err := r.say(plan.Entry{Step: s.Name(), Code: CodeStepStarted}); err != nil {
			return err
		}
	}
	return r.change(ctx, s)
}

// change applies a step that is out of sync and looks again.
func (r *run) change(ctx context.Context, s step.Step) error {
	out, err := s.Apply(ctx)
	if err != nil {
		return err
	}
	if out.Reboot {
		return r.reboot(s)
	}
	drift, err := s.Check(ctx)
	if err != nil {
		return err
	}
	if !drift.InSync() {
		return fmt.Errorf("%w: %s", ErrStillDrifted, strings.Join(drift, "; "))
	}
	return r.say(plan.Entry{
		Step: s.Name(), Code: CodeStepApplied, Detail: strings.Join(out.Changed, ", "), Millis: r.millis(),
	})
}

// reboot is why the run ends at a step that asks for a reboot. The report asks the operator for one, so a reboot that did not help must not be
// asked for again.
func (r *run) reboot(s step.Step) error {
	entries, err := readJournal(r.e.a.sys.Files)
	if err != nil {
		return err
	}
	if rebootedFor(entries, r.rec.Digest, s.Name(), r.e.journal.boot) {
		return ErrRebootRepeated
	}
	return errReboot
}

func (r *run) millis() int64 { return r.e.a.sys.Clock.Now().Sub(r.started).Milliseconds() }

// joined notes that what was made for the former host is gone.
func (r *run) joined() error {
	if r.rec.Join == r.e.st.Joined {
		return nil
	}
	st := r.e.st
	st.Joined = r.rec.Join
	return r.e.save(st)
}

// done ends a run in sync: secrets are in place and dropped, blobs of plans before the last one are deleted.
func (r *run) done(ctx context.Context, p plan.Plan) error {
	if err := r.e.a.dropPending(r.rec.Accept); err != nil {
		return err
	}
	if r.e.st.Synced != r.rec.Digest {
		st := r.e.st
		st.Synced, st.Previous, st.Blobs = r.rec.Digest, st.Blobs, p.Blobs()
		if err := r.e.save(st); err != nil {
			return err
		}
	}
	if err := r.noteRouter(p); err != nil {
		return err
	}
	if err := r.e.a.collect(ctx, r.e.st); err != nil {
		return err
	}
	last := r.e.journal.last
	if r.quiet && !r.spoke && last.Code == CodeRunDone && last.Digest == r.rec.Digest && last.Generation == r.rec.Generation {
		return nil
	}
	r.index = 0
	return r.say(plan.Entry{Code: CodeRunDone})
}

// noteRouter keeps the address of the overlay's router, which HNS gives anew with each network, for the reports. A network that does not tell has none.
func (r *run) noteRouter(p plan.Plan) error {
	mac := ""
	if i := slices.IndexFunc(p.Networks, func(n plan.Network) bool { return n.Type == plan.NetworkOverlay }); i >= 0 {
		mac, _ = r.e.a.sys.Networks.DRMAC(p.Networks[i].Name)
	}
	if mac == r.e.st.DRMAC {
		return nil
	}
	st := r.e.st
	st.DRMAC = mac
	return r.e.save(st)
}

// finish turns the error of a run into its result and its last entry.
func (r *run) finish(err error) result {
	var at stepError
	e := plan.Entry{Millis: 0}
	if errors.As(err, &at) {
		e.Step, e.Millis = at.step, r.millis()
	}
	phase := plan.PhaseFailed
	switch {
	case err == nil:
		return result{phase: plan.PhaseInSync}
	case errors.Is(err, context.Canceled):
		// The agent is being stopped or killed; the next run starts over.
		return result{plan.PhaseRunning, err}
	case errors.Is(err, errReboot):
		phase, e.Code, e.Detail, err = plan.PhaseRebootNeeded, CodeRebootNeeded, "the step is complete after a reboot", nil
	case errors.Is(err, ErrSuperseded):
		phase, e.Code = plan.PhaseRunning, CodeSuperseded
	default:
		e.Code, e.Detail = CodeOf(err), err.Error()
	}
	if nerr := r.say(e); nerr != nil {
		return result{plan.PhaseFailed, errors.Join(err, nerr)}
	}
	return result{phase, err}
}

// speak begins the run in the journal, once.
func (r *run) speak() error {
	if r.spoke {
		return nil
	}
	r.spoke = true
	return r.note(plan.Entry{Code: CodeRunStarted, Detail: r.why})
}

// say writes an entry with the place of the present step.
func (r *run) say(e plan.Entry) error {
	if err := r.speak(); err != nil {
		return err
	}
	if e.Step != "" {
		e.Index = r.index
	}
	return r.note(e)
}

func (r *run) note(e plan.Entry) error {
	e.Generation, e.Digest, e.Total = r.rec.Generation, r.rec.Digest, r.total
	return r.e.journal.add(e)
}
