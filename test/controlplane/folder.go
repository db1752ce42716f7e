package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// folderPrefix starts the names of data folders below the system's temporary folder.
	folderPrefix = "windowsmachine-controlplane-"
	// lockName is the file that a running control plane holds locked in its folder.
	lockName = "lock"
)

// ErrFolderInUse: the folder that Options asks for holds something else, or another control plane runs in it.
var ErrFolderInUse = errors.New("folder is in use")

// folder is a data folder, ours as long as its lock is held.
type folder struct {
	path string
	lock *os.File
	// keep says that the folder itself was there before and stays.
	keep bool
}

// newFolder makes an empty folder: dir, or one with a new name if dir is empty. In the second case it also removes the
// folders of control planes whose process was killed.
func newFolder(dir string) (*folder, error) {
	if dir != "" {
		return claimFolder(dir)
	}
	sweep(os.TempDir())
	path, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		return nil, fmt.Errorf("making a data folder: %w", err)
	}
	return lockFolder(path, false)
}

// claimFolder takes a folder that is absent, empty, or left by a control plane that was killed.
func claimFolder(dir string) (*folder, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(path)
	if errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, fmt.Errorf("making a data folder: %w", err)
		}
		return lockFolder(path, false)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the data folder: %w", err)
	}
	if len(entries) > 0 && !abandoned(path) {
		return nil, fmt.Errorf("%w: %s", ErrFolderInUse, path)
	}
	if err := empty(path); err != nil {
		return nil, err
	}
	return lockFolder(path, true)
}

// lockFolder takes the lock before the lock file has its name, so that sweep never sees one that is not held.
func lockFolder(path string, keep bool) (*folder, error) {
	f, err := os.CreateTemp(path, lockName+"-")
	if err != nil {
		return nil, err
	}
	taken, err := tryLock(f)
	if err == nil && !taken {
		err = ErrFolderInUse
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(path, lockName))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
	}
	return &folder{path: path, lock: f, keep: keep}, nil
}

// remove deletes what is in the folder, the folder itself unless it was there before, and drops the lock.
func (f *folder) remove() error {
	var err error
	if f.keep {
		err = empty(f.path)
	} else {
		err = os.RemoveAll(f.path)
	}
	return errors.Join(err, f.lock.Close())
}

func empty(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes folders of ours in parent that no process holds. It is a courtesy: what it cannot remove stays.
func sweep(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(parent, e.Name())
		if e.IsDir() && strings.HasPrefix(e.Name(), folderPrefix) && abandoned(path) {
			_ = os.RemoveAll(path)
		}
	}
}

// abandoned says whether a control plane has run in the folder and its process is gone.
func abandoned(path string) bool {
	f, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	free, err := tryLock(f)
	return err == nil && free
}
