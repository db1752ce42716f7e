package controlplane

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const goMod = `module example.com/x

tool k8s.io/kubernetes/cmd/kubectl

require k8s.io/kubernetes v1.37.2 // indirect

require go.etcd.io/etcd/server/v3 v3.7.3
`

// sourceFilesWith are the files of a tools module, with changes.
func sourceFilesWith(changes map[string]string) map[string][]byte {
	files := map[string][]byte{"go.mod": []byte(goMod), "go.sum": []byte("sum"), "etcd/main.go": []byte("package main")}
	for name, content := range changes {
		files[name] = []byte(content)
	}
	return files
}

func TestNewSource(t *testing.T) {
	tests := map[string]struct {
		mod          string
		want         source
		wantNoSource bool
	}{
		"single requires, one marked indirect": {mod: goMod, want: source{kubernetes: "v1.37.2", minor: "37", etcd: "v3.7.3"}},
		"one block": {
			mod:  "module x\nrequire (\n\tgo.etcd.io/etcd/server/v3 v3.8.0-rc.1\n\tk8s.io/kubernetes v1.38.0 // indirect\n)\n",
			want: source{kubernetes: "v1.38.0", minor: "38", etcd: "v3.8.0-rc.1"},
		},
		"no etcd":       {mod: "module x\nrequire k8s.io/kubernetes v1.37.2\n", wantNoSource: true},
		"no kubernetes": {mod: "module x\nrequire go.etcd.io/etcd/server/v3 v3.7.3\n", wantNoSource: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := newSource("dir", sourceFilesWith(map[string]string{"go.mod": tt.mod}), "go1.26", "linux", "amd64")
			if (err != nil) != tt.wantNoSource {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				return
			}
			if !strings.HasPrefix(got.key, "controlplane-"+tt.want.kubernetes+"-etcd-"+tt.want.etcd+"-") {
				t.Errorf("key %q does not start with the versions", got.key)
			}
			tt.want.dir, tt.want.key = "dir", got.key
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(source{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestKeyCoversEverythingThatDecidesTheContent(t *testing.T) {
	key := func(changes map[string]string, goVersion, goos, goarch string) string {
		s, err := newSource("dir", sourceFilesWith(changes), goVersion, goos, goarch)
		if err != nil {
			t.Fatal(err)
		}
		return s.key
	}
	keys := map[string]string{
		"as it is":     key(nil, "go1.26", "linux", "amd64"),
		"go.sum":       key(map[string]string{"go.sum": "other"}, "go1.26", "linux", "amd64"),
		"go.mod":       key(map[string]string{"go.mod": goMod + "\n"}, "go1.26", "linux", "amd64"),
		"etcd main":    key(map[string]string{"etcd/main.go": "package main\n"}, "go1.26", "linux", "amd64"),
		"go version":   key(nil, "go1.27", "linux", "amd64"),
		"os":           key(nil, "go1.26", "darwin", "amd64"),
		"architecture": key(nil, "go1.26", "linux", "arm64"),
	}
	seen := map[string]string{}
	for what, k := range keys {
		if other, ok := seen[k]; ok {
			t.Errorf("%q and %q have the same key %s", what, other, k)
		}
		seen[k] = what
	}
	if again := key(nil, "go1.26", "linux", "amd64"); again != keys["as it is"] {
		t.Errorf("the key changes from one call to the next: %s, %s", keys["as it is"], again)
	}
}

func TestFindSourceReadsThisRepository(t *testing.T) {
	got, err := findSource()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.kubernetes, "v1.") || !strings.HasPrefix(got.etcd, "v3.") {
		t.Errorf("versions %q and %q", got.kubernetes, got.etcd)
	}
}

func TestRootAbove(t *testing.T) {
	root := t.TempDir()
	inner := filepath.Join(root, "hack", "tool", "deep")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(root, "go.mod"), "module "+modulePath+"\n\ngo 1.26\n")
	writeFile(t, filepath.Join(root, "hack", "tool", "go.mod"), "module "+modulePath+"/hack/tool\n")
	if got, ok := rootAbove(inner); !ok || got != root {
		t.Errorf("from a module inside: %q, %v", got, ok)
	}
	if got, ok := rootAbove(t.TempDir()); ok {
		t.Errorf("outside of the repository: %q", got)
	}
}

func TestReadFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	writeFile(t, path, strings.Repeat("x", 10))
	if b, err := readFile(path, 10); err != nil || len(b) != 10 {
		t.Errorf("at the limit: %d bytes, %v", len(b), err)
	}
	if _, err := readFile(path, 9); err == nil {
		t.Error("over the limit: no error")
	}
	if _, err := readFile(filepath.Join(t.TempDir(), "none"), 9); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
