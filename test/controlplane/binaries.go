package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// cacheFolder lies below the user's cache folder ($XDG_CACHE_HOME, or ~/.cache).
const cacheFolder = "windowsmachine"

// program is one binary of the control plane.
type program struct {
	// name is the file's name, pkg what the go command builds inside hack/controlplane.
	name, pkg string
}

func programs() []program {
	return []program{
		{"etcd", "./etcd"},
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
		{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
		{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
	}
}

// Binaries returns the folder that holds etcd, kube-apiserver, kube-controller-manager and kubectl, and builds them first if
// they are not there. The first build takes about 12 minutes on two cores and reports to progress (nil: silent); afterwards
// nothing runs and the call takes a millisecond. Processes that call it at the same time build once.
func Binaries(ctx context.Context, progress io.Writer) (dir string, err error) {
	if progress == nil {
		progress = io.Discard
	}
	src, err := findSource()
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, src.key)
	if complete(dir) {
		return dir, nil
	}
	if err := buildOnce(ctx, progress, src, dir, goBuild); err != nil {
		return "", fmt.Errorf("building the control plane's programs: %w", err)
	}
	return dir, nil
}

// BinariesPath returns the folder that Binaries returns for this source tree, and whether the programs are there yet. It
// builds nothing.
func BinariesPath() (dir string, built bool, err error) {
	src, err := findSource()
	if err != nil {
		return "", false, err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", false, err
	}
	dir = filepath.Join(cache, src.key)
	return dir, complete(dir), nil
}

func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a cache folder (set HOME or XDG_CACHE_HOME): %w", err)
	}
	return filepath.Join(base, cacheFolder), nil
}

// complete says whether every program is in dir. The folder appears by a rename, so a program that is there is whole.
func complete(dir string) bool {
	for _, p := range programs() {
		info, err := os.Stat(filepath.Join(dir, p.name))
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o100 == 0 {
			return false
		}
	}
	return true
}

// builder writes one program to out.
type builder func(ctx context.Context, src source, p program, out string) error

// buildOnce builds every program into a temporary folder and renames it to dir, under the cache's lock.
func buildOnce(ctx context.Context, progress io.Writer, src source, dir string, build builder) (err error) {
	cache := filepath.Dir(dir)
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	lock, err := lockFile(ctx, filepath.Join(cache, "controlplane.lock"), func() {
		fmt.Fprintln(progress, "control plane: waiting for another process that builds it")
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if complete(dir) {
		return nil
	}
	if err := removeLeftovers(cache, dir); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(cache, buildPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := buildAll(ctx, progress, src, tmp, build); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}

// buildPrefix starts the names of temporary folders.
const buildPrefix = "controlplane-build-"

// removeLeftovers removes what builds that were killed left, and an incomplete dir. The lock is held, so none of it is in use.
func removeLeftovers(cache, dir string) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), buildPrefix) {
			if err := os.RemoveAll(filepath.Join(cache, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(dir)
}
