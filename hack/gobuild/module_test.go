package gobuild

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestVersion(t *testing.T) {
	const mod = `module example.com/x

tool example.com/single/cmd

require example.com/single v1.2.3 // indirect

require (
	example.com/block/v3 v3.8.0-rc.1
	example.com/other v0.0.1 // indirect
)

replace example.com/replaced => example.com/replaced v0.1.0
`
	m := Module{Dir: "x", Files: map[string][]byte{"go.mod": []byte(mod)}}
	for path, want := range map[string]string{
		"example.com/single": "v1.2.3", "example.com/block/v3": "v3.8.0-rc.1", "example.com/replaced": "", "example.com/bloc": "", "example.com": "",
		"example.com/sing.e": "",
	} {
		got, err := m.Version(path)
		if got != want || errors.Is(err, ErrNoVersion) != (want == "") {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

func TestKey(t *testing.T) {
	files := func(changes ...string) map[string][]byte {
		out := map[string][]byte{"go.mod": []byte("module x"), "go.sum": []byte("sum")}
		for i := 0; i < len(changes); i += 2 {
			out[changes[i]] = []byte(changes[i+1])
		}
		return out
	}
	seen := map[string]string{}
	for what, key := range map[string]string{
		"as it is":     Module{Files: files()}.Key("1", "go1.26"),
		"content":      Module{Files: files("go.sum", "other")}.Key("1", "go1.26"),
		"one more":     Module{Files: files("main.go", "")}.Key("1", "go1.26"),
		"other part":   Module{Files: files()}.Key("1", "go1.27"),
		"parts joined": Module{Files: files()}.Key("1go1.26"),
	} {
		if other, ok := seen[key]; ok || len(key) != 16 {
			t.Errorf("%q and %q have the same key %s", what, other, key)
		}
		seen[key] = what
	}
	if a, b := (Module{Dir: "a", Files: files()}), (Module{Dir: "b", Files: files()}); a.Key() != b.Key() {
		t.Error("the folder's place decides the key")
	}
}

func TestOpenModule(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module x")
	if _, err := OpenModule(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without go.sum: %v", err)
	}
	write(t, filepath.Join(dir, "go.sum"), "sum")
	write(t, filepath.Join(dir, "a", "main.go"), "package main")
	m, err := OpenModule(dir, "a/main.go")
	if err != nil || len(m.Files) != 3 {
		t.Errorf("%v, %v", m.Files, err)
	}
	write(t, filepath.Join(dir, "go.sum"), strings.Repeat("x", maxFile))
	if _, err := OpenModule(dir); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	write(t, filepath.Join(dir, "go.sum"), strings.Repeat("x", maxFile+1))
	if _, err := OpenModule(dir); err == nil {
		t.Error("over the limit: no error")
	}
}

func TestRoot(t *testing.T) {
	root := t.TempDir()
	inner := filepath.Join(root, "hack", "tool", "deep")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "go.mod"), "module "+modulePath+"\n\ngo 1.26\n")
	write(t, filepath.Join(root, "hack", "tool", "go.mod"), "module "+modulePath+"/hack/tool\n")
	if got, ok := rootAbove(inner); !ok || got != root {
		t.Errorf("from a module inside: %q, %v", got, ok)
	}
	if got, ok := rootAbove(t.TempDir()); ok {
		t.Errorf("outside of the repository: %q", got)
	}
	if got, err := Root(); err != nil || filepath.Base(filepath.Dir(filepath.Join(got, "hack"))) == "" {
		t.Errorf("%q, %v", got, err)
	}
}
