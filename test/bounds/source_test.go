package bounds

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// source is a file of the product or of its tests.
type source struct {
	// name is its path from the root, with slashes.
	name string
	ast  *ast.File
	fset *token.FileSet
	// imports is the import path by the name that the file uses.
	imports map[string]string
}

// where is the position of a node.
func (s source) where(n ast.Node) string {
	return s.name + ":" + strconv.Itoa(s.fset.Position(n.Pos()).Line)
}

func (s source) test() bool { return strings.HasSuffix(s.name, "_test.go") }

// parse reads one file.
func parse(t *testing.T, name string, text any) source {
	t.Helper()
	s := source{name: name, fset: token.NewFileSet(), imports: map[string]string{}}
	var err error
	if s.ast, err = parser.ParseFile(s.fset, name, text, parser.SkipObjectResolution); err != nil {
		t.Fatal(err)
	}
	for _, i := range s.ast.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		local := path.Base(p)
		if i.Name != nil {
			local = i.Name.Name
		}
		s.imports[local] = p
	}
	return s
}

// tree reads all Go files below folders.
func tree(t *testing.T, folders ...string) []source {
	t.Helper()
	const root = "../.."
	var out []source
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") {
				return err
			}
			rel, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			out = append(out, parse(t, filepath.ToSlash(rel), text))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// product is the product's own source: no tests, and none of the parts that stand in for a machine.
func product(t *testing.T) []source {
	t.Helper()
	var out []source
	for _, s := range tree(t, "main.go", "controllers", "pkg", "cmd") {
		if !s.test() && !strings.Contains(s.name, "/sshtest/") && !strings.Contains(s.name, "/winrmtest/") && !strings.Contains(s.name, "/system/fake/") {
			out = append(out, s)
		}
	}
	if len(out) < 100 {
		t.Fatalf("found %d files only", len(out))
	}
	return out
}
