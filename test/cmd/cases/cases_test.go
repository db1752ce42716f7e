package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree writes a checkout with a list and test files.
func tree(t *testing.T, list string, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files[listFile] = list
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const someList = "# id, then what it is about\n\nW03 gzip\nW18 addresses\nW50 quotes\nW53 blanks\n"

func someTests() map[string]string {
	return map[string]string{
		"pkg/a/a_test.go":          "package a\n\nfunc TestW18Second() {}\nfunc TestW18First() {}\nfunc TestWindows() {}\nfunc helperW03() {}\n",
		"pkg/b/b_test.go":          "package b\n\ntype s struct{}\n\nfunc (s) TestW03Method() {}\nfunc TestW50W53Both() {}\nfunc FuzzW50() {}\n",
		"pkg/b/b.go":               "package b\n\nfunc TestW03NotATestFile() {}\n",
		"pkg/b/testdata/x_test.go": "this is no Go",
		".git/x_test.go":           "this is no Go",
		"out/x_test.go":            "this is no Go",
	}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name    string
		missing bool
		want    string
	}{
		{"all", false, `W03  gzip
       (no test yet)
W18  addresses
       pkg/a.TestW18First
       pkg/a.TestW18Second
W50  quotes
       pkg/b.FuzzW50
       pkg/b.TestW50W53Both
W53  blanks
       pkg/b.TestW50W53Both
3 of 4 cases have a test
`},
		{"missing", true, "W03  gzip\n       (no test yet)\n3 of 4 cases have a test\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := run(&out, tree(t, someList, someTests()), c.missing); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	stray := someTests()
	stray["pkg/a/z_test.go"] = "package a\n\nfunc TestW99Unknown() {}\n"
	for _, c := range []struct {
		name, list string
		files      map[string]string
		want       error
	}{
		{"a test of an unknown case", someList, stray, errStray},
		{"a line without a text", "W03\n", map[string]string{}, errList},
		{"an id of another form", "X03 gzip\n", map[string]string{}, errList},
		{"an id that is there twice", "W03 gzip\nW03 again\n", map[string]string{}, errList},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := run(&bytes.Buffer{}, tree(t, c.list, c.files), false); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
	t.Run("a checkout without a list", func(t *testing.T) {
		if err := run(&bytes.Buffer{}, t.TempDir(), false); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error %v, want %v", err, os.ErrNotExist)
		}
	})
	t.Run("a test file that is no Go", func(t *testing.T) {
		if err := run(&bytes.Buffer{}, tree(t, someList, map[string]string{"pkg/a/a_test.go": "no Go"}), false); err == nil {
			t.Error("no error")
		}
	})
}

// TestPromisedCases: these cases are promised, so each must keep a test.
func TestPromisedCases(t *testing.T) {
	tests, err := testsByCase("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{
		"W03", "W04", "W05", "W06", "W08", "W10", "W18", "W19", "W20", "W22", "W25", "W28", "W30", "W31", "W32", "W33", "W34", "W66", "W67",
	} {
		if len(tests[id]) == 0 {
			t.Errorf("%s has no test", id)
		}
	}
}
