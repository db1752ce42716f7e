package payload

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCopyTo(t *testing.T) {
	from := pack(t, t.TempDir(), source("a.exe", []byte("aaa")), source("b.exe", []byte("bbb")))
	to := filepath.Join(t.TempDir(), "new", "place")
	pack(t, to, source("old.exe", []byte("old")))
	if err := os.WriteFile(filepath.Join(to, "README"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := folder(t, from.Dir())
	want["README"] = "kept"
	for range 2 {
		s, err := from.CopyTo(to)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Verify(); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(want, folder(t, to)); d != "" {
			t.Error(d)
		}
	}
	// Packing something else over the copy leaves the original whole.
	pack(t, to, source("a.exe", []byte("other")))
	if err := from.Verify(); err != nil {
		t.Error(err)
	}
}

func TestCopyToErrors(t *testing.T) {
	from := pack(t, t.TempDir(), source("a.exe", []byte("aaa")))
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := from.CopyTo(file); err == nil {
		t.Error("a file is taken for a folder")
	}
	if err := os.Remove(from.path(digestOf([]byte("aaa")))); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if _, err := from.CopyTo(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a blob that is gone: %v", err)
	}
	if _, err := OpenStore(to); err == nil {
		t.Error("a manifest was written without its blobs")
	}
}

func TestCopyFile(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(to, from); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(to); err != nil || string(got) != "content" {
		t.Errorf("%q, %v", got, err)
	}
	if err := copyFile(to, from); !errors.Is(err, os.ErrExist) {
		t.Errorf("over an existing file: %v", err)
	}
}
