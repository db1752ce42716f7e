package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	readme        = "README.md"
	resultsFolder = "test/windows/results"
)

// The table stands between these lines.
const (
	begin = "<!-- evidence: begin; written by make generate -->\n"
	end   = "<!-- evidence: end -->\n"
)

var (
	errMarks      = errors.New("the lines that begin and end the table are not there once, in this order")
	errNotCurrent = errors.New("the table is not current: run make generate")
)

// run writes or checks the table.
func run(root string, check bool) error {
	tags, err := readTags(root)
	if err != nil {
		return err
	}
	reports, err := readReports(filepath.Join(root, filepath.FromSlash(resultsFolder)))
	if err != nil {
		return err
	}
	path := filepath.Join(root, readme)
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := replace(old, table(tags, reports))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case bytes.Equal(old, text):
		return nil
	case check:
		return fmt.Errorf("%s: %w", path, errNotCurrent)
	}
	return os.WriteFile(path, text, 0o644)
}

// replace puts the table between the two lines.
func replace(text []byte, table string) ([]byte, error) {
	if bytes.Count(text, []byte(begin)) != 1 || bytes.Count(text, []byte(end)) != 1 {
		return nil, errMarks
	}
	from := bytes.Index(text, []byte(begin)) + len(begin)
	to := bytes.Index(text, []byte(end))
	if to < from {
		return nil, errMarks
	}
	return bytes.Join([][]byte{text[:from], []byte(table), text[to:]}, nil), nil
}
