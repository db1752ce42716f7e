package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Env is what a run of wmcb sees of the world.
type Env struct {
	// System is the machine.
	System system.System
	// Version is the agent's own version, printed by `wmcb version` and in every report.
	Version string
	// Stdin is read by apply, receive and `facts --json` only; nil is an empty input.
	Stdin io.Reader
	// Stdout and Stderr take the output; nil discards it.
	Stdout, Stderr io.Writer
	// Controls are the user control codes (128 to 255) that arrive when the program runs as a service.
	Controls <-chan uint32
	// Note is printed by `wmcb version` and the help text, for example that the machine is a simulated one.
	Note string
	// Timing bounds the waits of steps; zero fields have their defaults.
	Timing step.Timing
	// Serve is what `wmcb serve` runs a command with; nil is Run. A simulated machine watches commands come and go with it.
	Serve func(ctx context.Context, args []string, env Env) int
}

// command is what serve runs a command with.
func (e Env) command() func(context.Context, []string, Env) int {
	if e.Serve != nil {
		return e.Serve
	}
	return Run
}

// Exit codes of wmcb.
const (
	// ExitOK: in sync, or what was asked for is done.
	ExitOK = 0
	// ExitFailed: a step failed or the machine said no; the last line of output has the code.
	ExitFailed = 1
	// ExitUsage: unknown command or flag, or input that is not what the command reads.
	ExitUsage = 2
	// ExitReboot: the machine must be rebooted before the run can go on.
	ExitReboot = 3
	// ExitPlanTooNew: this agent is too old for the plan.
	ExitPlanTooNew = 4
	// ExitBusy: another wmcb holds the lock.
	ExitBusy = 5
)

// exitOf returns the exit code for an error of the agent.
func exitOf(err error) int {
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, agent.ErrBusy):
		return ExitBusy
	case errors.Is(err, plan.ErrTooNew):
		return ExitPlanTooNew
	case errors.Is(err, plan.ErrMalformed):
		return ExitUsage
	}
	return ExitFailed
}

// exitOfPhase returns the exit code for the end of a run.
func exitOfPhase(p plan.Phase) int {
	switch p {
	case plan.PhaseFailed:
		return ExitFailed
	case plan.PhaseRebootNeeded:
		return ExitReboot
	case plan.PhaseIdle, plan.PhaseRunning, plan.PhaseInSync:
	}
	return ExitOK
}

// exit ends a command that has already said all there is to say.
type exit int

// Error implements error.
func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// program is one run of wmcb.
type program struct {
	env   Env
	agent *agent.Agent
	json  bool
	beat  beat
	// noted is the last progress that was printed for people.
	noted string
}

// Run runs wmcb with the arguments behind the program's name until it ends or ctx does, and returns the exit code.
func Run(ctx context.Context, args []string, env Env) int {
	if env.Stdout == nil {
		env.Stdout = io.Discard
	}
	if env.Stderr == nil {
		env.Stderr = io.Discard
	}
	if env.Stdin == nil {
		env.Stdin = eof{}
	}
	p := &program{env: env, agent: agent.New(agent.Options{System: env.System, Version: env.Version, Timing: env.Timing})}
	root := p.root()
	// A nil slice would make cobra take the arguments of the process.
	root.SetArgs(append([]string{}, args...))
	err := root.ExecuteContext(ctx)
	var code exit
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintf(env.Stderr, "Error: %s\nRun 'wmcb --help' for usage.\n", agent.Detail(err.Error()))
	return ExitUsage
}

// run makes a command's function of f. Cobra's own errors are about usage; whatever else goes wrong is a failure.
func (p *program) run(f func(context.Context) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		err := f(c.Context())
		var code exit
		if err == nil || errors.As(err, &code) {
			return err
		}
		fmt.Fprintln(p.env.Stderr, agent.Detail(err.Error()))
		return exit(exitOf(err))
	}
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

func (p *program) root() *cobra.Command {
	c := &cobra.Command{
		Use:   "wmcb",
		Short: "Make this Windows machine a node of a Kubernetes cluster and keep it one",
		Long: `wmcb makes this Windows machine what a plan says: files, services, network, firewall. The operator runs it over SSH; everything it
does can also be done by hand. What it has made it can take back: 'wmcb remove' leaves the machine as it was.

Exit codes: 0 in sync or done, 1 failed, 2 usage, 3 reboot needed, 4 plan too new for this wmcb, 5 another wmcb is at work.
` + p.env.Note,
		Example: `  wmcb preflight                 what stands in the way of making this machine a node
  wmcb status                    how far it is
  wmcb status --follow           watch a run
  wmcb remove                    take everything back`,
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_ = c.Help()
			return exit(ExitUsage)
		},
	}
	c.SetIn(p.env.Stdin)
	c.SetOut(p.env.Stdout)
	c.SetErr(p.env.Stderr)
	c.PersistentFlags().BoolVar(&p.json, "json", false, "print JSON lines in ASCII")
	c.AddCommand(p.facts(), p.preflight(), p.receive(), p.apply(), p.status(), p.remove(), p.version(), p.serve(), p.service(),
		p.initializeKubelet(), p.configureCNI(), p.uninstallKubelet(), p.support())
	return c
}
