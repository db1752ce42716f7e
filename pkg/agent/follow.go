package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

const (
	// followPoll is how often the journal is looked at.
	followPoll = 200 * time.Millisecond
	// followDead is how long the agent's service may be stopped before its run is given up: longer than the pauses after
	// which the service manager starts it again.
	followDead = 45 * time.Second
	// followAbsent is how long it may not be there at all: longer than a command takes to make it once it has stored a plan. A command that is
	// killed between the two leaves a plan that nobody takes up.
	followAbsent = 5 * time.Second
)

// Follow hands the report to emit after each journal entry of the run that the receipt's acceptance starts, until that run has
// ended: in sync, failed once, waiting for a reboot, or ErrSuperseded by a newer acceptance. It returns the last report. An
// error of emit ends it; the run goes on without.
func (a *Agent) Follow(ctx context.Context, r Receipt, emit func(plan.Report) error) (plan.Report, error) {
	f := follower{a: a, seen: r.seq, emit: emit, last: r.Report}
	err := f.until(ctx)
	return f.last, err
}

// FollowNow hands over a report for each entry that the newest run has written so far, and then one after each new entry while it is
// under way. So a watcher whose connection was cut, as it is while a network is made, misses nothing.
func (a *Agent) FollowNow(ctx context.Context, emit func(plan.Report) error) (plan.Report, error) {
	s, err := a.look()
	if err != nil {
		return plan.Report{}, err
	}
	for i := s.newestRun(); i < len(s.entries); i++ {
		if err := emit(derive(s, s.entries[:i])); err != nil {
			return plan.Report{}, err
		}
	}
	now := derive(s, s.entries)
	if err := emit(now); err != nil || now.Phase != plan.PhaseRunning {
		return now, err
	}
	f := follower{a: a, seen: now.Seq, emit: emit, last: now, began: true}
	err = f.until(ctx)
	return f.last, err
}

// newestRun is how many entries there were when the newest run of the accepted plan had begun, all when none has.
func (s sight) newestRun() int {
	for i := len(s.entries) - 1; i >= 0; i-- {
		e := s.entries[i]
		if e.Digest != s.rec.Digest || e.Generation != s.rec.Generation {
			break
		}
		if e.Code == CodeRunStarted {
			return i + 1
		}
	}
	return len(s.entries)
}

type follower struct {
	a    *Agent
	seen int64
	// began is whether the run that is followed has been taken up.
	began bool
	emit  func(plan.Report) error
	last  plan.Report
	sizes [2]int64
	// stopped is since when the agent's service has been seen stopped or absent, zero while it is neither.
	stopped time.Time
}

func (f *follower) until(ctx context.Context) error {
	for {
		done, err := f.pass()
		if err != nil || done {
			return err
		}
		if err := f.alive(); err != nil {
			return err
		}
		if err := f.a.sys.Clock.Sleep(ctx, followPoll); err != nil {
			return err
		}
	}
}

// alive gives up on a service that stays stopped, or absent: nobody will carry the plan out. Who sent it has to hand it over again.
func (f *follower) alive() error {
	_, exists, st, err := f.a.agentService()
	if err != nil {
		return err
	}
	now := f.a.sys.Clock.Now()
	switch {
	case exists && st.State != system.ServiceStopped:
		f.stopped = time.Time{}
	case f.stopped.IsZero():
		f.stopped = now
	case exists && now.Sub(f.stopped) > followDead:
		return fmt.Errorf("%w: service %s, exit code %d: %w", ErrAgentStopped, plan.AgentService, st.ExitCode, step.ErrServiceExited)
	case !exists && now.Sub(f.stopped) > followAbsent:
		return fmt.Errorf("%w: service %s: %w", ErrAgentStopped, plan.AgentService, system.ErrServiceNotFound)
	}
	return nil
}

// pass looks at what is new.
func (f *follower) pass() (done bool, err error) {
	sizes := journalSizes(f.a.sys.Files)
	if sizes == f.sizes {
		return false, nil
	}
	s, err := f.a.look()
	if err != nil {
		return false, err
	}
	f.sizes = sizes
	for i, e := range s.entries {
		if e.Seq <= f.seen {
			continue
		}
		f.seen = e.Seq
		if done, err := f.entry(s, s.entries[:i+1]); err != nil || done {
			return done, err
		}
	}
	return false, nil
}

// entry handles one new entry, the last of entries.
func (f *follower) entry(s sight, entries []plan.Entry) (done bool, err error) {
	e := entries[len(entries)-1]
	if s.rec.Digest != f.last.Digest || s.rec.Generation != f.last.Generation {
		return false, fmt.Errorf("%w: generation %d", ErrSuperseded, s.rec.Generation)
	}
	if e.Digest != s.rec.Digest || e.Generation != s.rec.Generation {
		// The end of the run before.
		return false, nil
	}
	f.began = f.began || e.Code == CodeAccepted
	if !f.began {
		return false, nil
	}
	// The entry itself shows that its acceptance was taken up, whatever the state file said when it was read.
	s.begun = s.rec.Accept
	f.last = derive(s, entries)
	if err := f.emit(f.last); err != nil {
		return false, err
	}
	return f.last.Phase != plan.PhaseRunning, nil
}
