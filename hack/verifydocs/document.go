package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	marker = regexp.MustCompile(`^<!-- golden: (\S+) -->$`)
	link   = regexp.MustCompile(`\]\(([^)\s#]+)(?:#[^)]*)?\)`)
)

// document is a Markdown file as it is read, line by line.
type document struct {
	root, name string
	found      []string
	// golden is the file that the next block must equal, "" when it is any block; line is where it was named.
	golden string
	line   int
	fenced bool
	block  []string
}

func checkDocument(root, name string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return nil, fmt.Errorf("reading a document: %w", err)
	}
	d := document{root: root, name: name}
	for i, line := range strings.Split(string(b), "\n") {
		if err := d.take(i+1, line); err != nil {
			return nil, err
		}
	}
	if d.golden != "" || d.fenced {
		d.report(d.line, "a block or an excerpt has no end")
	}
	return d.found, nil
}

func (d *document) report(line int, format string, args ...any) {
	d.found = append(d.found, fmt.Sprintf("%s:%d: %s", d.name, line, fmt.Sprintf(format, args...)))
}

func (d *document) take(n int, line string) error {
	fence := strings.HasPrefix(line, "```")
	switch {
	case fence && d.fenced:
		return d.end()
	case fence:
		d.fenced, d.block = true, nil
		if d.golden == "" {
			d.line = n
		}
	case d.fenced:
		d.block = append(d.block, line)
	case marker.MatchString(line):
		d.golden, d.line = marker.FindStringSubmatch(line)[1], n
	case d.golden != "" && strings.TrimSpace(line) != "":
		d.report(n, "the block of %s must follow its marker", d.golden)
		d.golden = ""
	default:
		d.links(n, line)
	}
	return nil
}

// end compares the block that has ended with its golden.
func (d *document) end() error {
	golden, block := d.golden, strings.Join(d.block, "\n")
	d.golden, d.fenced = "", false
	if golden == "" {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(d.root, golden))
	if os.IsNotExist(err) {
		d.report(d.line, "there is no file %s", golden)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading a golden: %w", err)
	}
	if !excerpt(block, string(b)) {
		d.report(d.line, "the excerpt is not in %s as it stands", golden)
	}
	return nil
}

// excerpt reports whether block is all of golden or a run of its lines. An empty block is none.
func excerpt(block, golden string) bool {
	if strings.TrimSpace(block) == "" {
		return false
	}
	if one, two := compact(block), compact(golden); one != "" && one == two {
		return true
	}
	return strings.Contains(fold(golden), fold(block))
}

// compact is a JSON value without blanks between its tokens, "" when it is none.
func compact(s string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(s)) != nil {
		return ""
	}
	return b.String()
}

// fold makes whole lines comparable: each ends and begins with a line feed; comments at the left edge are left out.
func fold(s string) string {
	var out strings.Builder
	out.WriteByte('\n')
	for _, line := range strings.Split(strings.Trim(s, "\n"), "\n") {
		if !strings.HasPrefix(line, "#") {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

// links checks links to files of the tree.
func (d *document) links(n int, line string) {
	for _, m := range link.FindAllStringSubmatch(line, -1) {
		if strings.Contains(m[1], ":") {
			continue
		}
		if _, err := os.Stat(filepath.Join(d.root, path.Dir(d.name), m[1])); err != nil {
			d.report(n, "link to %s, which is not there", m[1])
		}
	}
}
