package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// preflightFolder is where the codes of the preflight are declared, as constants of type Code.
const preflightFolder = "pkg/planner"

// walk returns what a row may name: the tests and fuzz tests of the tree, and the codes of the preflight.
func walk(root string) (map[string]bool, error) {
	out := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir():
			return enter(rel, d.Name())
		case strings.HasSuffix(rel, "_test.go"):
			return read(file, func(f *ast.File) { tests(f, path.Base(path.Dir(rel)), out) })
		case path.Dir(rel) == preflightFolder && strings.HasSuffix(rel, ".go"):
			return read(file, func(f *ast.File) { codes(f, out) })
		}
		return nil
	})
	return out, err
}

// enter skips what the go command skips, and what was built.
func enter(rel, name string) error {
	if rel != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") || rel == "out" || rel == "bin" {
		return filepath.SkipDir
	}
	return nil
}

func read(file string, f func(*ast.File)) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	f(parsed)
	return nil
}

// tests adds the test functions of a file under the last element of their package's path.
func tests(f *ast.File, folder string, out map[string]bool) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Recv == nil && (strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Fuzz")) {
			out[folder+"."+fn.Name.Name] = true
		}
	}
}

// codes adds the constants that are declared with type Code.
func codes(f *ast.File, out map[string]bool) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			if v, ok := s.(*ast.ValueSpec); ok && isCode(v.Type) {
				addValues(v, out)
			}
		}
	}
}

func isCode(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "Code"
}

func addValues(v *ast.ValueSpec, out map[string]bool) {
	for _, e := range v.Values {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			continue
		}
		if code, err := strconv.Unquote(lit.Value); err == nil {
			out["preflight:"+code] = true
		}
	}
}
