package host

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/transport"
)

// Exit codes of wmcb.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitReboot = 3
	exitTooNew = 4
	exitBusy   = 5
)

// Codes of a Refusal that stand in when the agent gives none.
const (
	// CodeAgentFailed: the agent failed and did not say why.
	CodeAgentFailed = "AgentFailed"
	// CodeAgentUsage: the agent does not know the command or a flag.
	CodeAgentUsage = "AgentUsage"
	// CodeAgentRebootNeeded: the machine must be rebooted before the agent can go on, and it gave no report.
	CodeAgentRebootNeeded = "RebootNeeded"
	// CodeAgentTooOld: the plan needs a newer agent.
	CodeAgentTooOld = "PlanTooNew"
	// CodeAgentBusy: another run holds the agent's lock.
	CodeAgentBusy = "Busy"
	// CodeAgentSilent: the program ended without one line of the agent's; the machine may not let it run.
	CodeAgentSilent = "AgentDidNotRun"
	// CodeAgentDigest: the agent's file on the machine has not the bytes that were sent, twice.
	CodeAgentDigest = "AgentDigestMismatch"
	// CodeRebootRefused: shutdown.exe failed.
	CodeRebootRefused = "RebootRefused"
)

// call is a run of the agent.
type call struct {
	args  []string
	stdin io.Reader
	// total bounds its output, in bytes.
	total int64
	// take gets each of the agent's lines that is no Refusal.
	take func(answer)
}

// result is what came of a call that ran.
type result struct {
	exit    int
	refusal *Refusal
	// last is the newest report that it printed.
	last *plan.Report
	// answered is whether any line was the agent's.
	answered bool
	stderr   string
}

// call runs a command of the agent.
func (s *Session) call(ctx context.Context, c transport.Conn, k call) (result, error) {
	var r result
	done, err := s.console(c).run(ctx, k, plan.MaxReport, func(line []byte) {
		a, ok := parseAnswer(line)
		if !ok {
			return
		}
		r.answered = true
		switch {
		case a.refusal != nil:
			r.refusal = a.refusal
			return
		case a.report != nil:
			r.last = a.report
		}
		k.take(a)
	})
	r.exit, r.stderr = done.Exit, done.Stderr
	return r, err
}

// verdict turns a result into the verb's error: nil for success, and for a report that asks for a reboot, since that is an answer.
func (r result) verdict() error {
	switch {
	case r.exit == exitDone:
		return nil
	case r.exit == exitReboot && r.last != nil && r.last.Phase == plan.PhaseRebootNeeded:
		return nil
	case r.refusal != nil:
		return r.refusal
	case !r.answered:
		return &Refusal{Code: CodeAgentSilent, Detail: clean(fmt.Sprintf("exit code %d: %s", r.exit, r.stderr))}
	case r.last != nil && r.last.Code != "":
		return &Refusal{Code: r.last.Code, Detail: r.last.Detail}
	}
	return &Refusal{Code: codeOf(r.exit), Detail: clean(fmt.Sprintf("exit code %d: %s", r.exit, r.stderr))}
}

func codeOf(exit int) string {
	switch exit {
	case exitUsage:
		return CodeAgentUsage
	case exitReboot:
		return CodeAgentRebootNeeded
	case exitTooNew:
		return CodeAgentTooOld
	case exitBusy:
		return CodeAgentBusy
	}
	return CodeAgentFailed
}

// withAgent runs once, and once more after putting the agent there when the first try shows that it may be missing. So a verb on
// a new connection costs no channel to look for it.
func (s *Session) withAgent(ctx context.Context, c transport.Conn, once func() error) error {
	err := once()
	if silent(err) && !s.hasAgent() {
		if err := s.putAgent(ctx, c); err != nil {
			return err
		}
		err = once()
	}
	if silent(err) && s.mayReplace() {
		if err := s.removeAgent(ctx, c); err != nil {
			return err
		}
		if err := s.putAgent(ctx, c); err != nil {
			return err
		}
		return once()
	}
	return err
}

// mayReplace reports whether a file that is there and does not run may be put there anew: a power cut leaves a file of the right size with zeros
// in it. Once in a row, since a machine whose policy forbids the program would be sent it without end.
func (s *Session) mayReplace() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	may := !s.replaced
	s.replaced = true
	return may
}

// removeAgent takes the agent's file away, so that the next put sends it. Windows does not delete a program that runs.
func (s *Session) removeAgent(ctx context.Context, c transport.Conn) error {
	if err := s.leave(ctx); err != nil {
		return err
	}
	if err := c.RemoveAll(ctx, s.agentPath()); err != nil {
		return err
	}
	s.setAgent(c, false)
	return nil
}

func silent(err error) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Code == CodeAgentSilent
}

func (s *Session) agentPath() string { return plan.AgentPath(s.pool.cfg.Agent.Digest) }
