package gobuild

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

// set is one of three programs that count instead of compiling.
func set(t *testing.T, n *atomic.Int32) (s Set, cache string) {
	t.Helper()
	base := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", base)
	return Set{
		Label: "things", Kind: "thing", What: "Thing v1", Takes: "about a minute", Dir: t.TempDir(), Folder: "thing-v1-key",
		OS: "windows", Arch: "amd64",
		Programs: []Program{{Name: "a", Package: "./a"}, {Name: "b", Package: "./b"}, {Name: "c", Package: "./c"}},
		compile: func(_ context.Context, _ Program, out string) error {
			n.Add(1)
			return os.WriteFile(out, []byte("#!"), 0o700)
		},
	}, filepath.Join(base, cacheFolder)
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
	var built atomic.Int32
	s, cache := set(t, &built)
	var g errgroup.Group
	for range 8 {
		g.Go(func() error { _, err := s.Build(t.Context(), nil); return err })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if got, want := int(built.Load()), len(s.Programs); got != want {
		t.Errorf("%d programs were built, want %d", got, want)
	}
	if dir, there, err := s.Cached(); dir != filepath.Join(cache, "thing-v1-key") || !there || err != nil {
		t.Errorf("%q, %v, %v", dir, there, err)
	}
	if diff := cmp.Diff([]string{"thing-v1-key", "thing.lock"}, names(t, cache)); diff != "" {
		t.Error(diff)
	}
}

func TestBuildAfterTrouble(t *testing.T) {
	var built atomic.Int32
	s, cache := set(t, &built)
	write(t, filepath.Join(cache, "thing-v1-key", "a"), "half a folder")
	write(t, filepath.Join(cache, "thing-build-1", "a"), "killed")
	write(t, filepath.Join(cache, "another", "a"), "of somebody else")
	broken, good := errors.New("broken"), s.compile
	s.compile = func(ctx context.Context, p Program, out string) error {
		if p.Name == "c" {
			return broken
		}
		return good(ctx, p, out)
	}
	if _, err := s.Build(t.Context(), nil); !errors.Is(err, broken) || !strings.Contains(err.Error(), "things: c: broken") {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{"another", "thing.lock"}, names(t, cache)); diff != "" {
		t.Errorf("after a failed build: %s", diff)
	}
	s.compile = good
	var progress bytes.Buffer
	if _, err := s.Build(t.Context(), &progress); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"things: building Thing v1 once (about a minute", "things: 2/3 b: compiling\n", "things: 3/3 c: done in 0 s", "things: built in"} {
		if !strings.Contains(progress.String(), want) {
			t.Errorf("%q is missing in %q", want, progress.String())
		}
	}
}

func TestBuildStopsWaitingWithItsContext(t *testing.T) {
	var built atomic.Int32
	s, cache := set(t, &built)
	write(t, filepath.Join(cache, "other", "a"), "")
	lock, err := lockFile(t.Context(), filepath.Join(cache, "thing.lock"), func() { t.Error("waits for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var progress bytes.Buffer
	if _, err = s.Build(ctx, &progress); !errors.Is(err, context.Canceled) || built.Load() != 0 {
		t.Errorf("error %v after %d builds", err, built.Load())
	}
	if !strings.Contains(progress.String(), "waiting for another process") {
		t.Errorf("progress %q does not say why it waits", progress.String())
	}
}

func TestWhole(t *testing.T) {
	tests := map[string]struct {
		change func(dir string) error
		want   bool
	}{
		"whole":              {change: func(string) error { return nil }, want: true},
		"one is missing":     {change: func(dir string) error { return os.Remove(filepath.Join(dir, "b")) }},
		"one may not be run": {change: func(dir string) error { return os.Chmod(filepath.Join(dir, "a"), 0o600) }},
		"no folder":          {change: os.RemoveAll},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int32
			s, _ := set(t, &n)
			dir, err := s.Build(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.change(dir); err != nil {
				t.Fatal(err)
			}
			if _, there, err := s.Cached(); there != tt.want || err != nil {
				t.Errorf("there = %v, %v", there, err)
			}
		})
	}
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var progress bytes.Buffer
		done := errors.New("done")
		err := WithHeartbeat(&progress, "2/4 kube-apiserver", func() error {
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

func TestArgs(t *testing.T) {
	p := Program{Name: "kubectl", Package: "k8s.io/kubernetes/cmd/kubectl", Stamps: KubernetesStamps("v1.37.2")}
	all := strings.Join(Args(p, "/out/kubectl"), " ")
	for _, want := range []string{
		"-trimpath", "-ldflags -s -w -X ", "-X k8s.io/component-base/version.gitVersion=v1.37.2 ", "-X k8s.io/client-go/pkg/version.gitMinor=37 ",
		"-o /out/kubectl k8s.io/kubernetes/cmd/kubectl",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q lacks %q", all, want)
		}
	}
}

// TestCompile builds real programs, for another system than this one.
func TestCompile(t *testing.T) {
	var n atomic.Int32
	s, _ := set(t, &n)
	write(t, filepath.Join(s.Dir, "go.mod"), "module x\n\ngo 1.26\n")
	write(t, filepath.Join(s.Dir, "a", "main.go"), "package main\n\nvar v = \"none\"\n\nfunc main() { println(v) }\n")
	write(t, filepath.Join(s.Dir, "b", "main.go"), "package main\n\nfunc main() { nothing() }\n")
	out := filepath.Join(t.TempDir(), "a.exe")
	if err := s.Compile(t.Context(), Program{Name: "a", Package: "./a", Stamps: []string{"main.v=stamped"}}, out); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil || !bytes.HasPrefix(b, []byte("MZ")) || !bytes.Contains(b, []byte("stamped")) || bytes.Contains(b, []byte(s.Dir)) {
		t.Errorf("%d bytes, %v: no program for Windows with its stamp and without our paths", len(b), err)
	}
	err = s.Compile(t.Context(), Program{Name: "b", Package: "./b"}, out)
	if err == nil || !strings.Contains(err.Error(), "undefined: nothing") {
		t.Errorf("a program that does not compile: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Compile(ctx, Program{Name: "a", Package: "./a"}, out); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}
