package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/windowsmachine/operator/test/bench"
	"github.com/windowsmachine/operator/test/machineapi"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o bench.Options
	var timeout time.Duration
	c := &cobra.Command{
		Use: "bench", Short: "Measure what configuring simulated machines costs",
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			machineapi.SetLogger(logr.Discard())
			ctx, cancel := context.WithTimeout(c.Context(), timeout)
			defer cancel()
			o.Logf = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
			r, err := bench.Run(ctx, o)
			// What was measured until then is of use after an error, too.
			return errors.Join(err, r.Write(os.Stdout))
		},
	}
	c.Flags().BoolVar(&o.Quick, "quick", false, "a short run with fewer machines")
	c.Flags().StringVar(&o.Only, "only", "", "run one of reactions, real, crowd, idle")
	c.Flags().StringVar(&o.Operator, "operator", "out/windows-machine-operator", "the operator's program")
	c.Flags().StringVar(&o.Agent, "agent", "out/wmcb.exe", "the agent for Windows")
	c.Flags().StringVar(&o.Local, "local-agent", "out/wmcb", "the agent for this system, to see what starting it costs")
	c.Flags().StringVar(&o.Measure, "measure", "", "the program of test/wine/measure; without it wmcb.exe is not started")
	c.Flags().DurationVar(&timeout, "timeout", 15*time.Minute, "give up after")
	return c
}
