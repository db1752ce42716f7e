package hostsim

import (
	"context"

	"github.com/windowsmachine/operator/cmd/wmcb/command"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

// agentProgram is wmcb.exe: the command of cmd/wmcb over the process's view of the machine. As a service it reports that it runs at
// once, gets the user control codes, and is ended through its context when it is asked to stop. served runs what `wmcb serve` is asked for, and may see
// it come and go.
func agentProgram(version string, served func(ctx context.Context, args []string, env command.Env) int) fake.Program {
	return func(ctx context.Context, p *fake.Process) int {
		env := command.Env{System: p.System(), Version: version, Stdin: p.Stdin(), Stdout: p.Stdout(), Stderr: p.Stderr(), Serve: served}
		service, ok := p.Service()
		if !ok {
			return command.Run(ctx, p.Args(), env)
		}
		service.Running()
		env.Controls = service.Controls()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			select {
			case <-service.Stopping():
				cancel()
			case <-stop:
			}
		}()
		exit := command.Run(ctx, p.Args(), env)
		select {
		case <-service.Stopping():
			return 0
		default:
			return exit
		}
	}
}
