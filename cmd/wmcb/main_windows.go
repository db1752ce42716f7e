package main

import (
	"context"
	"fmt"

	"golang.org/x/sys/windows/svc"

	"github.com/windowsmachine/operator/cmd/wmcb/command"
	"github.com/windowsmachine/operator/pkg/agent/system/windows"
	"github.com/windowsmachine/operator/pkg/plan"
)

// start runs the command on this machine, under the service manager when it was started by it.
func start(ctx context.Context, args []string, env command.Env) (int, error) {
	sys, err := windows.New()
	if err != nil {
		return command.ExitFailed, fmt.Errorf("looking at this machine: %w", err)
	}
	env.System = sys
	service, err := svc.IsWindowsService()
	if err != nil {
		return command.ExitFailed, fmt.Errorf("asking who started this program: %w", err)
	}
	if !service {
		return command.Run(ctx, args, env), nil
	}
	h := &handler{ctx: ctx, args: args, env: env}
	if err := svc.Run(plan.AgentService, h); err != nil {
		return command.ExitFailed, fmt.Errorf("running as a service: %w", err)
	}
	return h.exit, nil
}

// firstUserControl is where the codes begin that a service may give a meaning to (ControlService, "128 to 255").
const firstUserControl = 128

// handler answers the service manager.
type handler struct {
	ctx  context.Context
	args []string
	env  command.Env
	exit int
}

// Execute implements svc.Handler. The service counts as running at once: what it does may take longer than the 30 s that the
// service manager waits, and says in the journal how far it is.
func (h *handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	// One waiting code is enough: it says "look", not what at.
	controls := make(chan uint32, 1)
	h.env.Controls = controls
	done := make(chan int, 1)
	go func() { done <- command.Run(ctx, h.args, h.env) }()
	const accepts = svc.AcceptStop | svc.AcceptShutdown
	status <- svc.Status{State: svc.Running, Accepts: accepts}
	for {
		select {
		case h.exit = <-done:
			return false, uint32(h.exit)
		case r := <-requests:
			switch {
			case r.Cmd == svc.Interrogate:
				status <- r.CurrentStatus
			case r.Cmd == svc.Stop, r.Cmd == svc.Shutdown:
				status <- svc.Status{State: svc.StopPending}
				cancel()
			case r.Cmd >= firstUserControl:
				select {
				case controls <- uint32(r.Cmd):
				default:
				}
			}
		}
	}
}
