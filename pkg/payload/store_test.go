package payload

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// folder returns what a folder holds, by name.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(data)
	}
	return out
}

func TestPack(t *testing.T) {
	a, b := bytes.Repeat([]byte("compress me "), 10_000), noiseBytes(1, 50_000)
	one, two := t.TempDir(), filepath.Join(t.TempDir(), "made", "by", "pack")
	s := pack(t, one, source("a.exe", a), source("b.exe", b), source("c.exe", b))
	pack(t, two, source("c.exe", b), source("b.exe", b), source("a.exe", a))
	if d := cmp.Diff(folder(t, one), folder(t, two)); d != "" {
		t.Errorf("the order of the sources shows: %s", d)
	}
	if got := len(folder(t, one)); got != 3 {
		t.Errorf("%d files for two digests", got)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	got, ok := s.Lookup("a.exe")
	if !ok || got.SHA256 != digestOf(a) || got.Size != int64(len(a)) || got.CompressedSize >= got.Size/10 {
		t.Errorf("a.exe is %+v", got)
	}
	if _, ok := s.Lookup("A.EXE"); ok {
		t.Error("names are looked up in any case")
	}
	r, err := s.OpenPlain(digestOf(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := iotest.TestReader(io.LimitReader(r, int64(len(b))), b); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Open(digestOf([]byte("none"))); !errors.Is(err, ErrUnknownBlob) {
		t.Errorf("an unknown digest gave %v", err)
	}
}

func TestPackReplaces(t *testing.T) {
	dir := t.TempDir()
	pack(t, dir, source("a.exe", []byte("old")))
	for _, name := range []string{"README", ".packing-left"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := pack(t, dir, source("a.exe", []byte("new")))
	want := []string{digestOf([]byte("new")) + ".zst", "README", ManifestFile}
	got := folder(t, dir)
	for _, name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the folder holds %d files", len(got))
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

func TestPackErrors(t *testing.T) {
	own := errors.New("broken disk")
	for _, tc := range []struct {
		name   string
		source Source
		want   error
	}{
		{"bad name", source("a/b.exe", []byte("x")), ErrManifest},
		{"empty file", source("a.exe", nil), ErrManifest},
		{"cannot open", Source{Name: "a.exe", Open: func() (io.ReadCloser, error) { return nil, own }}, own},
		{"cannot read", Source{Name: "a.exe", Open: func() (io.ReadCloser, error) { return io.NopCloser(iotest.ErrReader(own)), nil }}, own},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := Pack(dir, []Source{tc.source}); !errors.Is(err, tc.want) {
				t.Errorf("got %v", err)
			}
			if left := folder(t, dir); len(left) != 0 {
				t.Errorf("left behind: %d files", len(left))
			}
		})
	}
	if _, err := Pack(t.TempDir(), nil); !errors.Is(err, ErrManifest) {
		t.Errorf("no sources gave %v", err)
	}
}

func TestOpenStoreErrors(t *testing.T) {
	damage := func(change func(path string) error) func(*testing.T) string {
		return func(t *testing.T) string {
			dir := t.TempDir()
			pack(t, dir, source("a.exe", []byte("hello")))
			if err := change(filepath.Join(dir, digestOf([]byte("hello"))+".zst")); err != nil {
				t.Fatal(err)
			}
			return dir
		}
	}
	for _, tc := range []struct {
		name string
		dir  func(*testing.T) string
		want error
	}{
		{"no folder", func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") }, os.ErrNotExist},
		{"blob missing", damage(os.Remove), os.ErrNotExist},
		{"blob cut", damage(func(p string) error { return os.Truncate(p, 3) }), ErrSize},
		{"manifest too long", func(t *testing.T) string {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, ManifestFile), make([]byte, MaxManifest+1), 0o600); err != nil {
				t.Fatal(err)
			}
			return dir
		}, ErrManifest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := OpenStore(tc.dir(t)); !errors.Is(err, tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestVerify(t *testing.T) {
	good := []byte("hello")
	for _, tc := range []struct {
		name string
		data []byte
		want error
	}{
		{"good", rawZstd(good), nil},
		{"other bytes", rawZstd([]byte("jello")), ErrDigest},
		{"shorter", rawZstd([]byte("hell")), ErrSize},
		{"longer", rawZstd([]byte("hello!")), ErrSize},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := storeOf(t, map[string][]byte{"a.exe": good})
			if err := os.WriteFile(s.path(digestOf(good)), tc.data, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := s.Verify(); !errors.Is(err, tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
