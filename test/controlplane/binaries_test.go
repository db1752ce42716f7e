package controlplane

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/hack/gobuild"
)

const goMod = `module example.com/x

tool k8s.io/kubernetes/cmd/kubectl

require k8s.io/kubernetes v1.37.2 // indirect

require go.etcd.io/etcd/server/v3 v3.7.3
`

// module is a tools module with changes.
func module(changes map[string]string) gobuild.Module {
	m := gobuild.Module{Dir: "dir", Files: map[string][]byte{
		"go.mod": []byte(goMod), "go.sum": []byte("sum"), etcdMain: []byte("package main"),
	}}
	for name, content := range changes {
		m.Files[name] = []byte(content)
	}
	return m
}

func TestNewBinaries(t *testing.T) {
	set, err := newBinaries(module(nil), "go1.26", "linux", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(set.Folder, "controlplane-v1.37.2-etcd-v3.7.3-") || set.OS != "linux" || set.Arch != "amd64" || set.Dir != "dir" {
		t.Errorf("%+v", set)
	}
	var names []string
	for _, p := range set.Programs {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"}, names); diff != "" {
		t.Error(diff)
	}
	for _, mod := range []string{"module x\nrequire k8s.io/kubernetes v1.37.2\n", "module x\nrequire go.etcd.io/etcd/server/v3 v3.7.3\n"} {
		if _, err := newBinaries(module(map[string]string{"go.mod": mod}), "go1.26", "linux", "amd64"); !errors.Is(err, gobuild.ErrNoVersion) {
			t.Errorf("%q: %v", mod, err)
		}
	}
}

func TestKeyCoversEverythingThatDecidesTheContent(t *testing.T) {
	key := func(changes map[string]string, goVersion, goos, goarch string) string {
		set, err := newBinaries(module(changes), goVersion, goos, goarch)
		if err != nil {
			t.Fatal(err)
		}
		return set.Folder
	}
	keys := map[string]string{
		"as it is":     key(nil, "go1.26", "linux", "amd64"),
		"go.sum":       key(map[string]string{"go.sum": "other"}, "go1.26", "linux", "amd64"),
		"go.mod":       key(map[string]string{"go.mod": goMod + "\n"}, "go1.26", "linux", "amd64"),
		"etcd main":    key(map[string]string{etcdMain: "package main\n"}, "go1.26", "linux", "amd64"),
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
}

func TestBinariesAreThereAfterTheFirstTime(t *testing.T) {
	first, err := Binaries(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	// Without a PATH there is no go command to start.
	t.Setenv("PATH", t.TempDir())
	var progress bytes.Buffer
	second, err := Binaries(t.Context(), &progress)
	if err != nil || second != first || progress.String() != "" {
		t.Errorf("again: %q, %v, progress %q", second, err, progress.String())
	}
	if path, built, err := BinariesPath(); path != first || !built || err != nil {
		t.Errorf("path: %q, %v, %v", path, built, err)
	}
}
