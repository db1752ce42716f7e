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
		RunE: func(c *cobra.Command, _ []string) error { return runMachineSet(c.Context(), o) },
	}
	c.Flags().IntVar(&o.replicas, "replicas", 3, "machines of the MachineSet")
	p := c.PersistentFlags()
	p.BoolVar(&o.keep, "keep", false, "leave everything up until interrupted")
	p.Float64Var(&o.scale, "scale", 0.02, "size of the stand-in payload, 1 for real sizes")
	p.StringVar(&o.operator, "operator", "out/windows-machine-operator", "the operator's program")
	p.StringVar(&o.agent, "agent", "out/wmcb.exe", "the agent for Windows")
	p.DurationVar(&o.timeout, "timeout", 10*time.Minute, "give up after")
	c.AddCommand(&cobra.Command{
		Use: "vanilla", Short: "Show a machine join a cluster that was put together by hand",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runVanilla(c.Context(), o) },
	})
	return c
}

func runMachineSet(ctx context.Context, o options) error {
	if o.replicas < 1 {
		return fmt.Errorf("--replicas %d: there must be at least one machine", o.replicas)
	}
	machineapi.SetLogger(logr.Discard())
	d := &demo{options: o, began: time.Now()}
	d.say("starting a control plane, the Machine API controllers and the operator")
	return d.run(ctx, bed.Options{PodCIDR: "10.244.0.0/16", MachineAPI: true}, d.show)
}

func runVanilla(ctx context.Context, o options) error {
	o.replicas = 1
	d := &vanilla{demo: demo{options: o, began: time.Now()}}
	d.say("starting a control plane as in Kubernetes the Hard Way")
	return d.run(ctx, bed.Options{HardWay: true}, d.show)
}

// run starts a bed and shows something on it.
func (d *demo) run(ctx context.Context, o bed.Options, show func(context.Context) error) (err error) {
	o.Agent, o.Operator, o.Scale, o.Logf = d.agent, d.operator, d.scale, d.say
	bounded, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	if d.bed, err = bed.Start(bounded, o); err != nil {
		return err
	}
	defer func() {
		if cerr := d.bed.Close(); err == nil {
			err = cerr
		}
	}()
	if err := show(bounded); err != nil {
		return fmt.Errorf("%w\nthe operator's last words:\n%s", err, d.lastWords())
	}
	if d.keep {
		return d.wait(ctx)
	}
	return nil
}
