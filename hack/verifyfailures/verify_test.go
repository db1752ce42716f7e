package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// checkout writes a tree whose list has all rows shown, but for the cells that are given by number.
func checkout(t *testing.T, cells map[int]string) string {
	t.Helper()
	root := t.TempDir()
	var list strings.Builder
	list.WriteString("# Failures\n\n| # | Threads | Symptom | Here | State |\n| --- | --- | --- | --- | --- |\n")
	for n := 1; n <= rows; n++ {
		cell, ok := cells[n]
		if !ok {
			cell = "shown: `a.TestOne`"
		}
		if cell != "" {
			fmt.Fprintf(&list, "| %d | x#%d | breaks | does not | %s |\n", n, n, cell)
		}
	}
	for name, text := range map[string]string{
		listFile:                      list.String(),
		"pkg/a/a_test.go":             "package a\n\nfunc TestOne() {}\nfunc FuzzTwo() {}\nfunc TestFailure07Taken() {}\nfunc helper() {}\n\ntype s struct{}\n\nfunc (s) TestMethod() {}\n",
		"pkg/planner/p.go":            "package planner\n\ntype Code string\n\nconst (\n\tCodeA Code = \"A\"\n\tOther = \"B\"\n)\n\nconst C Code = \"C\"\n",
		"pkg/planner/testdata/x.go":   "no Go",
		"out/y_test.go":               "no Go",
		"pkg/b/generated/z_test.go":   "package z\n\nfunc TestZ() {}\n",
		"pkg/planner/deeper/other.go": "package deeper\n\nconst D Code = \"D\"\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestCheck(t *testing.T) {
	many := map[int]string{7: "shown: `a.TestFailure07Taken`"}
	for n := 20; n < 20+rows-leastShown+1; n++ {
		many[n] = "open: nothing yet"
	}
	seven := func(n int, cell string) map[int]string {
		return map[int]string{7: "shown: `a.TestFailure07Taken`", n: cell}
	}
	for _, c := range []struct {
		name  string
		cells map[int]string
		want  []string
	}{
		{"all", seven(1, "shown: `preflight:A`, `preflight:C` and `a.FuzzTwo`"), nil},
		{"one test for two rows", seven(9, "shown: `a.TestFailure07Taken`"), nil},
		{"partly and open", map[int]string{7: "partly: `a.TestFailure07Taken`", 8: "open: why"}, nil},
		{"a test that there is not", seven(2, "shown: `a.TestNone`"), []string{"row 2 names `a.TestNone`, which there is not"}},
		{"a test of another folder", seven(2, "shown: `b.TestZ`"), []string{"row 2 names `b.TestZ`, which there is not"}},
		{"a method", seven(2, "shown: `a.TestMethod`"), []string{"row 2 names `a.TestMethod`, which there is not"}},
		{"a constant that is no code", seven(2, "shown: `preflight:B`"), []string{"row 2 names `preflight:B`, which there is not"}},
		{"a code of another package", seven(2, "shown: `preflight:D`"), []string{"row 2 names `preflight:D`, which there is not"}},
		{"shown by nothing", seven(2, "shown: believe it"), []string{"row 2 is shown and names 0 tests or checks"}},
		{"partly by nothing", seven(2, "partly: believe it"), []string{"row 2 is partly and names 0 tests or checks"}},
		{"open with a test", seven(2, "open: `a.TestOne`"), []string{"row 2 is open and names 1 tests or checks"}},
		{"no state", seven(2, "`a.TestOne`"), []string{"row 2: must end in a cell that begins with shown, partly or open", "row 2 is not in its place; the rows go from 1 to 68"}},
		{"a cell too many", seven(2, "shown | `a.TestOne`"), []string{"row 2: has 6 cells, not 5", "row 2 is not in its place; the rows go from 1 to 68"}},
		{"a row is missing", seven(68, ""), []string{"row 68 is not in its place; the rows go from 1 to 68"}},
		{"the row of another number", map[int]string{7: "shown: `a.TestOne`", 8: "shown: `a.TestFailure07Taken`"}, []string{"`a.TestFailure07Taken` is not named in row 7"}},
		{"too few", many, []string{"39 rows are shown, at least 40 must be"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			summary, got, err := check(checkout(t, c.cells))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if !strings.HasPrefix(summary, "6") || !strings.Contains(summary, "shown") {
				t.Errorf("summary %q", summary)
			}
		})
	}
	if _, _, err := check(t.TempDir()); err == nil {
		t.Error("a tree without a list has no error")
	}
}

// TestList: the list of this tree is true.
func TestList(t *testing.T) {
	summary, findings, err := check("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		t.Error(f)
	}
	t.Log(summary)
}
