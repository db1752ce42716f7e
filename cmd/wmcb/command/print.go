package command

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/plan"
)

// line prints v as one line of JSON.
func (p *program) line(v any) error {
	b, err := agent.ASCIIJSON(v)
	if err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	if len(b) > plan.MaxReport {
		return fmt.Errorf("%w: the output has %d bytes, at most %d", plan.ErrTooLarge, len(b), plan.MaxReport)
	}
	if _, err := p.env.Stdout.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// report prints a report: a line of JSON, or a line for people.
func (p *program) report(r plan.Report) error {
	if p.json {
		p.beat.mu.Lock()
		defer p.beat.mu.Unlock()
		return p.say(r)
	}
	if _, err := fmt.Fprintln(p.env.Stdout, sentence(r)); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// say prints a report as a line of JSON; beat.mu is held.
func (p *program) say(r plan.Report) error {
	p.beat.last, p.beat.at = &r, p.env.System.Clock.Now()
	return p.line(r)
}

// sentence says in one line where a run stands.
func sentence(r plan.Report) string {
	var b strings.Builder
	b.WriteString(string(r.Phase))
	if r.Step != "" {
		fmt.Fprintf(&b, " %d/%d %s", r.Index, r.Total, r.Step)
	}
	if r.Code != "" {
		fmt.Fprintf(&b, ": %s", r.Code)
	}
	if r.Detail != "" {
		fmt.Fprintf(&b, ": %s", r.Detail)
	}
	return b.String()
}

// fail says why a command ended, as a report with the failure's code, and returns its exit code. The refused envelope, if there is one,
// names the plan that the report speaks of.
func (p *program) fail(err error, refused *plan.Envelope) error {
	r, rerr := p.agent.Report()
	if rerr != nil {
		r = plan.Report{APIVersion: plan.ReportVersion, AgentVersion: p.env.Version}
	}
	if refused != nil {
		r.Host, r.Generation, r.Digest = refused.Host, refused.Generation, refused.Plan.Digest()
		r.Step, r.Index, r.Total = "", 0, len(refused.Plan.Steps())
	}
	r.Phase, r.Code, r.Detail = plan.PhaseFailed, agent.CodeOf(err), agent.Detail(err.Error())
	// When nobody reads the output any more the exit code is all that is left.
	_ = p.report(r)
	return exit(exitOf(err))
}

// table prints rows of a name and a value; empty values are left out.
func (p *program) table(rows [][2]string) error {
	w := tabwriter.NewWriter(p.env.Stdout, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		if r[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", r[0], agent.Detail(r[1]))
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}
