package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/test/windows"
)

// mark begins a tag.
const mark = "//evidence:"

var errTag = errors.New("a tag stands in the comment of a test function and reads //evidence:PLATFORM SUBJECT..., PLATFORM wine or fake")

// tag says that a test shows something.
type tag struct {
	platform windows.Platform
	subject  string
	// file is relative to the root, with slashes.
	file, test string
}

// readTags reads the tags of all tests below root, ordered by file and place.
func readTags(root string) ([]tag, error) {
	var out []tag
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(filepath.ToSlash(rel))
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found, err := fileTags(filepath.ToSlash(rel), text)
		out = append(out, found...)
		return err
	})
	return out, err
}

// enter skips what the go command skips, and what was built.
func enter(rel string) error {
	name := rel[strings.LastIndex(rel, "/")+1:]
	if rel != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") || rel == "out" {
		return filepath.SkipDir
	}
	return nil
}

func fileTags(file string, text []byte) ([]tag, error) {
	// Most files have none and need not be parsed.
	count := bytes.Count(text, []byte("\n"+mark))
	if count == 0 {
		return nil, nil
	}
	tree, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var out []tag
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Doc == nil || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
			continue
		}
		found, lines, err := testTags(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, f.Name.Name, err)
		}
		count -= lines
		for _, t := range found {
			t.file, t.test = file, f.Name.Name
			out = append(out, t)
		}
	}
	if count != 0 {
		return nil, fmt.Errorf("%s: %w: %d stand elsewhere", file, errTag, count)
	}
	return out, nil
}

// testTags are the tags in a function's comment, and how many lines they take.
func testTags(f *ast.FuncDecl) (out []tag, lines int, err error) {
	for _, c := range f.Doc.List {
		line, ok := strings.CutPrefix(c.Text, mark)
		if !ok {
			continue
		}
		found, err := parseTag(line)
		if err != nil {
			return nil, 0, err
		}
		out, lines = append(out, found...), lines+1
	}
	return out, lines, nil
}

func parseTag(line string) ([]tag, error) {
	words := strings.Fields(line)
	if len(words) < 2 || !slices.Contains([]windows.Platform{windows.PlatformWine, windows.PlatformFake}, windows.Platform(words[0])) {
		return nil, fmt.Errorf("%w: %q", errTag, line)
	}
	var out []tag
	for _, name := range words[1:] {
		if !known(name) {
			return nil, fmt.Errorf("%w: there is no subject %q", errTag, name)
		}
		out = append(out, tag{platform: windows.Platform(words[0]), subject: name})
	}
	return out, nil
}
