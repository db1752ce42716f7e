package controlplane

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// heartbeat is how often a compile that runs says so.
const heartbeat = 20 * time.Second

// buildAll builds the programs one after the other, so that each has the whole machine and its time means something.
func buildAll(ctx context.Context, progress io.Writer, src source, out string, build builder) error {
	all := programs()
	fmt.Fprintf(progress, "control plane: building Kubernetes %s and etcd %s once (about 12 minutes on two cores with an empty Go build cache)\n",
		src.kubernetes, src.etcd)
	start := time.Now()
	for i, p := range all {
		label := fmt.Sprintf("control plane: %d/%d %s", i+1, len(all), p.name)
		fmt.Fprintf(progress, "%s: compiling\n", label)
		begin := time.Now()
		if err := withHeartbeat(progress, label, func() error { return build(ctx, src, p, filepath.Join(out, p.name)) }); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(progress, "%s: done in %.0f s\n", label, time.Since(begin).Seconds())
	}
	fmt.Fprintf(progress, "control plane: built in %.0f s\n", time.Since(start).Seconds())
	return nil
}

// withHeartbeat runs f and reports every while that it still runs.
func withHeartbeat(progress io.Writer, label string, f func() error) error {
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

// goBuild is the builder that runs the go command.
func goBuild(ctx context.Context, src source, p program, out string) error {
	cmd := exec.CommandContext(ctx, "go", buildArgs(src, p, out)...)
	cmd.Dir = src.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	var output tailBuffer
	cmd.Stdout, cmd.Stderr = &output, &output
	// The go command starts compilers: they get a group of their own, which ends as a whole when ctx does.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, output.String())
	}
	return nil
}

// buildArgs are the go command's arguments. The version stamps make the programs report the module's version.
func buildArgs(src source, p program, out string) []string {
	flags := []string{"-s", "-w"}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, kv := range []string{
			"gitVersion=" + src.kubernetes, "gitMajor=1", "gitMinor=" + src.minor, "gitTreeState=clean",
			"gitCommit=" + strings.Repeat("0", 40), "buildDate=1970-01-01T00:00:00Z",
		} {
			flags = append(flags, "-X", pkg+"."+kv)
		}
	}
	return []string{"build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", strings.Join(flags, " "), "-o", out, p.pkg}
}
