package sources

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFields(t *testing.T) {
	got, err := Fields([]byte(`{"a":1,"b":[{"c":"x"},{"c":"y","d":null}],"e":[],"f":{"g":[true]},"h":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b[].c", "b[].d", "e[]", "f.g[]", "h"}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := Fields([]byte(`{`)); err == nil {
		t.Error("half a document is one")
	}
}

func TestCompare(t *testing.T) {
	missing, unused := Compare(map[string]Line{"a": {"x y"}, "old": {"x y"}}, []string{"a", "b", "b"})
	if diff := cmp.Diff([]string{"b"}, missing); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"old"}, unused); diff != "" {
		t.Error(diff)
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.yaml")
	for text, ok := range map[string]bool{
		"a: {source: \"hcsshim hcn\"}": true, "a: {source: \"?\"}": false, "a: {sauce: \"hcsshim hcn\"}": false, "a: [": false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Read(path + "x"); err == nil {
		t.Error("no file is one")
	}
}
