package agent

import (
	"context"
	"errors"
	"time"

	"github.com/windowsmachine/operator/pkg/plan"
)

// ControlApply is the user control code that tells the service to look at plan.json now.
const ControlApply = 128

// Pauses of the loop.
const (
	// repairAfter is the pause between looks for drift, spread by a tenth either way; settleAfter the one after a run that changed
	// something, since a service that starts well may end soon after.
	repairAfter = 10 * time.Minute
	settleAfter = 30 * time.Second
	// retryFirst doubles after each failure up to retryLast.
	retryFirst = 5 * time.Second
	retryLast  = 5 * time.Minute
	// glance is how often plan.json is looked at, in case a control code was lost.
	glance = 5 * time.Second
)

// Run does one run over the accepted plan and returns the report after it.
func (a *Agent) Run(ctx context.Context) (plan.Report, error) {
	e, err := a.openEngine(ctx)
	if err != nil {
		return plan.Report{}, err
	}
	res := e.runOnce(ctx, "asked for", false)
	if err := e.close(); err != nil {
		return plan.Report{}, err
	}
	if res.phase == plan.PhaseRunning {
		return plan.Report{}, res.err
	}
	return a.Report()
}

// Loop is the service: it runs at once, then whenever controls delivers ControlApply or plan.json has changed, after a pause to
// repair drift, and again with growing pauses after a failure. It never reboots, and ends with ctx only. While it cannot
// work at all, since its folder cannot be secured or another engine runs, it tries again and hands the error to trouble.
func (a *Agent) Loop(ctx context.Context, controls <-chan uint32, trouble func(error)) error {
	err := a.serve(ctx, controls, trouble)
	if ctx.Err() != nil {
		// Told to stop: whatever was under way is done again at the next start.
		err = nil
	}
	return err
}

func (a *Agent) serve(ctx context.Context, controls <-chan uint32, trouble func(error)) error {
	for failures := 1; ; failures++ {
		e, err := a.openEngine(ctx)
		if err == nil {
			err = e.loop(ctx, controls)
			return errors.Join(err, e.close())
		}
		trouble(err)
		if _, err := a.doze(ctx, retry(failures), controls); err != nil {
			return err
		}
	}
}

func (e *engine) loop(ctx context.Context, controls <-chan uint32) error {
	why, quiet, failures := "the agent started", false, 0
	for ctx.Err() == nil {
		before := e.journal.last.Seq
		res := e.runOnce(ctx, why, quiet)
		failures = nextFailures(failures, res)
		woken, err := e.rest(ctx, pause(res, failures, e.journal.last.Seq != before, e.a.random()), controls)
		if err != nil {
			return err
		}
		why, quiet = reason(woken, failures), !woken
		if woken {
			failures = 0
		}
	}
	return ctx.Err()
}

func nextFailures(failures int, res result) int {
	if res.phase == plan.PhaseFailed {
		return failures + 1
	}
	return 0
}

func reason(woken bool, failures int) string {
	switch {
	case woken:
		return "a plan was stored"
	case failures > 0:
		return "trying again"
	}
	return "looking for drift"
}

// pause returns how long to rest after a run, and a negative number for ever: what only a reboot or a new plan can change is not
// looked at again.
func pause(res result, failures int, spoke bool, random float64) time.Duration {
	switch res.phase {
	case plan.PhaseRunning:
		return 0
	case plan.PhaseFailed:
		return spread(retry(failures), random)
	case plan.PhaseRebootNeeded:
		return -1
	case plan.PhaseIdle, plan.PhaseInSync:
	}
	if spoke {
		return settleAfter
	}
	return spread(repairAfter, random)
}

func retry(failures int) time.Duration {
	d := retryFirst
	for n := 1; n < failures && d < retryLast; n++ {
		d *= 2
	}
	return min(d, retryLast)
}

// spread moves d by up to a tenth, so that a hundred machines that were started together do not stay together.
func spread(d time.Duration, random float64) time.Duration {
	return d + time.Duration((random*2-1)*float64(d)/10)
}

// rest waits until d has passed or there is a plan to take up, which it reports.
func (e *engine) rest(ctx context.Context, d time.Duration, controls <-chan uint32) (woken bool, err error) {
	for d != 0 {
		slice := glance
		if d > 0 {
			slice = min(d, glance)
			d -= slice
		}
		kicked, err := e.a.doze(ctx, slice, controls)
		if err != nil {
			return false, err
		}
		if kicked || e.news() {
			return true, nil
		}
	}
	return e.news(), ctx.Err()
}

// news reports whether an acceptance waits. A file that cannot be read is no news: the next run says so.
func (e *engine) news() bool {
	accept, err := e.a.currentAccept()
	return err == nil && accept != 0 && accept != e.st.Accept
}

// doze sleeps for d by the machine's clock; ControlApply ends it.
func (a *Agent) doze(ctx context.Context, d time.Duration, controls <-chan uint32) (kicked bool, err error) {
	sleepCtx, wake := context.WithCancel(ctx)
	defer wake()
	slept := make(chan error, 1)
	go func() { slept <- a.sys.Clock.Sleep(sleepCtx, d) }()
	for {
		select {
		case c, open := <-controls:
			if !open {
				controls = nil
			}
			if c == ControlApply {
				kicked = true
				wake()
			}
		case err := <-slept:
			if kicked {
				// Woken, which Sleep calls an error.
				err = ctx.Err()
			}
			return kicked, err
		}
	}
}
