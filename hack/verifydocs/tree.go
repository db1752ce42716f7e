package main

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// tree is what is looked at; paths are relative to the root, with slashes.
type tree struct {
	documents []string
	// packages are the folders that hold Go files of this module.
	packages []string
	// modules are the folders of other modules.
	modules []string
}

func walk(root string) (tree, error) {
	var t tree
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			return enter(rel)
		}
		t.add(rel)
		return nil
	})
	t.packages = slices.DeleteFunc(t.packages, t.foreign)
	return t, err
}

// foreign reports whether a folder belongs to a module of its own.
func (t *tree) foreign(dir string) bool {
	return slices.ContainsFunc(t.modules, func(m string) bool { return dir == m || strings.HasPrefix(dir, m+"/") })
}

// enter skips what the go command skips, and what was built.
func enter(rel string) error {
	name := rel[strings.LastIndex(rel, "/")+1:]
	if rel != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") || rel == "out" || rel == "bin" {
		return filepath.SkipDir
	}
	return nil
}

func (t *tree) add(rel string) {
	dir := folder(rel)
	switch {
	case strings.HasSuffix(rel, ".md"):
		t.documents = append(t.documents, rel)
	case strings.HasSuffix(rel, "/go.mod"):
		t.modules = append(t.modules, dir)
	case strings.HasSuffix(rel, ".go") && !slices.Contains(t.packages, dir):
		t.packages = append(t.packages, dir)
	}
}

// folder is the folder of a file.
func folder(rel string) string {
	if i := strings.LastIndex(rel, "/"); i >= 0 {
		return rel[:i]
	}
	return "."
}
