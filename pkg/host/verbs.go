package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/transport"
)

const (
	// shutdownExe restarts the machine: /f closes programs that do not answer, p:4:1 is "planned, application, maintenance".
	shutdownExe = `C:\Windows\System32\shutdown.exe`
	// errShutdownInProgress is ERROR_SHUTDOWN_IN_PROGRESS.
	errShutdownInProgress = 1115

	// The agent's process may live a moment longer than its answer, and Windows does not delete a running program.
	removeTries = 5
	removePause = time.Second
)

// ErrEnvelope: the envelope is larger than the agent accepts.
var ErrEnvelope = fmt.Errorf("envelope is larger than %d bytes", plan.MaxEnvelope)

// facts puts the agent in place and asks it. A file that was torn or changed is replaced once.
func (s *Session) facts(ctx context.Context, c transport.Conn, request plan.FactsRequest) error {
	var f *plan.HostFacts
	err := s.withAgent(ctx, c, func() (err error) {
		f, err = s.askFacts(ctx, c, request)
		return err
	})
	if err != nil {
		return err
	}
	if !s.sameAgent(f) {
		if err := s.removeAgent(ctx, c); err != nil {
			return err
		}
		if f, err = s.askFacts(ctx, c, request); err != nil {
			return err
		}
	}
	if !s.sameAgent(f) {
		return &Refusal{Code: CodeAgentDigest, Detail: "the agent on the machine is not the one that was sent"}
	}
	now := s.pool.cfg.Now()
	s.update(func(p *Snapshot) {
		p.Facts, p.FactsAt = f, now
		p.Report, p.ReportAt = &f.Report, now
	})
	return nil
}

func (s *Session) sameAgent(f *plan.HostFacts) bool {
	return f.AgentDigest == "" || f.AgentDigest == s.pool.cfg.Agent.Digest
}

func (s *Session) askFacts(ctx context.Context, c transport.Conn, request plan.FactsRequest) (*plan.HostFacts, error) {
	if err := s.putAgent(ctx, c); err != nil {
		return nil, err
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encoding the facts request: %w", err)
	}
	var facts *plan.HostFacts
	r, err := s.call(ctx, c, call{
		args: []string{"facts", "--json"}, stdin: bytes.NewReader(body), total: plan.MaxReport + noise,
		take: func(a answer) {
			if a.facts != nil {
				facts = a.facts
			}
		},
	})
	if err != nil {
		return nil, err
	}
	if err := r.verdict(); err != nil {
		return nil, err
	}
	if facts == nil {
		return nil, &Refusal{Code: CodeAgentSilent, Detail: "the agent gave no facts"}
	}
	return facts, nil
}

func (s *Session) apply(ctx context.Context, c transport.Conn, e plan.Envelope) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding the envelope: %w", err)
	}
	if len(body) > plan.MaxEnvelope {
		return ErrEnvelope
	}
	return s.withAgent(ctx, c, func() error { return s.reports(ctx, c, body, "apply", "--json") })
}

func (s *Session) follow(ctx context.Context, c transport.Conn) error {
	return s.withAgent(ctx, c, func() error { return s.reports(ctx, c, nil, "status", "--follow", "--json") })
}

// reports runs the agent and publishes each report that it prints.
//
// The agent says something at least every two seconds. One that is silent for longer is taken for lost: while a network is made the link drops,
// and nobody closes the connection.
func (s *Session) reports(ctx context.Context, c transport.Conn, stdin []byte, args ...string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := s.pool.cfg.Deadlines.silence()
	watch := time.AfterFunc(3*limit, func() {
		cancel(fmt.Errorf("%w: the agent was silent for more than %s", transport.ErrDisconnected, limit))
	})
	defer watch.Stop()
	r, err := s.call(ctx, c, call{args: args, stdin: bytes.NewReader(stdin), total: maxReports, take: func(a answer) {
		watch.Reset(limit)
		if a.report != nil {
			s.publish(a.report)
		}
	}})
	if ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	return r.verdict()
}

// publish shows a report, and tells about it when it says anything new. One from before the newest, which the agent repeats for
// watchers that come late, goes into the trail only.
func (s *Session) publish(r *plan.Report) {
	now := s.pool.cfg.Now()
	s.mu.Lock()
	was := s.snap.Report
	changed := was == nil || !sameReport(*was, *r)
	// A power cut takes entries that were reported and not yet on the disk: in another boot the numbers may begin lower.
	if was == nil || !sameRun(*was, *r) || was.BootID != r.BootID || r.Seq >= was.Seq {
		s.snap.Report, s.snap.ReportAt = r, now
	}
	s.snap.Trail = extend(s.snap.Trail, *r)
	s.mu.Unlock()
	if changed {
		s.notify()
	}
}

// extend adds a report that begins a step or a phase.
func extend(trail []plan.Report, r plan.Report) []plan.Report {
	if n := len(trail); n > 0 {
		last := trail[n-1]
		// A step may follow one of the same name: what an older plan made of a kind is taken away before the newer one's is put there.
		if last.Step == r.Step && last.Index == r.Index && last.Phase == r.Phase && last.Digest == r.Digest {
			return trail
		}
	}
	trail = append(trail, r)
	return trail[max(0, len(trail)-MaxTrail):]
}

// sameRun reports whether both speak of the same plan of the same host.
func sameRun(a, b plan.Report) bool {
	return a.Host == b.Host && a.Digest == b.Digest && a.Generation == b.Generation
}

// sameReport compares all but the time.
func sameReport(a, b plan.Report) bool {
	a.Time, b.Time = time.Time{}, time.Time{}
	return a == b
}

// remove takes off what any earlier agent has made, then the agent itself. The agent is put there first: the one that made it may
// have been another version, and a machine that never had one answers that there is nothing to do.
func (s *Session) remove(ctx context.Context, c transport.Conn, claim plan.Claim) error {
	if err := s.putAgent(ctx, c); err != nil {
		return err
	}
	args := []string{"remove", "--json", "--host", claim.Host, "--order", strconv.FormatInt(claim.Order, 10)}
	if err := s.withAgent(ctx, c, func() error { return s.reports(ctx, c, nil, args...) }); err != nil {
		return err
	}
	if err := s.leave(ctx); err != nil {
		return err
	}
	s.setAgent(c, false)
	for try := 1; ; try++ {
		err := c.RemoveAll(ctx, plan.AgentBin)
		if err == nil || try == removeTries || errors.Is(err, transport.ErrDisconnected) {
			return err
		}
		if err := pause(ctx, removePause); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reboot asks for a restart. The connection is closed, since the machine will not answer on it again.
func (s *Session) reboot(ctx context.Context, c transport.Conn) error {
	var stderr tail
	exit, err := c.Run(ctx, transport.Command{
		Path: shutdownExe, Args: []string{"/r", "/t", "0", "/f", "/d", "p:4:1"}, Stderr: &stderr,
	})
	switch {
	case err != nil && (ctx.Err() != nil || !errors.Is(err, transport.ErrDisconnected)):
		return err
	case err == nil && exit != 0 && exit != errShutdownInProgress:
		return &Refusal{Code: CodeRebootRefused, Detail: clean(fmt.Sprintf("exit code %d: %s", exit, stderr.text()))}
	}
	s.drop(c)
	return nil
}
