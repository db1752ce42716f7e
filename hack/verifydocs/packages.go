package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const architecture = "docs/architecture.md"

// checkPackages looks at the doc.go of each package, and for its folder in the architecture.
func checkPackages(root string, packages []string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, architecture))
	if err != nil {
		return nil, fmt.Errorf("reading the architecture: %w", err)
	}
	var out []string
	for _, p := range packages {
		why, err := missingDoc(filepath.Join(root, p))
		if err != nil {
			return nil, err
		}
		if why != "" {
			out = append(out, p+": "+why)
		}
		if !named(string(text), p) {
			out = append(out, architecture+": does not name `"+p+"`")
		}
	}
	return out, nil
}

// missingDoc says what is wrong with the doc.go in dir, "" when nothing is.
func missingDoc(dir string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "doc.go"), nil, parser.ParseComments)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no doc.go", nil
	case err != nil:
		return "", fmt.Errorf("reading doc.go: %w", err)
	}
	doc := strings.TrimSpace(file.Doc.Text())
	want := "Package " + file.Name.Name + " "
	if file.Name.Name == "main" {
		want = "Command "
	}
	switch {
	case !strings.HasPrefix(doc, want) || len(doc) < len(want)+20:
		return fmt.Sprintf("the comment in doc.go must begin with %q and say what the package is for", want), nil
	case hasCode(file):
		return "doc.go holds code", nil
	}
	return "", nil
}

func hasCode(file *ast.File) bool {
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); !ok || g.Tok != token.IMPORT {
			return true
		}
	}
	return false
}

// named reports whether a document names a folder in backticks, itself or with its neighbours as `parent/*`. The root is named by its main.go.
func named(text, dir string) bool {
	if dir == "." {
		dir = "main.go"
	}
	return strings.Contains(text, "`"+dir+"`") || strings.Contains(text, "`"+folder(dir)+"/*`")
}
