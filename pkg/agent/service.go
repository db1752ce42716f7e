package agent

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// serviceConfig is the service that runs Loop with the executable exe. The service manager starts it again when it ends on its own.
func serviceConfig(exe string) system.ServiceConfig {
	return system.ServiceConfig{
		Name: plan.AgentService, DisplayName: "Windows Machine Operator agent",
		Description: "Keeps this machine as its Kubernetes cluster wants it.",
		Exe:         exe, Args: []string{"service"},
		Recovery: &plan.Recovery{RestartDelaySeconds: []int{1, 5, 30}, ResetSeconds: 600},
	}
}

// digestDigits is how many digits of its digest an agent's folder has as its name.
const digestDigits = 16

// serviceMove is what has to happen to the agent's service so that it takes up a plan.
type serviceMove int

const (
	// moveCreate: make it and start it.
	moveCreate serviceMove = iota
	// moveReplace: stop it, point it to this executable, start it.
	moveReplace
	// moveStart: start it.
	moveStart
	// moveWake: it runs; send the control code.
	moveWake
)

// decideService chooses the move from what the service manager knows.
func decideService(exists bool, have, want system.ServiceConfig, state system.ServiceState) serviceMove {
	switch {
	case !exists:
		return moveCreate
	case step.ConfigDrift(have, want) != "":
		return moveReplace
	case state == system.ServiceRunning:
		return moveWake
	}
	return moveStart
}

// EnsureService makes the service of this executable run and look at plan.json: it creates it, points it to this executable when
// it ran another version of the agent, starts it, or wakes it. Of agents that it ran earlier the one before this stays.
func (a *Agent) EnsureService(ctx context.Context) error {
	if err := a.ensureService(ctx); err != nil {
		return fmt.Errorf("service %s: %w", plan.AgentService, err)
	}
	return nil
}

func (a *Agent) ensureService(ctx context.Context) error {
	exe, err := a.settle(ctx)
	if err != nil {
		return err
	}
	want := serviceConfig(exe)
	have, exists, st, err := a.agentService()
	if err != nil {
		return err
	}
	m := step.NewManager(a.sys, a.timing)
	move := decideService(exists, have, want, st.State)
	if move == moveWake {
		err := a.sys.Services.Control(want.Name, ControlApply)
		if !errors.Is(err, system.ErrServiceNotActive) {
			return err
		}
	}
	if err := a.configure(ctx, m, move, want); err != nil {
		return err
	}
	if err := a.startAgent(ctx, m); err != nil {
		return err
	}
	if move == moveReplace {
		a.dropAgents(ctx, exe, have.Exe)
	}
	return nil
}

// dropAgents deletes the agents that neither runs nor ran before this one, so that updates do not fill the disk. It is a courtesy: what a
// process still runs or somebody holds open stays until the next update, and a service that is up is no failure.
func (a *Agent) dropAgents(ctx context.Context, runs, before string) {
	list, err := a.sys.Files.ReadDir(plan.AgentBin)
	if err != nil {
		return
	}
	for _, folder := range outdated(list, runs, before) {
		_ = disk.RemoveAll(ctx, a.sys.Files, folder)
	}
}

// outdated returns the folders of agents in list, which is that of plan.AgentBin. There are none to delete unless an agent in that folder has
// taken the place of another.
func outdated(list []system.Info, runs, before string) []string {
	if !disk.Below(plan.AgentBin, runs) || disk.Same(runs, before) {
		return nil
	}
	var out []string
	for _, e := range list {
		if e.Dir && agentFolder(e.Path) && !disk.Below(e.Path, runs) && !disk.Below(e.Path, before) {
			out = append(out, e.Path)
		}
	}
	return out
}

// agentFolder reports whether path has a name as plan.AgentPath makes them, the beginning of a digest.
func agentFolder(path string) bool {
	name := path[strings.LastIndexByte(path, '\\')+1:]
	_, err := hex.DecodeString(name)
	return err == nil && len(name) == digestDigits
}

// configure makes the service, or points it to this executable.
func (a *Agent) configure(ctx context.Context, m step.Manager, move serviceMove, want system.ServiceConfig) error {
	switch move {
	case moveCreate:
		return m.Create(ctx, want)
	case moveReplace:
		if err := m.Stop(ctx, want.Name); err != nil {
			return err
		}
		return a.sys.Services.Update(want)
	case moveStart, moveWake:
	}
	return nil
}

const (
	// startTries and startPause: a service that ends right after its start is started again, as the service manager does by
	// itself a second later.
	startTries = 3
	startPause = 2 * time.Second
)

func (a *Agent) startAgent(ctx context.Context, m step.Manager) error {
	for n := 1; ; n++ {
		err := m.Start(ctx, plan.AgentService)
		if !errors.Is(err, step.ErrServiceExited) || n == startTries {
			return err
		}
		if err := a.sys.Clock.Sleep(ctx, startPause); err != nil {
			return err
		}
	}
}

// agentService asks for the agent's service. One that is marked for deletion counts as absent.
func (a *Agent) agentService() (have system.ServiceConfig, exists bool, st system.ServiceStatus, err error) {
	have, err = a.sys.Services.Config(plan.AgentService)
	if err == nil {
		st, err = a.sys.Services.Status(plan.AgentService)
	}
	if errors.Is(err, system.ErrServiceNotFound) || errors.Is(err, system.ErrServiceMarked) {
		return system.ServiceConfig{}, false, system.ServiceStatus{}, nil
	}
	return have, err == nil, st, err
}
