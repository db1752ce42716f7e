//go:build !windows

package main

import (
	"context"

	"github.com/windowsmachine/operator/cmd/wmcb/command"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

// start runs the command on a simulated machine that lives in memory for as long as the command does: good for the help texts and to
// try formats, never for a real machine.
func start(ctx context.Context, args []string, env command.Env) (int, error) {
	const exe = `C:\Windows\wmcb\wmcb.exe`
	env.Note = "This build works on a simulated Windows machine in memory, which ends with the command."
	service := func(ctx context.Context, p *fake.Process) int {
		s, ok := p.Service()
		if !ok {
			return command.ExitUsage
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-s.Stopping():
				cancel()
			case <-ctx.Done():
			}
		}()
		s.Running()
		return command.Run(ctx, p.Args(), command.Env{System: p.System(), Version: env.Version, Controls: s.Controls()})
	}
	m := fake.New(fake.Options{Executable: exe, Programs: map[string]fake.Program{"wmcb.exe": service}})
	defer m.Close()
	if err := m.WriteFile(exe, []byte("wmcb")); err != nil {
		return command.ExitFailed, err
	}
	env.System = m.System()
	return command.Run(ctx, args, env), nil
}
