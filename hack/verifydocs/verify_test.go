package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// checkout writes a tree that is right, with edits.
func checkout(t *testing.T, edits map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"doc.go":              "// Command operator is the operator, and does what operators do.\npackage main\n",
		"main.go":             "package main\n\nfunc main() {}\n",
		"pkg/a/doc.go":        "// Package a holds the letter a and everything that follows from it.\npackage a\n",
		"pkg/a/testdata/x.go": "no Go",
		"out/b.go":            "no Go",
		"hack/x/go.mod":       "module x\n",
		"hack/x/y/main.go":    "package main\n",
		architecture:          "| `main.go` | `pkg/a` |\n\n[the other](formats.md#plan), [far](https://example.test/x)\n",
		"docs/formats.md":     "# Formats\n",
		"g/one.json":          `{"a":1,"b":["x"]}` + "\n",
		"g/many.txt":          "# comment\none\n  two\nthree\n",
	}
	for name, text := range edits {
		files[name] = text
	}
	for name, text := range files {
		if text == "" {
			continue
		}
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

// formats is a document with one excerpt.
func formats(golden, block string) map[string]string {
	return map[string]string{"docs/formats.md": "<!-- golden: " + golden + " -->\n```\n" + block + "\n```\n"}
}

func TestCheck(t *testing.T) {
	const differs = "docs/formats.md:1: the excerpt is not in g/"
	for _, c := range []struct {
		name  string
		edits map[string]string
		want  []string
	}{
		{"all is right", nil, nil},
		{"JSON, readably", formats("g/one.json", "{\n  \"a\": 1,\n  \"b\": [ \"x\" ]\n}"), nil},
		{"JSON with another value", formats("g/one.json", "{\n  \"a\": 2,\n  \"b\": [ \"x\" ]\n}"), []string{differs + "one.json as it stands"}},
		{"JSON in another order", formats("g/one.json", `{"b":["x"],"a":1}`), []string{differs + "one.json as it stands"}},
		{"lines", formats("g/many.txt", "one\n  two"), nil},
		{"all lines", formats("g/many.txt", "one\n  two\nthree"), nil},
		{"half a line", formats("g/many.txt", "one\n  tw"), []string{differs + "many.txt as it stands"}},
		{"lines with a gap", formats("g/many.txt", "one\nthree"), []string{differs + "many.txt as it stands"}},
		{"nothing", formats("g/many.txt", ""), []string{differs + "many.txt as it stands"}},
		{"no golden", formats("g/none", "x"), []string{"docs/formats.md:1: there is no file g/none"}},
		{"no end", map[string]string{"docs/formats.md": "```\nx\n"}, []string{"docs/formats.md:1: a block or an excerpt has no end"}},
		{"no block", map[string]string{"docs/formats.md": "<!-- golden: g/one.json -->\ntext\n"}, []string{"docs/formats.md:2: the block of g/one.json must follow its marker"}},
		{"any other block", map[string]string{"docs/formats.md": "```\n[x](nowhere.md)\n```\n"}, nil},
		{"a dead link", map[string]string{"README.md": "see [x](docs/none.md#a)\n"}, []string{"README.md:1: link to docs/none.md, which is not there"}},
		{"a package without a doc.go", map[string]string{"pkg/a/doc.go": "", "pkg/a/a.go": "// Package a is about the letter, at length.\npackage a\n"}, []string{"pkg/a: no doc.go"}},
		{
			"an empty doc.go",
			map[string]string{"pkg/a/doc.go": "package a\n"},
			[]string{`pkg/a: the comment in doc.go must begin with "Package a " and say what the package is for`},
		},
		{
			"a command's doc.go",
			map[string]string{"doc.go": "// Package main is the operator, and does what they do.\npackage main\n"},
			[]string{`.: the comment in doc.go must begin with "Command " and say what the package is for`},
		},
		{"a doc.go with code", map[string]string{"pkg/a/doc.go": "// Package a holds the letter a and everything that follows.\npackage a\n\nconst A = 1\n"}, []string{"pkg/a: doc.go holds code"}},
		{
			"a package that the architecture does not name",
			map[string]string{"pkg/b/doc.go": "// Package b holds the letter b and everything that follows.\npackage b\n"},
			[]string{"docs/architecture.md: does not name `pkg/b`"},
		},
		{
			"packages that the architecture names together",
			map[string]string{
				"t/b/doc.go": "// Package b holds the letter b and everything that follows from it.\npackage b\n",
				architecture: "`main.go` `pkg/a` `t/*`\n",
			},
			nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := check(checkout(t, c.edits))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestCheckNeedsTheArchitecture(t *testing.T) {
	if _, err := check(checkout(t, map[string]string{architecture: ""})); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want %v", err, fs.ErrNotExist)
	}
}
