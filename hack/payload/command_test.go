package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/payload"
	standin "github.com/windowsmachine/operator/test/payload"
)

func run(args ...string) (string, error) {
	var out bytes.Buffer
	c := newCommand()
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&out)
	err := c.Execute()
	return out.String(), err
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestPackFrom(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "in", "a.exe"), "aaa")
	write(t, filepath.Join(dir, "in", "b.exe"), "bbb")
	write(t, filepath.Join(dir, "in", "folder", "c.exe"), "not taken")
	out := filepath.Join(dir, "out")
	text, err := run("pack", "--from", filepath.Join(dir, "in"), "--out", out, "--version", "v1", "--licence", "MIT", "--source", "here")
	if err != nil || !strings.Contains(text, "2 blobs") {
		t.Fatal(text, err)
	}
	if text, err = run("verify", out); err != nil || !strings.Contains(text, "b.exe") {
		t.Fatal(text, err)
	}
}

func TestPackList(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bin", "a.exe"), "aaa")
	sum := sha256.Sum256([]byte("aaa"))
	good := "- {file: bin/a.exe, version: v1, licence: MIT, source: here, sha256: " + hex.EncodeToString(sum[:]) + "}\n"
	for _, tc := range []struct {
		name, list string
		want       error
	}{
		{"good", good, nil},
		{"renamed", "- {file: bin/a.exe, name: b.exe, version: v1, licence: MIT, source: here}\n", nil},
		{"other digest", strings.Replace(good, "sha256: ", "sha256: 0", 1), errSHA256},
		{"unknown field", "- {file: bin/a.exe, licence: MIT, license: MIT}\n", errList},
		{"no file", "- {name: a.exe}\n", errList},
		{"no version", "- {file: bin/a.exe, licence: MIT, source: here}\n", payload.ErrManifest},
		{"file missing", "- {file: bin/none.exe, version: v1, licence: MIT, source: here}\n", os.ErrNotExist},
		{"empty", "", errNone},
		{"too long", "# " + strings.Repeat("x", maxList), errList},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := filepath.Join(dir, "list.yaml")
			write(t, list, tc.list)
			_, err := run("pack", "--list", list, "--out", t.TempDir())
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestPackUsage(t *testing.T) {
	for _, args := range [][]string{
		{"pack", "--out", t.TempDir()},
		{"pack", "--out", t.TempDir(), "--from", "a", "--list", "b"},
	} {
		if _, err := run(args...); !errors.Is(err, errFrom) {
			t.Errorf("%v gave %v", args, err)
		}
	}
	for _, args := range [][]string{{"pack", "--from", "."}, {"verify"}, {"stand-in"}, {"none"}} {
		if _, err := run(args...); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

func TestStandIn(t *testing.T) {
	dir := t.TempDir()
	if text, err := run("stand-in", "--out", dir, "--scale", "0.0001"); err != nil {
		t.Fatal(text, err)
	}
	got, err := payload.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	want, err := standin.Generate(t.TempDir(), 0.0001)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.Manifest(), got.Manifest()); d != "" {
		t.Error(d)
	}
	if _, err := run("stand-in", "--out", dir, "--scale", "7"); !errors.Is(err, standin.ErrScale) {
		t.Errorf("a bad scale gave %v", err)
	}
}
