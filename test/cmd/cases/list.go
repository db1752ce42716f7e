package main

import (
	"bufio"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// listFile holds one case a line: the id, a blank and what it is about.
const listFile = "test/cases/public-reports.txt"

// report is a public failure report.
type report struct{ id, what string }

var (
	errList  = errors.New("line is not an id and what it is about")
	errStray = errors.New("no such case in " + listFile)

	idForm   = regexp.MustCompile(`^W[0-9]+$`)
	nameForm = regexp.MustCompile(`^(?:Test|Fuzz)((?:W[0-9]+)+)`)
	idInName = regexp.MustCompile(`W[0-9]+`)
)

func readList(root string) ([]report, error) {
	f, err := os.Open(filepath.Join(root, listFile))
	if err != nil {
		return nil, fmt.Errorf("opening the list of cases: %w", err)
	}
	defer f.Close()
	var out []report
	seen := map[string]bool{}
	scan := bufio.NewScanner(f)
	for n := 1; scan.Scan(); n++ {
		line := strings.TrimSpace(scan.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, what, _ := strings.Cut(line, " ")
		if !idForm.MatchString(id) || what == "" || seen[id] {
			return nil, fmt.Errorf("%s:%d: %w, or the id is there twice", listFile, n, errList)
		}
		seen[id] = true
		out = append(out, report{id, strings.TrimSpace(what)})
	}
	return out, scan.Err()
}

// testsByCase finds the test functions below root that are named after a case.
func testsByCase(root string) (map[string][]string, error) {
	out := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(root, path)
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		return addTests(out, root, path)
	})
	if err != nil {
		return nil, fmt.Errorf("looking for tests: %w", err)
	}
	for _, tests := range out {
		slices.Sort(tests)
	}
	return out, nil
}

// enter skips the folders that the go command skips, and what was built.
func enter(root, path string) error {
	name := filepath.Base(path)
	if path != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || path == filepath.Join(root, "out")) {
		return filepath.SkipDir
	}
	return nil
}

func addTests(out map[string][]string, root, path string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir, err := filepath.Rel(root, filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv != nil {
			continue
		}
		for _, id := range idsOf(f.Name.Name) {
			out[id] = append(out[id], filepath.ToSlash(dir)+"."+f.Name.Name)
		}
	}
	return nil
}

// idsOf returns the cases that a function is named after.
func idsOf(name string) []string {
	m := nameForm.FindStringSubmatch(name)
	if m == nil {
		return nil
	}
	return idInName.FindAllString(m[1], -1)
}

// strays reports tests that are named after a case that is not in the list.
func strays(list []report, tests map[string][]string) error {
	known := map[string]bool{}
	for _, r := range list {
		known[r.id] = true
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(tests)) {
		if !known[id] {
			errs = append(errs, fmt.Errorf("%s: %s: %w", strings.Join(tests[id], ", "), id, errStray))
		}
	}
	return errors.Join(errs...)
}
