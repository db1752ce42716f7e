package gobuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// cacheFolder lies below the user's cache folder ($XDG_CACHE_HOME, or ~/.cache).
const cacheFolder = "windowsmachine"

// CacheDir is where finished folders lie. It need not exist.
func CacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a cache folder (set HOME or XDG_CACHE_HOME): %w", err)
	}
	return filepath.Join(base, cacheFolder), nil
}

// Folder is one that is made once.
type Folder struct {
	// Path is where it appears, by a rename, when it is whole.
	Path string
	// Kind begins the names of lock and temporary folders beside it, "controlplane". Folders of one kind are made one after the other.
	Kind string
	// Whole reports whether what lies at a path is complete.
	Whole func(path string) bool
	// Make fills an empty folder.
	Make func(ctx context.Context, tmp string) error
	// Waiting is called once when another process makes a folder of this kind.
	Waiting func()
}

// Once makes the folder if it is not there. Leftovers of processes that were killed, and a folder that is not whole, are removed.
func (f Folder) Once(ctx context.Context) (err error) {
	if f.Whole(f.Path) {
		return nil
	}
	cache := filepath.Dir(f.Path)
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	lock, err := lockFile(ctx, filepath.Join(cache, f.Kind+".lock"), f.Waiting)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if f.Whole(f.Path) {
		return nil
	}
	if err := f.removeLeftovers(cache); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(cache, f.temporary())
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := f.Make(ctx, tmp); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	return os.Rename(tmp, f.Path)
}

// temporary starts the names of temporary folders.
func (f Folder) temporary() string { return f.Kind + "-build-" }

// removeLeftovers removes what was killed, and an incomplete folder. The lock is held, so none of it is in use.
func (f Folder) removeLeftovers(cache string) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), f.temporary()) {
			if err := os.RemoveAll(filepath.Join(cache, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(f.Path)
}
