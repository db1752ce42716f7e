// Command cases lists the ids of the public failure reports that the project promises not to repeat, each with the tests that are named
// after it. A test belongs to case W18 when its name begins with TestW18.
//
//	cases [--missing]
package main

import (
	"bufio"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// list holds one case a line: the id, a blank and what it is about.
const list = "test/cases/public-reports.txt"

func main() {
	missing := flag.Bool("missing", false, "list only cases without a test")
	flag.Parse()
	if err := run(*missing); err != nil {
		fmt.Fprintln(os.Stderr, "cases:", err)
		os.Exit(1)
	}
}

func run(missing bool) error {
	tests, err := testsByCase(".")
	if err != nil {
		return err
	}
	f, err := os.Open(list)
	if err != nil {
		return fmt.Errorf("opening the list of cases: %w", err)
	}
	defer f.Close()
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		id, what, ok := strings.Cut(scan.Text(), " ")
		if !ok || strings.HasPrefix(id, "#") {
			continue
		}
		if missing && len(tests[id]) > 0 {
			continue
		}
		fmt.Printf("%s  %s\n", id, strings.TrimSpace(what))
		for _, t := range tests[id] {
			fmt.Printf("       %s\n", t)
		}
		if len(tests[id]) == 0 {
			fmt.Printf("       (no test yet)\n")
		}
	}
	return scan.Err()
}

// testsByCase finds the test functions below root that are named after a case.
func testsByCase(root string) (map[string][]string, error) {
	name := regexp.MustCompile(`^(?:Test|Fuzz)(W[0-9]+)`)
	out := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if m := name.FindStringSubmatch(f.Name.Name); m != nil {
				out[m[1]] = append(out[m[1]], filepath.Dir(path)+"."+f.Name.Name)
			}
		}
		return nil
	})
	for _, tests := range out {
		slices.Sort(tests)
	}
	return out, err
}
