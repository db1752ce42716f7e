//go:build linux

package wine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNotRoot: machines need namespaces and mounts.
var ErrNotRoot = errors.New("machines of Wine need root; run `sudo make wine`, or `make test` for what works without")

// Kit is what machines are made of. Everything lies in one folder of the user's cache.
type Kit struct {
	root, template, guest, boot string
}

const (
	suite = "trixie"
	// rootGeneration and templateGeneration are raised when a recipe changes in a way that the key does not see.
	rootGeneration     = "1"
	templateGeneration = "1"
	heartbeat          = 20 * time.Second
)

// Prepare installs and builds what is missing, and returns at once when nothing is. source is the folder of this package. It may run in
// several processes at the same time.
func Prepare(ctx context.Context, source string, progress io.Writer) (*Kit, error) {
	if os.Geteuid() != 0 {
		return nil, ErrNotRoot
	}
	base, err := cacheFolder()
	if err != nil {
		return nil, err
	}
	unlock, err := lock(filepath.Join(base, "lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	p := preparation{base: base, source: source, progress: progress}
	k, err := p.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("preparing machines of Wine: %w", err)
	}
	return k, nil
}

func cacheFolder() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	base = filepath.Join(base, "windowsmachine", "wine")
	return base, os.MkdirAll(base, 0o755)
}

func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

type preparation struct {
	base, source string
	progress     io.Writer
}

func (p preparation) run(ctx context.Context) (*Kit, error) {
	k := &Kit{
		root:  filepath.Join(p.base, "root-"+suite+"-"+rootGeneration),
		guest: filepath.Join(p.base, "guest.exe"), boot: filepath.Join(p.base, "boot"),
	}
	if err := p.tools(ctx); err != nil {
		return nil, err
	}
	if err := p.once(ctx, k.root, "Wine 10 in a root of its own (about 2 minutes, 1.2 GB)", p.bootstrap); err != nil {
		return nil, err
	}
	if err := p.programs(ctx, k); err != nil {
		return nil, err
	}
	key, err := p.templateKey(k)
	if err != nil {
		return nil, err
	}
	k.template = filepath.Join(p.base, "template-"+key)
	err = p.once(ctx, k.template, "shims and a template disk (about 20 seconds)", func(ctx context.Context, dir string) error {
		return p.makeTemplate(ctx, k, dir)
	})
	if err != nil {
		return nil, err
	}
	return k, p.prune(k.template)
}

// unused is after how long a template goes that other sources have made.
const unused = 24 * time.Hour

// prune removes the templates that nobody has used for a while; each takes 800 MB.
func (p preparation) prune(used string) error {
	now := time.Now()
	if err := os.Chtimes(used, now, now); err != nil {
		return err
	}
	all, err := filepath.Glob(filepath.Join(p.base, "template-*"))
	if err != nil {
		return err
	}
	for _, t := range all {
		info, err := os.Stat(t)
		if err != nil {
			return err
		}
		if now.Sub(info.ModTime()) > unused {
			if err := os.RemoveAll(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// once makes a folder unless it is there. What is half made has another name.
func (p preparation) once(ctx context.Context, dir, what string, make func(context.Context, string) error) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	fmt.Fprintf(p.progress, "wine: making %s\n", what)
	began := time.Now()
	fresh := dir + ".making"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := p.beat(what, func() error { return make(ctx, fresh) }); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	fmt.Fprintf(p.progress, "wine: made in %.0f s\n", time.Since(began).Seconds())
	return os.Rename(fresh, dir)
}

// beat runs f and reports every while that it still runs.
func (p preparation) beat(what string, f func() error) error {
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- f() }()
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			fmt.Fprintf(p.progress, "wine: still making %s after %.0f s\n", what, time.Since(began).Seconds())
		}
	}
}

// tools installs the programs of Debian's packages that are missing.
func (p preparation) tools(ctx context.Context) error {
	var missing []string
	for _, t := range []struct{ program, pkg string }{
		{"debootstrap", "debootstrap"}, {compiler, "gcc-mingw-w64-x86-64-win32"}, {"ip", "iproute2"}, {"nsenter", "util-linux"},
	} {
		if _, err := exec.LookPath(t.program); err != nil {
			missing = append(missing, t.pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	fmt.Fprintf(p.progress, "wine: installing %s\n", strings.Join(missing, ", "))
	if err := p.beat("packages", func() error { return command(ctx, "apt-get", "update", "-q") }); err != nil {
		return err
	}
	args := append([]string{"install", "-yq", "--no-install-recommends"}, missing...)
	return p.beat("packages", func() error { return command(ctx, "apt-get", args...) })
}

func (p preparation) bootstrap(ctx context.Context, dir string) error {
	if err := command(ctx, "debootstrap", "--variant=minbase", "--include=wine64", suite, dir); err != nil {
		return err
	}
	// The places where a machine's own files are mounted.
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "c"), 0o755), os.WriteFile(filepath.Join(dir, "etc/hosts"), nil, 0o644)); err != nil {
		return err
	}
	return linkBehind(dir)
}

// linkBehind gives Wine's libraries behind shims their second name. Wine finds the Unix half of a library by the name of the other half.
func linkBehind(root string) error {
	for _, s := range shims() {
		if s.behind == "" {
			continue
		}
		name := strings.TrimSuffix(s.as[0], ".dll")
		for _, half := range []string{"x86_64-windows/%s.dll", "x86_64-unix/%s.so"} {
			at := func(n string) string { return filepath.Join(root, libraries, fmt.Sprintf(half, n)) }
			if err := os.Link(at(name), at(s.behind)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// libraries are Wine's, in its root.
const libraries = "usr/lib/x86_64-linux-gnu/wine"

// programs builds what is written in Go; the go command's own cache makes that quick.
func (p preparation) programs(ctx context.Context, k *Kit) error {
	for _, b := range []struct{ pkg, out, system string }{{"guest", k.guest, "windows"}, {"boot", k.boot, "linux"}} {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", b.out, "./"+b.pkg)
		cmd.Dir = p.source
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64", "GOOS="+b.system)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w: %s", b.pkg, err, out)
		}
	}
	return nil
}

// command runs a program; its last words are part of the error.
func command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out[max(0, len(out)-1000):])
	}
	return nil
}
