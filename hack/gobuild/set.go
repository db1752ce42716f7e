package gobuild

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// heartbeat is how often a compile that runs says so.
const heartbeat = 20 * time.Second

// Program is one binary of a Set.
type Program struct {
	// Name is the file's name, Package what the go command builds.
	Name, Package string
	// Stamps are variables that the linker sets, "import/path.Name=value".
	Stamps []string
}

// Set is a group of programs of one module.
type Set struct {
	// Label names it in messages, "control plane"; Kind in the cache, "controlplane".
	Label, Kind string
	// What is built, with versions, and how long that takes with an empty Go build cache; for people.
	What, Takes string
	// Dir is the module's folder, Folder the name of the finished folder in the cache.
	Dir, Folder string
	// OS and Arch are what GOOS and GOARCH say.
	OS, Arch string
	Programs []Program

	// compile is nil for the go command.
	compile func(ctx context.Context, p Program, out string) error
}

// Cached is the folder of the finished programs, and whether they are there. Nothing is built.
func (s Set) Cached() (dir string, built bool, err error) {
	cache, err := CacheDir()
	if err != nil {
		return "", false, err
	}
	dir = filepath.Join(cache, s.Folder)
	return dir, s.whole(dir), nil
}

// Build returns the folder that holds the programs, and builds them first if they are not there, reporting to progress (nil:
// silent). Where they are there nothing runs and the call takes a millisecond.
func (s Set) Build(ctx context.Context, progress io.Writer) (string, error) {
	if progress == nil {
		progress = io.Discard
	}
	dir, built, err := s.Cached()
	if err != nil || built {
		return dir, err
	}
	if err := s.once(ctx, progress, dir); err != nil {
		return "", fmt.Errorf("building the programs of %s: %w", s.Label, err)
	}
	return dir, nil
}

func (s Set) once(ctx context.Context, progress io.Writer, dir string) error {
	return Folder{
		Path: dir, Kind: s.Kind, Whole: s.whole,
		Make:    func(ctx context.Context, tmp string) error { return s.buildAll(ctx, progress, tmp) },
		Waiting: func() { fmt.Fprintf(progress, "%s: waiting for another process that builds it\n", s.Label) },
	}.Once(ctx)
}

// whole says whether every program is in dir. The folder appears by a rename, so a program that is there is whole.
func (s Set) whole(dir string) bool {
	for _, p := range s.Programs {
		info, err := os.Stat(filepath.Join(dir, p.Name))
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o100 == 0 {
			return false
		}
	}
	return true
}

// buildAll builds the programs one after the other, so that each has the whole machine and its time means something.
func (s Set) buildAll(ctx context.Context, progress io.Writer, out string) error {
	compile := s.compile
	if compile == nil {
		compile = func(ctx context.Context, p Program, out string) error { return s.Compile(ctx, p, out) }
	}
	fmt.Fprintf(progress, "%s: building %s once (%s with an empty Go build cache)\n", s.Label, s.What, s.Takes)
	start := time.Now()
	for i, p := range s.Programs {
		label := fmt.Sprintf("%s: %d/%d %s", s.Label, i+1, len(s.Programs), p.Name)
		fmt.Fprintf(progress, "%s: compiling\n", label)
		begin := time.Now()
		if err := WithHeartbeat(progress, label, func() error { return compile(ctx, p, filepath.Join(out, p.Name)) }); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		fmt.Fprintf(progress, "%s: done in %.0f s\n", label, time.Since(begin).Seconds())
	}
	fmt.Fprintf(progress, "%s: built in %.0f s\n", s.Label, time.Since(start).Seconds())
	return nil
}

// WithHeartbeat runs f and reports every 20 seconds that label still compiles.
func WithHeartbeat(progress io.Writer, label string, f func() error) error {
	begin := time.Now()
	done := make(chan error, 1)
	go func() { done <- f() }()
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			fmt.Fprintf(progress, "%s: still compiling after %.0f s\n", label, time.Since(begin).Seconds())
		}
	}
}

// Compile runs the go command for one program, with env added to its environment.
func (s Set) Compile(ctx context.Context, p Program, out string, env ...string) error {
	cmd := exec.CommandContext(ctx, "go", Args(p, out)...)
	cmd.Dir = s.Dir
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+s.OS, "GOARCH="+s.Arch), env...)
	// The go command starts compilers: they get a group of their own, which ends as a whole when ctx does.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// Output keeps the begin and the end of what is written to standard error in its ExitError.
	if _, err := cmd.Output(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return fmt.Errorf("go build: %w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return fmt.Errorf("go build: %w", err)
	}
	return nil
}

// Args are the go command's arguments for one program: stripped, without paths of this machine, with its stamps.
func Args(p Program, out string) []string {
	flags := []string{"-s", "-w"}
	for _, stamp := range p.Stamps {
		flags = append(flags, "-X", stamp)
	}
	return []string{"build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", strings.Join(flags, " "), "-o", out, p.Package}
}

// KubernetesStamps make programs of Kubernetes report the module's version.
func KubernetesStamps(version string) []string {
	_, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	var out []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, kv := range []string{
			"gitVersion=" + version, "gitMajor=1", "gitMinor=" + minor, "gitTreeState=clean",
			"gitCommit=" + strings.Repeat("0", 40), "buildDate=1970-01-01T00:00:00Z",
		} {
			out = append(out, pkg+"."+kv)
		}
	}
	return out
}
