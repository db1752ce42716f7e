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
//
// It refuses before anything is changed when the claim names another host than the machine's (ErrHostMismatch), when it comes too late (ErrOrderOld), and
// with ErrBusy while another command writes; it ends with ErrSuperseded when a plan was accepted since. The zero claim is that of a person, who may
// remove whatever there is.
func (a *Agent) Remove(ctx context.Context, c plan.Claim, emit func(plan.Report) error) (plan.Report, error) {
	ok, err := a.trusted()
	if err != nil {
		return plan.Report{}, err
	}
	if !ok {
		// There is no lock to take, and no plan to lose.
		if err := a.dropAgent(ctx); err != nil {
			return plan.Report{}, err
		}
		return a.gone(ctx)
	}
	r, receipt, err := a.applyEmpty(ctx, c, emit)
	if err != nil || r.Phase != plan.PhaseIdle {
		return r, err
	}
	if err := a.dropOwn(ctx, receipt); err != nil {
		return plan.Report{}, err
	}
	return a.gone(ctx)
}

// dropOwn is dropAgent under the lock, so that no plan is accepted meanwhile, and none that was accepted since is lost.
func (a *Agent) dropOwn(ctx context.Context, receipt Receipt) error {
	release, err := a.lock(lockFile)
	if err != nil {
		return err
	}
	accept, err := a.currentAccept()
	switch {
	case err != nil:
	case accept != receipt.accept:
		err = fmt.Errorf("%w: it stays", ErrSuperseded)
	default:
		err = a.dropAgent(ctx)
	}
	return errors.Join(err, release())
}

// dropAgent deletes the agent's service and what is in its folder.
func (a *Agent) dropAgent(ctx context.Context) error {
	m := step.NewManager(a.sys, a.timing)
	if err := m.Stop(ctx, plan.AgentService); err != nil {
		return fmt.Errorf("stopping the agent: %w", err)
	}
	if err := m.Delete(ctx, plan.AgentService); err != nil {
		return fmt.Errorf("deleting the agent's service: %w", err)
	}
	return a.emptyRoot(ctx)
}

// gone deletes what is left when the agent's folder is empty but for its state and the lock.
func (a *Agent) gone(ctx context.Context) (plan.Report, error) {
	if err := a.dropRoot(ctx); err != nil {
		return plan.Report{}, err
	}
	if err := a.unsettle(ctx); err != nil {
		return plan.Report{}, err
	}
	return a.Report()
}

// applyEmpty has the engine take everything back. The host and generation of the accepted plan stay, since this is no plan of the
// operator's. The receipt is the zero one when no plan was accepted.
func (a *Agent) applyEmpty(ctx context.Context, c plan.Claim, emit func(plan.Report) error) (plan.Report, Receipt, error) {
	receipt, needed, err := a.acceptEmpty(ctx, c)
	if err != nil || !needed {
		return plan.Report{Phase: plan.PhaseIdle}, Receipt{}, err
	}
	if err := a.EnsureService(ctx); err != nil {
		return plan.Report{}, Receipt{}, err
	}
	r, err := a.Follow(ctx, receipt, emit)
	return r, receipt, err
}

func (a *Agent) acceptEmpty(ctx context.Context, c plan.Claim) (Receipt, bool, error) {
	if err := a.secureRoot(ctx); err != nil {
		return Receipt{}, false, err
	}
	release, err := a.lock(lockFile)
	if err != nil {
		return Receipt{}, false, err
	}
	defer func() { _ = release() }()
	prev, had, err := a.loadAccepted()
	if err != nil {
		return Receipt{}, false, err
	}
	if err := errors.Join(mayRemove(prev, had, c), a.inOrder(prev, c)); err != nil || !had {
		return Receipt{}, false, err
	}
	e := plan.Envelope{APIVersion: plan.EnvelopeVersion, Host: prev.Host, Generation: prev.Generation, Order: c.Order, Plan: plan.Empty()}
	r, err := a.store(ctx, next(prev, had, e, true), e)
	return r, true, err
}

// mayRemove refuses to take off what the plan of another host has made.
func mayRemove(prev accepted, had bool, c plan.Claim) error {
	if !had || c.Host == "" || c.Host == prev.Host || prev.Digest == plan.Empty().Digest() {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrHostMismatch, prev.Host)
}

// removingFile says that C:\k is the agent's own and has to go, while nothing inside of it is left to say so. Only administrators write into
// C:\Windows.
const removingFile = plan.AgentBin + ".removing"

// emptyRoot deletes what is in the agent's folder but the lock, which is held, and the state, which says whose the folder above is.
func (a *Agent) emptyRoot(ctx context.Context) error {
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
		if disk.Same(e.Path, rooted(stateFile)) || disk.Same(e.Path, rooted(lockFile)) {
			continue
		}
		if err := disk.RemoveAll(ctx, a.sys.Files, e.Path); err != nil {
			return err
		}
	}
	return a.giveInstallDirBack(ctx, st)
}

// dropRoot deletes the agent's folder, and the folder above when the agent made it and nothing else is in it.
func (a *Agent) dropRoot(ctx context.Context) error {
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
