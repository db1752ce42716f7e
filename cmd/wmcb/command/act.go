package command

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/plan"
)

func (p *program) receive() *cobra.Command {
	return &cobra.Command{
		Use:   "receive",
		Short: "Take in payload blobs on standard input",
		Long: `Take in payload blobs: one line of JSON on standard input offers them, one line on standard output says which are needed, then those follow
as frames, and a last line says what was stored. Blobs that are here already are not sent again, so that a cut transfer goes on where it
stopped. Run by the operator; the formats are described in docs/formats.md.`,
		Example: `  wmcb receive < offer-and-frames`,
		Args:    cobra.NoArgs,
		RunE: p.run(func(ctx context.Context) error {
			if err := p.agent.Receive(ctx, p.env.Stdin, p.env.Stdout); err != nil {
				fmt.Fprintln(p.env.Stderr, agent.Detail(err.Error()))
				return exit(exitOf(err))
			}
			return nil
		}),
	}
}

func (p *program) apply() *cobra.Command {
	var file, only string
	var follow, dry bool
	c := &cobra.Command{
		Use:   "apply",
		Short: "Hand over a plan and watch it being carried out",
		Long: `Read an envelope (a plan with its secrets) from standard input or a file, store it, and have the service wmcb carry it out; the service is
made when it is not there. Then print how far it is until the run has ended. The run does not depend on this command: it goes on when the
connection drops or the command is ended, and 'wmcb status --follow' watches it again.

With --only the plan is one part of the machine's: what other parts made stays. 'wmcb initialize-kubelet' and 'wmcb configure-cni' own the parts
kubelet and network. Host and generation of such an envelope do not count. An empty plan takes the part away.`,
		Example: `  wmcb apply --json < envelope.json
  wmcb apply --file C:\envelope.json --follow=false
  wmcb apply --file C:\envelope.json --only tools --dry-run`,
		Args: cobra.NoArgs,
		RunE: p.run(p.watched(func(ctx context.Context) error {
			e, err := p.envelope(file)
			if err != nil {
				return p.fail(err, nil)
			}
			if dry {
				return p.previewed(ctx, e, only)
			}
			return p.applied(ctx, e, only, follow)
		})),
	}
	c.Flags().StringVar(&file, "file", "", "read the envelope from this file")
	c.Flags().BoolVar(&follow, "follow", true, "go on until the run has ended")
	c.Flags().StringVar(&only, "only", "", "name of the part of the machine's plan that this plan is")
	c.Flags().BoolVar(&dry, "dry-run", false, "print what would change and change nothing")
	return c
}

// previewed prints what applied would do.
func (p *program) previewed(ctx context.Context, e plan.Envelope, only string) error {
	var list []step.Difference
	var err error
	if only == "" {
		list, err = p.agent.Preview(ctx, e)
	} else {
		list, err = p.agent.PreviewPart(ctx, partOf(e, only))
	}
	if err != nil {
		return p.fail(err, &e)
	}
	return p.differences(list)
}

func partOf(e plan.Envelope, name string) agent.Part {
	return agent.Part{Name: name, Plan: e.Plan, Secrets: e.Secrets}
}

func (p *program) envelope(file string) (plan.Envelope, error) {
	in := p.env.Stdin
	if file != "" {
		f, err := p.env.System.Files.Open(file)
		if err != nil {
			return plan.Envelope{}, fmt.Errorf("opening the envelope: %w", err)
		}
		defer f.Close()
		in = io.Reader(f)
	}
	return plan.ParseEnvelope(in)
}

func (p *program) accept(ctx context.Context, e plan.Envelope, only string) (agent.Receipt, error) {
	if only == "" {
		return p.agent.Accept(ctx, e)
	}
	return p.agent.AcceptPart(ctx, partOf(e, only))
}

func (p *program) applied(ctx context.Context, e plan.Envelope, only string, follow bool) error {
	receipt, err := p.accept(ctx, e, only)
	if err != nil {
		return p.fail(err, &e)
	}
	if err := p.report(receipt.Report); err != nil {
		return p.fail(err, &e)
	}
	if err := p.agent.EnsureService(ctx); err != nil {
		return p.fail(err, &e)
	}
	if !follow {
		return nil
	}
	r, err := p.agent.Follow(ctx, receipt, p.report)
	if err != nil {
		return p.fail(err, &e)
	}
	return ended(r)
}

func (p *program) remove() *cobra.Command {
	var claim plan.Claim
	c := &cobra.Command{
		Use:   "remove",
		Short: "Take back everything that wmcb made on this machine",
		Long: `Take back everything that wmcb made on this machine, then its service and its folder. What was there before is put back: files, variables,
rules. Windows features stay enabled. The program file itself stays. The command may be repeated until it succeeds.

The operator says with --host and --order on whose behalf it asks: a machine that is another WindowsHost's, or has carried out a later request, refuses.`,
		Example: `  wmcb remove`,
		Args:    cobra.NoArgs,
		RunE: p.run(p.watched(func(ctx context.Context) error {
			if err := claim.Check(); err != nil {
				return p.fail(err, nil)
			}
			r, err := p.agent.Remove(ctx, claim, p.report)
			if err != nil {
				return p.fail(err, nil)
			}
			if r.Phase == plan.PhaseIdle {
				if err := p.report(r); err != nil {
					return p.fail(err, nil)
				}
			}
			return ended(r)
		})),
	}
	c.Flags().StringVar(&claim.Host, "host", "", "remove only what the WindowsHost of this UID has made (default: whatever there is)")
	c.Flags().Int64Var(&claim.Order, "order", 0, "order of the request, in milliseconds since 1970 or a little more")
	return c
}

func (p *program) service() *cobra.Command {
	return &cobra.Command{
		Use:   "service",
		Short: "Keep the machine as the accepted plan says; run by the service manager",
		Long: `Keep the machine as the accepted plan says, until it is told to stop: at start, when a plan is handed over, and every ten minutes. Run by the
service manager as the service wmcb; 'wmcb apply' makes that service.`,
		Example: `  wmcb service`,
		Args:    cobra.NoArgs,
		RunE: p.run(func(ctx context.Context) error {
			trouble := func(err error) { fmt.Fprintln(p.env.Stderr, agent.Detail(err.Error())) }
			if err := p.agent.Loop(ctx, p.env.Controls, trouble); err != nil {
				trouble(err)
				return exit(exitOf(err))
			}
			return nil
		}),
	}
}
