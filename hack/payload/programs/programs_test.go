package programs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/hack/gobuild"
	"github.com/windowsmachine/operator/pkg/payload"
)

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// built is a part whose programs lie in the cache already: their content is their name.
func built(t *testing.T) Part {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	o := origin{
		folder: "tiny", module: "example.com/tiny", licence: "MIT", takes: "a second",
		programs: []program{
			{name: "one.exe", pkg: "example.com/tiny/one"},
			{name: "two.exe", pkg: "example.com/library/two", module: "example.com/library"},
		},
		stamps: stamp("main.version"),
	}
	p, err := newPart(o, gobuild.Module{Dir: t.TempDir(), Files: map[string][]byte{
		"go.mod": []byte("module x\nrequire example.com/tiny v1.2.3\nrequire example.com/library v0.4.0 // indirect\n"), "go.sum": nil,
	}}, "go1.26")
	if err != nil {
		t.Fatal(err)
	}
	dir, _, err := p.Cached()
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range p.Programs {
		write(t, filepath.Join(dir, program.Name), program.Name)
	}
	return p
}

func TestOriginsOfThisRepository(t *testing.T) {
	root, err := gobuild.Root()
	if err != nil {
		t.Fatal(err)
	}
	parts, err := Parts(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range parts {
		for _, program := range p.Programs {
			names = append(names, program.Name)
			b := p.blobs[program.Name]
			if !strings.HasPrefix(b.version, "v") || b.licence == "" || !strings.HasPrefix(program.Package, b.source+"/") && program.Package != b.source {
				t.Errorf("%s of %s is described as %+v", program.Name, program.Package, b)
			}
			if tool := []byte(program.Package + "\n"); !bytes.Contains(p.module.Files["go.mod"], tool) {
				t.Errorf("%s: go.mod has no tool line for %s", p.Label, program.Package)
			}
		}
	}
	want := []string{
		"kube-log-runner.exe", "kube-proxy.exe", "kubelet.exe", "containerd.exe", "containerd-shim-runhcs-v1.exe",
		"host-local.exe", "win-bridge.exe", "win-overlay.exe", "windows_exporter.exe",
	}
	if d := cmp.Diff(want, names); d != "" {
		t.Error(d)
	}
}

// TestOneKubernetes: nodes and the tests' control plane are of one release.
func TestOneKubernetes(t *testing.T) {
	root, err := gobuild.Root()
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]bool{}
	for _, dir := range []string{"hack/controlplane", modulesFolder + "/kubernetes"} {
		m, err := gobuild.OpenModule(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		v, err := m.Version("k8s.io/kubernetes")
		if err != nil {
			t.Fatal(err)
		}
		versions[v] = true
	}
	if len(versions) != 1 {
		t.Errorf("%v: run hack/controlplane/update.sh, which moves both", versions)
	}
}

func TestNewPart(t *testing.T) {
	p := built(t)
	want := map[string]description{
		"one.exe": {"v1.2.3", "MIT", "example.com/tiny"},
		"two.exe": {"v0.4.0", "MIT", "example.com/library"},
	}
	if d := cmp.Diff(want, p.blobs, cmp.AllowUnexported(description{})); d != "" {
		t.Error(d)
	}
	if p.OS != "windows" || p.Arch != "amd64" || !strings.HasPrefix(p.Folder, "payload-tiny-v1.2.3-") || p.Programs[1].Stamps[0] != "main.version=v1.2.3" {
		t.Errorf("%+v", p.Set)
	}
	o := origin{folder: "tiny", module: "example.com/none", stamps: stamp("v")}
	if _, err := newPart(o, p.module, "go1.26"); !errors.Is(err, gobuild.ErrNoVersion) {
		t.Errorf("a module that is not required: %v", err)
	}
}

func TestKeyCoversTheRecipe(t *testing.T) {
	m := gobuild.Module{Files: map[string][]byte{"go.mod": []byte("module x\nrequire example.com/tiny v1.2.3\n")}}
	base := origin{folder: "tiny", module: "example.com/tiny", programs: []program{{name: "a.exe", pkg: "example.com/tiny/a"}}, stamps: stamp("v")}
	key := func(goVersion string, change func(*origin)) string {
		o := base
		if change != nil {
			change(&o)
		}
		p, err := newPart(o, m, goVersion)
		if err != nil {
			t.Fatal(err)
		}
		return p.Folder
	}
	seen := map[string]string{}
	for what, k := range map[string]string{
		"as it is": key("go1.26", nil),
		"Go":       key("go1.27", nil),
		"stamps":   key("go1.26", func(o *origin) { o.stamps = stamp("w") }),
		"package":  key("go1.26", func(o *origin) { o.programs = []program{{name: "a.exe", pkg: "example.com/tiny/b"}} }),
		"name":     key("go1.26", func(o *origin) { o.programs = []program{{name: "b.exe", pkg: "example.com/tiny/a"}} }),
	} {
		if other, ok := seen[k]; ok {
			t.Errorf("%q and %q have the same key %s", what, other, k)
		}
		seen[k] = what
	}
}

func TestCached(t *testing.T) {
	p := built(t)
	extra := Declared{
		Name: "extra.exe", Version: "v9", Licence: "MIT", Source: "example.com/extra", SHA256: digest("extra"),
		Path: write(t, filepath.Join(t.TempDir(), "whatever"), "extra"),
	}
	s, err := cached(t.Context(), nil, []Part{p}, []Declared{extra})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	got := map[string]payload.Blob{}
	for _, b := range s.Manifest().Blobs {
		b.CompressedSize = 0
		got[b.Name] = b
	}
	want := map[string]payload.Blob{
		"one.exe":   {Name: "one.exe", Version: "v1.2.3", SHA256: digest("one.exe"), Size: 7, Licence: "MIT", Source: "example.com/tiny"},
		"two.exe":   {Name: "two.exe", Version: "v0.4.0", SHA256: digest("two.exe"), Size: 7, Licence: "MIT", Source: "example.com/library"},
		"extra.exe": {Name: "extra.exe", Version: "v9", SHA256: digest("extra"), Size: 5, Licence: "MIT", Source: "example.com/extra"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// The second time nothing is read or said, not even the files that were declared.
	if err := os.Remove(extra.Path); err != nil {
		t.Fatal(err)
	}
	var progress bytes.Buffer
	again, err := cached(t.Context(), &progress, []Part{p}, []Declared{extra})
	if err != nil || again.Dir() != s.Dir() || progress.Len() != 0 {
		t.Errorf("again: %v, %q", err, progress.String())
	}
	// Without the declared file it is another payload.
	bare, err := cached(t.Context(), nil, []Part{p}, nil)
	if err != nil || bare.Dir() == s.Dir() || len(bare.Manifest().Blobs) != 2 {
		t.Errorf("without it: %v", err)
	}
}

func TestDeclaredIsRefused(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "f"), "content")
	good := Declared{Name: "extra.exe", Version: "v9", Licence: "MIT", Source: "x", SHA256: digest("content"), Path: file}
	for name, tt := range map[string]struct {
		declared []Declared
		want     error
		says     string
	}{
		"name of a program": {[]Declared{with(good, func(d *Declared) { d.Name = "ONE.exe" })}, payload.ErrManifest, "named twice"},
		"two of a name":     {[]Declared{good, with(good, func(d *Declared) { d.Name = "EXTRA.exe" })}, payload.ErrManifest, "named twice"},
		"no name":           {[]Declared{with(good, func(d *Declared) { d.Name = "/" })}, payload.ErrManifest, "plain file name"},
		"no digest":         {[]Declared{with(good, func(d *Declared) { d.SHA256 = "" })}, payload.ErrManifest, "sha256"},
		"changed since":     {[]Declared{with(good, func(d *Declared) { d.SHA256 = digest("other") })}, ErrChanged, digest("content")},
		"file is gone":      {[]Declared{with(good, func(d *Declared) { d.Path = file + "-none" })}, os.ErrNotExist, "extra.exe"},
		"an ended context":  {nil, context.Canceled, "tiny"},
	} {
		t.Run(name, func(t *testing.T) {
			p := built(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if errors.Is(tt.want, context.Canceled) {
				cancel()
				p.Folder += "-not-there"
			}
			_, err := cached(ctx, io.Discard, []Part{p}, tt.declared)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v", err)
			}
			cache, err := gobuild.CacheDir()
			if err != nil {
				t.Fatal(err)
			}
			found, err := filepath.Glob(filepath.Join(cache, "payload-*", payload.ManifestFile))
			if err != nil || len(found) != 0 {
				t.Errorf("packed all the same: %v, %v", found, err)
			}
		})
	}
}

func with(d Declared, change func(*Declared)) Declared {
	change(&d)
	return d
}

func TestRebuild(t *testing.T) {
	p := built(t)
	for name, tt := range map[string]struct {
		names   []string
		content func(name string) string
		want    []Comparison
	}{
		"all, the same": {nil, func(name string) string { return name }, []Comparison{
			{"one.exe", digest("one.exe"), digest("one.exe")}, {"two.exe", digest("two.exe"), digest("two.exe")},
		}},
		"one, different": {[]string{"two.exe"}, func(string) string { return "a path" }, []Comparison{
			{"two.exe", digest("two.exe"), digest("a path")},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := p.rebuild(t.Context(), io.Discard, tt.names, func(s gobuild.Set, pr gobuild.Program, out, cache string) error {
				if s.Dir == p.Dir || strings.HasPrefix(s.Dir, cache) {
					t.Errorf("built in %s with the cache %s", s.Dir, cache)
				}
				if b, err := os.ReadFile(filepath.Join(s.Dir, "go.mod")); err != nil || !bytes.Equal(b, p.module.Files["go.mod"]) {
					t.Errorf("go.mod of the copy: %q, %v", b, err)
				}
				return os.WriteFile(out, []byte(tt.content(pr.Name)), 0o700)
			})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
			for _, c := range got {
				if c.Same() != (tt.names == nil) {
					t.Errorf("%+v: same = %v", c, c.Same())
				}
			}
		})
	}
	broken := errors.New("broken")
	if _, err := p.rebuild(t.Context(), io.Discard, nil, func(gobuild.Set, gobuild.Program, string, string) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("a build that fails: %v", err)
	}
}
