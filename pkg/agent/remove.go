package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Remove takes the agent and all that it made off the machine: it stores the empty plan, has the service carry it out, handing reports to
// emit, deletes the service and then the agent's folder. The executable that runs stays; whoever started it deletes it. Killed
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
	if err := a.unsettle(ctx); err != nil {
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

// removingFile says that C:\k is the agent's own and has to go, while nothing inside of it is left to say so. Only administrators write into
// C:\Windows.
const removingFile = plan.AgentBin + ".removing"

// dropRoot deletes the agent's folder, and the folder above when the agent made it and nothing else is in it. The state, which says so,
// goes last.
func (a *Agent) dropRoot(ctx context.Context) error {
	st, err := a.loadState()
	if err != nil {
		return err
	}
	list, err := a.sys.Files.ReadDir(plan.AgentRoot)
	if errors.Is(err, system.ErrNotExist) {
		return a.dropInstallDir()
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
	if err := a.giveInstallDirBack(ctx, st); err != nil {
		return err
	}
	if err := disk.RemoveAll(ctx, a.sys.Files, plan.AgentRoot); err != nil {
		return err
	}
	return a.dropInstallDir()
}

// giveInstallDirBack notes that C:\k is to be deleted, or gives one that was there its class back.
func (a *Agent) giveInstallDirBack(ctx context.Context, st state) error {
	if step.OwnsFolder(st.Inventory, plan.InstallDir) {
		return disk.Write(ctx, a.sys.Files, removingFile, plan.AccessSecret, strings.NewReader(""), "")
	}
	was := step.FolderAccess(st.Inventory, plan.InstallDir)
	if was == "" {
		return nil
	}
	if err := a.sys.Files.SetAccess(plan.InstallDir, was); err != nil {
		return fmt.Errorf("giving %s its access list back: %w", plan.InstallDir, err)
	}
	return nil
}

// dropInstallDir ends a removal, also one that was killed before.
func (a *Agent) dropInstallDir() error {
	noted, err := disk.Exists(a.sys.Files, removingFile)
	if err != nil || !noted {
		return err
	}
	if err := a.removeEmpty(plan.InstallDir); err != nil {
		return err
	}
	if err := a.sys.Files.Remove(removingFile); err != nil {
		return fmt.Errorf("ending the removal: %w", err)
	}
	return nil
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
