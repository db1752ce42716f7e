package step

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// folderItem is a folder of the plan.
type folderItem struct {
	b *bench
	d plan.Directory
}

func (i folderItem) id() ID { return newID(KindDirectory, disk.Key(i.d.Path)) }

func (i folderItem) name() string { return i.d.Path }

func (i folderItem) check(context.Context) (string, error) {
	info, err := i.b.sys.Files.Stat(i.d.Path)
	switch {
	case errors.Is(err, system.ErrNotExist):
		return "missing", nil
	case err != nil:
		return "", err
	case !info.Dir:
		return "is a file", nil
	case info.Access != i.d.Access:
		return "access control list is not " + string(i.d.Access), nil
	}
	if _, ok := i.b.ledger.Find(i.id()); i.d.Purge && !ok {
		// Also one that looks right has to be cleared once.
		return "may hold what an earlier installation left", nil
	}
	return "", nil
}

// claim clears a folder with Purge that an earlier installation left: among other things host-local's address leases,
// which would be taken for this cluster's. It does so before the folder is recorded, so that a crash in between repeats it.
func (i folderItem) claim(ctx context.Context) (Owned, error) {
	o := Owned{ID: i.id(), Name: i.d.Path, Purge: i.d.Purge}
	info, err := i.b.sys.Files.Stat(i.d.Path)
	switch {
	case errors.Is(err, system.ErrNotExist):
		return o, nil
	case err != nil:
		return Owned{}, err
	case !info.Dir:
		return Owned{}, fmt.Errorf("a file is in its place: %w", ErrForeign)
	}
	o.Existed, o.Access = true, info.Access
	if i.d.Purge {
		return o, disk.Clear(ctx, i.b.sys.Files, i.d.Path)
	}
	return o, nil
}

func (i folderItem) apply(ctx context.Context) (bool, error) {
	return false, i.b.ensureFolder(ctx, i.d.Path)
}

// ensureFolder makes path and the folders above it, each claimed first; those that the plan lists get the plan's class.
func (b *bench) ensureFolder(ctx context.Context, path string) error {
	for _, p := range append(disk.Ancestors(path), path) {
		if err := b.ensureOne(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) ensureOne(ctx context.Context, path string) error {
	listed := slices.IndexFunc(b.plan.Directories, func(d plan.Directory) bool { return disk.Same(d.Path, path) })
	want := folderItem{b, plan.Directory{Path: path, Access: plan.AccessPublic}}
	if listed >= 0 {
		want.d = b.plan.Directories[listed]
	}
	info, err := b.sys.Files.Stat(path)
	missing := errors.Is(err, system.ErrNotExist)
	if err != nil && !missing {
		return fmt.Errorf("looking at %s: %w", path, err)
	}
	if !missing && listed < 0 {
		return nil
	}
	if err := b.claim(ctx, []item{want}); err != nil {
		return err
	}
	if missing {
		if err := b.sys.Files.Mkdir(path, want.d.Access); err != nil && !errors.Is(err, system.ErrExist) {
			return fmt.Errorf("making %s: %w", path, err)
		}
		return nil
	}
	if info.Access == want.d.Access {
		return nil
	}
	return b.sys.Files.SetAccess(path, want.d.Access)
}

// undoFolder removes a folder. One that is not empty and not to be purged holds what others put there: it stays.
func (b *bench) undoFolder(ctx context.Context, o Owned) error {
	files := b.sys.Files
	switch {
	case o.Purge && !o.Existed:
		return disk.RemoveAll(ctx, files, o.Name)
	case o.Purge:
		if err := disk.Clear(ctx, files, o.Name); err != nil {
			return err
		}
	}
	if o.Existed {
		return b.restoreAccess(o)
	}
	list, err := files.ReadDir(o.Name)
	if errors.Is(err, system.ErrNotExist) || err == nil && len(list) > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	return files.Remove(o.Name)
}

// restoreAccess gives a folder its old class back, where it had one of the two.
func (b *bench) restoreAccess(o Owned) error {
	if o.Access == "" {
		return nil
	}
	err := b.sys.Files.SetAccess(o.Name, o.Access)
	if errors.Is(err, system.ErrNotExist) {
		return nil
	}
	return err
}
