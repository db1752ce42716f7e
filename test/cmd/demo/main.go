package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/windowsmachine/operator/test/bed"
	"github.com/windowsmachine/operator/test/machineapi"
)

type options struct {
	replicas        int
	keep            bool
	scale           float64
	operator, agent string
	timeout         time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use: "demo", Short: "Show a Windows MachineSet become Ready nodes on simulated machines",
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), o) },
	}
	c.Flags().IntVar(&o.replicas, "replicas", 3, "machines of the MachineSet")
	c.Flags().BoolVar(&o.keep, "keep", false, "leave everything up until interrupted")
	c.Flags().Float64Var(&o.scale, "scale", 0.02, "size of the stand-in payload, 1 for real sizes")
	c.Flags().StringVar(&o.operator, "operator", "out/windows-machine-operator", "the operator's program")
	c.Flags().StringVar(&o.agent, "agent", "out/wmcb.exe", "the agent for Windows")
	c.Flags().DurationVar(&o.timeout, "timeout", 10*time.Minute, "give up after")
	return c
}

func run(ctx context.Context, o options) (err error) {
	if o.replicas < 1 {
		return fmt.Errorf("--replicas %d: there must be at least one machine", o.replicas)
	}
	machineapi.SetLogger(logr.Discard())
	d := &demo{options: o, began: time.Now()}
	bounded, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	d.say("starting a control plane, the Machine API controllers and the operator")
	d.bed, err = bed.Start(bounded, bed.Options{
		Agent: o.agent, Operator: o.operator, Scale: o.scale, PodCIDR: "10.244.0.0/16", MachineAPI: true, Logf: d.say,
	})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := d.bed.Close(); err == nil {
			err = cerr
		}
	}()
	if err := d.show(bounded); err != nil {
		return fmt.Errorf("%w\nthe operator's last words:\n%s", err, d.lastWords())
	}
	if o.keep {
		return d.wait(ctx)
	}
	return nil
}
