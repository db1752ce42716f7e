package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/windowsmachine/operator/pkg/console"
)

func (p *program) serve() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run commands that come on standard input, one after the other",
		Long: `Run commands that come on standard input, one after the other, until it ends: each with its own input, its output on standard output and a line
that says how it ended. So the operator needs one channel for all that it asks of a machine. Run by the operator; the format is described in
docs/formats.md.`,
		Example: `  wmcb serve < requests`,
		Args:    cobra.NoArgs,
		RunE: p.run(func(ctx context.Context) error {
			return console.Serve(ctx, p.env.Stdin, p.env.Stdout, func(ctx context.Context, c console.Command) (int, error) {
				env := p.env
				env.Stdin, env.Stdout, env.Stderr = c.Stdin, c.Stdout, c.Stderr
				return p.env.command()(ctx, c.Args, env), nil
			})
		}),
	}
}
