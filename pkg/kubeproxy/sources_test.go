package kubeproxy

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Every field that kube-proxy is told has a source, and every source a field.
func TestEveryFieldHasASource(t *testing.T) {
	sources := map[string]string{}
	read(t, filepath.Join("testdata", "sources.yaml"), &sources)
	files, err := filepath.Glob(filepath.Join("testdata", "*-1.*.yaml"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	seen := map[string]bool{}
	for _, f := range files {
		var m map[string]any
		read(t, f, &m)
		leaves("", m, seen)
	}
	for _, field := range slices.Sorted(maps.Keys(seen)) {
		if s := sources[field]; !strings.HasPrefix(s, "source: ") || len(s) < 20 {
			t.Errorf("%s has no source: %q", field, s)
		}
	}
	for field := range sources {
		if !seen[field] {
			t.Errorf("%s is in no file", field)
		}
	}
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(b, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func leaves(prefix string, m map[string]any, into map[string]bool) {
	for k, v := range m {
		if below, ok := v.(map[string]any); ok {
			leaves(prefix+k+".", below, into)
			continue
		}
		into[prefix+k] = true
	}
}
