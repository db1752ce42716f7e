package controlplane

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

// countingBuilder writes an executable for every program and counts.
func countingBuilder(n *atomic.Int32) builder {
	return func(_ context.Context, _ source, _ program, out string) error {
		n.Add(1)
		return os.WriteFile(out, []byte("#!"), 0o700)
	}
}

// names lists what is in a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestBuildOnceAmongMany(t *testing.T) {
	cache := t.TempDir()
	dir := filepath.Join(cache, "key")
	var built atomic.Int32
	var g errgroup.Group
	for range 8 {
		g.Go(func() error { return buildOnce(t.Context(), &tailBuffer{}, source{}, dir, countingBuilder(&built)) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if got, want := int(built.Load()), len(programs()); got != want {
		t.Errorf("%d programs were built, want %d", got, want)
	}
	if !complete(dir) {
		t.Error("the folder is not complete")
	}
	if diff := cmp.Diff([]string{"controlplane.lock", "key"}, names(t, cache)); diff != "" {
		t.Error(diff)
	}
}

func TestBuildOnceAfterTrouble(t *testing.T) {
	cache := t.TempDir()
	dir := filepath.Join(cache, "key")
	for _, path := range []string{dir, filepath.Join(cache, buildPrefix+"1"), filepath.Join(cache, "another-key")} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(dir, "etcd"), "half a folder")
	broken := errors.New("broken")
	fail := func(_ context.Context, _ source, p program, out string) error {
		if p.name == "kubectl" {
			return broken
		}
		return os.WriteFile(out, nil, 0o700)
	}
	if err := buildOnce(t.Context(), &tailBuffer{}, source{}, dir, fail); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if complete(dir) {
		t.Error("a failed build is complete")
	}
	if diff := cmp.Diff([]string{"another-key", "controlplane.lock"}, names(t, cache)); diff != "" {
		t.Errorf("after a failed build: %s", diff)
	}
	var built atomic.Int32
	if err := buildOnce(t.Context(), &tailBuffer{}, source{}, dir, countingBuilder(&built)); err != nil {
		t.Fatal(err)
	}
	if !complete(dir) {
		t.Error("the second build is not complete")
	}
}

func TestBuildOnceStopsWaitingWithItsContext(t *testing.T) {
	cache := t.TempDir()
	lock, err := lockFile(t.Context(), filepath.Join(cache, "controlplane.lock"), func() { t.Error("waits for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var built atomic.Int32
	var progress tailBuffer
	err = buildOnce(ctx, &progress, source{}, filepath.Join(cache, "key"), countingBuilder(&built))
	if !errors.Is(err, context.Canceled) || built.Load() != 0 {
		t.Errorf("error %v after %d builds", err, built.Load())
	}
	if !strings.Contains(progress.String(), "waiting for another process") {
		t.Errorf("progress %q does not say why it waits", progress.String())
	}
}

func TestComplete(t *testing.T) {
	tests := map[string]struct {
		change func(t *testing.T, dir string)
		want   bool
	}{
		"whole":          {change: func(*testing.T, string) {}, want: true},
		"one is missing": {change: func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "kubectl")) }},
		"one may not be run": {change: func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, "etcd"), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		"no folder": {change: func(t *testing.T, dir string) { remove(t, dir) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "key")
			var n atomic.Int32
			if err := buildOnce(t.Context(), &tailBuffer{}, source{}, dir, countingBuilder(&n)); err != nil {
				t.Fatal(err)
			}
			tt.change(t, dir)
			if got := complete(dir); got != tt.want {
				t.Errorf("complete = %v", got)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var progress bytes.Buffer
		done := errors.New("done")
		err := withHeartbeat(&progress, "2/4 kube-apiserver", func() error {
			<-time.After(2*heartbeat + time.Second)
			return done
		})
		if !errors.Is(err, done) {
			t.Errorf("error %v", err)
		}
		want := "2/4 kube-apiserver: still compiling after 20 s\n2/4 kube-apiserver: still compiling after 40 s\n"
		if diff := cmp.Diff(want, progress.String()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestBuildArgs(t *testing.T) {
	args := buildArgs(source{kubernetes: "v1.37.2", minor: "37"}, program{"kubectl", "k8s.io/kubernetes/cmd/kubectl"}, "/out/kubectl")
	all := strings.Join(args, " ")
	for _, want := range []string{
		"-trimpath", "-X k8s.io/component-base/version.gitVersion=v1.37.2 ", "-X k8s.io/client-go/pkg/version.gitMinor=37 ",
		"-o /out/kubectl k8s.io/kubernetes/cmd/kubectl",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q lacks %q", all, want)
		}
	}
}

func TestBinariesAreThereAfterTheFirstTime(t *testing.T) {
	first, err := Binaries(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	// Without a PATH there is no go command to start.
	t.Setenv("PATH", t.TempDir())
	var progress tailBuffer
	second, err := Binaries(t.Context(), &progress)
	if err != nil || second != first || progress.String() != "" {
		t.Errorf("again: %q, %v, progress %q", second, err, progress.String())
	}
	if path, built, err := BinariesPath(); path != first || !built || err != nil {
		t.Errorf("path: %q, %v, %v", path, built, err)
	}
}
