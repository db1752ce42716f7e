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
	exe, err := a.sys.Machine.Executable()
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

// Remove takes the agent and all that it made off the machine: it stores the empty plan, has the service carry it out, handing reports to
// emit, deletes the service and then the agent's folder. The executable stays; whoever started it deletes it. Killed
// anywhere, it may be repeated; on a machine without the agent it does nothing.
func (a *Agent) Remove(ctx context.Context, emit func(plan.Report) error) (plan.Report, error) {
	ok, err := a.trusted()
	if err != nil {
		return plan.Report{}, err
	}
	if ok {
		if r, err := a.applyEmpty(ctx, emit); err != nil || r.Phase != plan.PhaseIdle {
			return r, err
		}
	}
	m := step.NewManager(a.sys, a.timing)
	if err := m.Stop(ctx, plan.AgentService); err != nil {
		return plan.Report{}, fmt.Errorf("stopping the agent: %w", err)
	}
	if err := m.Delete(ctx, plan.AgentService); err != nil {
		return plan.Report{}, fmt.Errorf("deleting the agent's service: %w", err)
	}
	if err := a.dropRoot(ctx); err != nil {
		return plan.Report{}, err
	}
	return a.Report()
}

// applyEmpty has the engine take everything back. The host and generation of the accepted plan stay, since this is no plan of the
// operator's.
func (a *Agent) applyEmpty(ctx context.Context, emit func(plan.Report) error) (plan.Report, error) {
	receipt, needed, err := a.acceptEmpty(ctx)
	if err != nil || !needed {
		return plan.Report{Phase: plan.PhaseIdle}, err
	}
	if err := a.EnsureService(ctx); err != nil {
		return plan.Report{}, err
	}
	return a.Follow(ctx, receipt, emit)
}

func (a *Agent) acceptEmpty(ctx context.Context) (Receipt, bool, error) {
	if err := a.secureRoot(ctx); err != nil {
		return Receipt{}, false, err
	}
	release, err := a.lock(lockFile)
	if err != nil {
		return Receipt{}, false, err
	}
	defer func() { _ = release() }()
	prev, had, err := a.loadAccepted()
	if err != nil || !had {
		return Receipt{}, false, err
	}
	e := plan.Envelope{APIVersion: plan.EnvelopeVersion, Host: prev.Host, Generation: prev.Generation, Plan: plan.Empty()}
	r, err := a.store(ctx, next(prev, had, e, true), e)
	return r, true, err
}

// dropRoot deletes the agent's folder, and the folder above when the agent made it and nothing else is in it. The state, which says so,
// goes last.
func (a *Agent) dropRoot(ctx context.Context) error {
	st, err := a.loadState()
	if err != nil {
		return err
	}
	list, err := a.sys.Files.ReadDir(plan.AgentRoot)
	if errors.Is(err, system.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing %s: %w", plan.AgentRoot, err)
	}
	for _, e := range list {
		if disk.Same(e.Path, rooted(stateFile)) {
			continue
		}
		if err := disk.RemoveAll(ctx, a.sys.Files, e.Path); err != nil {
			return err
		}
	}
	if err := disk.RemoveAll(ctx, a.sys.Files, plan.AgentRoot); err != nil {
		return err
	}
	if !step.OwnsFolder(st.Inventory, plan.InstallDir) {
		return nil
	}
	return a.removeEmpty(plan.InstallDir)
}

func (a *Agent) removeEmpty(folder string) error {
	list, err := a.sys.Files.ReadDir(folder)
	if errors.Is(err, system.ErrNotExist) || err == nil && len(list) > 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing %s: %w", folder, err)
	}
	return a.sys.Files.Remove(folder)
}
