package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windowsmachine/operator/pkg/plan"
)

func (p *program) support() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "support",
		Short: "Write a zip archive for whoever looks into a problem, without secrets",
		Long: `Write a zip archive with what somebody needs who looks into a problem: facts, journal, plan and state of the agent, services, configurations, the
ends of logs. Files that only administrators may read are left out, and what is in them, and what looks like a secret, is taken out of everything else.
Look through the archive before you give it away all the same. The last line of standard output is its path. With '--out -' the archive itself goes
to standard output.`,
		Example: `  wmcb support
  wmcb support --out C:\Windows\Temp\support.zip
  ssh administrator@192.0.2.10 C:\wmcb.exe support --out - > support.zip`,
		Args: cobra.NoArgs,
		RunE: p.run(func(ctx context.Context) error {
			if out == "-" {
				return p.agent.Support(ctx, p.env.Stdout)
			}
			path, err := p.supportFile(ctx, windowsPath(out))
			if err != nil {
				return p.failed(err)
			}
			return p.lastLine(path)
		}),
	}
	c.Flags().StringVar(&out, "out", "", `where to write it, "-" for standard output (default: in C:\Windows\Temp, with the time in its name)`)
	return c
}

// supportFile writes the archive. A file that could not be written whole is taken away again.
func (p *program) supportFile(ctx context.Context, path string) (string, error) {
	if path == "" {
		path = `C:\Windows\Temp\wmcb-support-` + p.env.System.Clock.Now().UTC().Format("20060102T150405Z") + ".zip"
	}
	if err := absolute(path); err != nil {
		return "", err
	}
	f, err := p.env.System.Files.Create(path, plan.AccessSecret)
	if err != nil {
		return "", fmt.Errorf("making %s: %w", path, err)
	}
	if err := errors.Join(p.agent.Support(ctx, f), f.Close()); err != nil {
		_ = p.env.System.Files.Remove(path)
		return "", fmt.Errorf("writing %s: %w", path, err)
	}
	return path, nil
}
