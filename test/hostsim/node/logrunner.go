package node

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

// logRunner is kube-log-runner: it runs the program behind its own flags, with the output in a file. The child speaks to the service
// manager itself. A log file that cannot be opened, or a program that cannot be started, ends it with 1.
func logRunner(ctx context.Context, p *fake.Process) int {
	set := flag.NewFlagSet("kube-log-runner", flag.ContinueOnError)
	set.SetOutput(p.Stderr())
	logFile := set.String("log-file", "", "")
	set.String("log-file-size", "0", "")
	set.Duration("log-file-age", 0, "")
	set.Duration("flush-interval", 0, "")
	set.Bool("also-stdout", false, "")
	set.Bool("redirect-stderr", true, "")
	if err := set.Parse(p.Args()); err != nil {
		return 2
	}
	if set.NArg() == 0 {
		return fail(p, fmt.Errorf("no program to run"))
	}
	out := p.Stdout()
	if *logFile != "" {
		h, err := openLog(p, *logFile)
		if err != nil {
			return fail(p, err)
		}
		out = h
	}
	child, err := p.StartProcess(windowsPath(set.Arg(0)), set.Args()[1:], fake.Streams{Stdin: p.Stdin(), Stdout: out, Stderr: out})
	if err != nil {
		return fail(p, err)
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
	}
	return child.Wait()
}

func fail(p *fake.Process, err error) int {
	_, _ = io.WriteString(p.Stderr(), "Error: "+err.Error()+"\n")
	return 1
}
