package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Take makes payload blobs of files that lie on the machine: files maps the SHA-256 of each to its path. What is there already is not copied
// again. disk.ErrDigest when a file has changed since its digest was taken, ErrBusy while another command writes.
func (a *Agent) Take(ctx context.Context, files map[string]string) error {
	if err := a.secureRoot(ctx); err != nil {
		return err
	}
	release, err := a.lock(lockFile)
	if err != nil {
		return err
	}
	defer func() { _ = release() }()
	digests := slices.Sorted(maps.Keys(files))
	have, err := a.verified(ctx, digests)
	if err != nil {
		return err
	}
	// Before the first copy, so that an engine that tidies up meanwhile spares them.
	if err := a.spare(ctx, plan.Claim{}, digests); err != nil {
		return err
	}
	for _, d := range digests {
		if slices.Contains(have, d) {
			continue
		}
		if err := a.takeFile(ctx, d, files[d]); err != nil {
			return fmt.Errorf("taking in %s: %w", files[d], err)
		}
	}
	return nil
}

func (a *Agent) takeFile(ctx context.Context, digest, path string) error {
	f, err := a.sys.Files.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	final := disk.Join(blobDir(), digest)
	if err := disk.Write(ctx, a.sys.Files, final+partSuffix, plan.AccessSecret, f, digest); err != nil {
		return err
	}
	return a.sys.Files.Rename(final+partSuffix, final)
}

// settle returns the path of this agent for its service. An executable that somebody started from a folder of his own is copied to where
// only administrators write, since the service would run whatever is put in its place, and would be lost with the folder.
func (a *Agent) settle(ctx context.Context) (string, error) {
	exe, digest, err := a.own(ctx)
	if err != nil || digest == "" {
		return exe, err
	}
	home := plan.AgentPath(digest)
	there, err := disk.Digest(ctx, a.sys.Files, home)
	if err == nil && there == digest {
		return home, nil
	}
	if err != nil && !errors.Is(err, system.ErrNotExist) {
		return "", err
	}
	return home, a.copyAgent(ctx, exe, home, digest)
}

func (a *Agent) copyAgent(ctx context.Context, exe, home, digest string) error {
	for _, folder := range []string{plan.AgentBin, disk.Parent(home)} {
		if _, err := a.ensure(folder, plan.AccessPublic); err != nil {
			return err
		}
	}
	from, err := a.sys.Files.Open(exe)
	if err != nil {
		return fmt.Errorf("opening %s: %w", exe, err)
	}
	defer from.Close()
	if err := disk.Write(ctx, a.sys.Files, home+newSuffix, plan.AccessPublic, from, digest); err != nil {
		return err
	}
	if err := a.sys.Files.Rename(home+newSuffix, home); err != nil {
		return fmt.Errorf("placing %s: %w", home, err)
	}
	return nil
}

// own returns the running executable, and its digest when it lies elsewhere than agents do.
func (a *Agent) own(ctx context.Context) (exe, digest string, err error) {
	exe, err = a.sys.Machine.Executable()
	if err != nil || disk.Below(plan.AgentBin, exe) {
		return exe, "", err
	}
	digest, err = disk.Digest(ctx, a.sys.Files, exe)
	return exe, digest, err
}

// unsettle deletes the agents that were copied below plan.AgentBin, when this one runs from elsewhere, and the folder once it is empty.
func (a *Agent) unsettle(ctx context.Context) error {
	_, digest, err := a.own(ctx)
	if err != nil || digest == "" {
		return err
	}
	list, err := a.sys.Files.ReadDir(plan.AgentBin)
	if errors.Is(err, system.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing %s: %w", plan.AgentBin, err)
	}
	for _, e := range list {
		if !e.Dir || !agentFolder(e.Path) {
			continue
		}
		if err := disk.RemoveAll(ctx, a.sys.Files, e.Path); err != nil {
			return err
		}
	}
	return a.removeEmpty(plan.AgentBin)
}
