package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// trusted reports whether the agent's folder is there and closed to other accounts. What a folder that is open holds may have been
// put there by anybody, so commands that only read take it for absent.
func (a *Agent) trusted() (bool, error) {
	info, err := a.sys.Files.Stat(plan.AgentRoot)
	if errors.Is(err, system.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", plan.AgentRoot, err)
	}
	return info.Dir && info.Access == plan.AccessSecret, nil
}

// secureRoot is the first act of every command that writes: it makes the agent's folders, closes them, and deletes from a folder
// that was open all that does not carry the agent's own access control list. A folder made at the root of C: inherits write
// access for all users; who may write into C:\k could also rename C:\k\wmcb away, so the folder above is closed as well.
func (a *Agent) secureRoot(ctx context.Context) error {
	made, err := a.secureInstallDir(ctx)
	if err != nil {
		return err
	}
	if err := a.secureOwn(ctx); err != nil {
		return err
	}
	for _, dir := range []string{blobsDir, blobsDir + `\sha256`, step.TempDir, step.OldDir, step.BackupDir} {
		if _, err := a.ensure(rooted(dir), plan.AccessSecret); err != nil {
			return err
		}
	}
	if !made {
		return nil
	}
	return a.claimInstallDir(step.Folder(plan.InstallDir))
}

// secureInstallDir makes C:\k or closes the one that is there, and reports whether it was made by an agent and nobody has noted that yet.
func (a *Agent) secureInstallDir(ctx context.Context) (made bool, err error) {
	info, err := a.sys.Files.Stat(plan.InstallDir)
	if err == nil && info.Access != plan.AccessPublic {
		if err := a.noteInstallDir(ctx, info.Access); err != nil {
			return false, err
		}
	}
	if made, err := a.ensure(plan.InstallDir, plan.AccessPublic); err != nil || made {
		return made, err
	}
	return a.unclaimed()
}

// unclaimed reports whether an agent made C:\k and was killed before it could say so: there is no state, and nothing in the folder but the agent's
// own. An empty folder of that class that somebody else made is taken for one's own too, and goes with the node.
func (a *Agent) unclaimed() (bool, error) {
	if known, err := disk.Exists(a.sys.Files, rooted(stateFile)); err != nil || known {
		return false, err
	}
	list, err := a.sys.Files.ReadDir(plan.InstallDir)
	if err != nil {
		return false, fmt.Errorf("listing %s: %w", plan.InstallDir, err)
	}
	return !slices.ContainsFunc(list, func(i system.Info) bool { return !disk.Same(i.Path, plan.AgentRoot) }), nil
}

// noteInstallDir records the class of a C:\k that is not the agent's before it is changed, so that Remove can give it back. A list that is
// neither of the two classes, such as an inherited one, cannot be given back. A machine with a state had its C:\k looked at before: whoever
// changed it since did not make it. The record lies in what is still open; secureOwn looks again once it is closed.
func (a *Agent) noteInstallDir(ctx context.Context, was plan.Access) error {
	if err := a.secureOwn(ctx); err != nil {
		return err
	}
	if known, err := disk.Exists(a.sys.Files, rooted(stateFile)); err != nil || known {
		return err
	}
	return a.claimInstallDir(step.FolderBefore(plan.InstallDir, was))
}

// secureOwn makes and closes plan.AgentRoot, and empties it of what others put there.
func (a *Agent) secureOwn(ctx context.Context) error {
	if _, err := a.ensure(plan.AgentRoot, plan.AccessSecret); err != nil {
		return err
	}
	return a.distrust(ctx, plan.AgentRoot)
}

// ensure makes a folder or gives it its class, and reports whether it was made.
func (a *Agent) ensure(path string, access plan.Access) (made bool, err error) {
	err = a.sys.Files.Mkdir(path, access)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, system.ErrExist) {
		return false, fmt.Errorf("making %s: %w", path, err)
	}
	info, err := a.sys.Files.Stat(path)
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", path, err)
	}
	if info.Access == access {
		return false, nil
	}
	if err := a.sys.Files.SetAccess(path, access); err != nil {
		return false, fmt.Errorf("closing %s: %w", path, err)
	}
	return false, nil
}

// distrust deletes what in folder lacks the agent's access class; only SYSTEM and Administrators can have given it that. Files
// in backup keep the list that they had before they came, and blobs, old and tmp hold public files too: these folders
// are trusted whole when they themselves carry the class.
func (a *Agent) distrust(ctx context.Context, folder string) error {
	list, err := a.sys.Files.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("listing %s: %w", folder, err)
	}
	for _, e := range list {
		if e.Access == plan.AccessSecret || disk.Same(e.Path, rooted(lockFile)) || disk.Same(e.Path, rooted(runLockFile)) {
			continue
		}
		if err := disk.RemoveAll(ctx, a.sys.Files, e.Path); err != nil {
			return fmt.Errorf("deleting what others put there: %w", err)
		}
	}
	return nil
}

// claimInstallDir records whose C:\k is: the agent's, to be removed with it, or one that was there.
func (a *Agent) claimInstallDir(o step.Owned) error {
	st, err := a.loadState()
	if err != nil {
		return err
	}
	return step.NewLedger(st.Inventory, func(inv step.Inventory) error {
		st.Inventory = inv
		return a.saveState(st)
	}).Record(o)
}

// sweep empties the folders of half-written and renamed-away files. An executable that still runs stays until later.
func (a *Agent) sweep(ctx context.Context) error {
	if err := disk.Clear(ctx, a.sys.Files, rooted(step.TempDir)); err != nil {
		return fmt.Errorf("sweeping: %w", err)
	}
	err := disk.Clear(ctx, a.sys.Files, rooted(step.OldDir))
	if err != nil && !errors.Is(err, system.ErrBusy) && !errors.Is(err, system.ErrDenied) {
		return fmt.Errorf("sweeping: %w", err)
	}
	return nil
}
