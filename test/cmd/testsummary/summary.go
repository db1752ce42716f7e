package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// summary takes events and keeps the count.
type summary struct {
	out                     io.Writer
	passed, failed, skipped int
	// packages that have begun and not ended, by name.
	packages map[string]*unit
	// builds has the compiler's output by import path.
	builds map[string]*strings.Builder
}

// unit is a package under test.
type unit struct {
	failed bool
	// open are the tests that have begun and not ended, in that order; said is what they, or under "" the package, have printed.
	open []string
	said map[string]*strings.Builder
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, packages: map[string]*unit{}, builds: map[string]*strings.Builder{}}
}

// maxLine bounds a line of the output, in bytes.
const maxLine = 16 << 20

func (s *summary) read(r io.Reader) error {
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, maxLine)
	for scan.Scan() {
		var e event
		if json.Unmarshal(scan.Bytes(), &e) != nil || e.Action == "" {
			fmt.Fprintln(s.out, scan.Text())
			continue
		}
		s.take(e)
	}
	return scan.Err()
}

func (s *summary) take(e event) {
	switch {
	case e.ImportPath != "":
		s.build(e)
	case e.Test != "":
		s.test(e, s.unit(e.Package))
	default:
		s.pkg(e, s.unit(e.Package))
	}
}

func (s *summary) unit(name string) *unit {
	u := s.packages[name]
	if u == nil {
		u = &unit{said: map[string]*strings.Builder{}}
		s.packages[name] = u
	}
	return u
}

func (s *summary) build(e event) {
	switch e.Action {
	case "build-output":
		if s.builds[e.ImportPath] == nil {
			s.builds[e.ImportPath] = &strings.Builder{}
		}
		s.builds[e.ImportPath].WriteString(e.Output)
	case "build-fail":
		if b := s.builds[e.ImportPath]; b != nil {
			fmt.Fprint(s.out, b.String())
		}
		delete(s.builds, e.ImportPath)
	}
}

func (s *summary) test(e event, u *unit) {
	switch e.Action {
	case "run":
		u.open = append(u.open, e.Test)
	case "output":
		u.say(e.Test, e.Output)
	case "pass":
		s.passed++
		u.close(e.Test)
	case "skip":
		s.skipped++
		u.close(e.Test)
	case "fail":
		s.failed++
		u.failed = true
		s.repeat(u, e.Test)
		u.close(e.Test)
	}
}

func (s *summary) pkg(e event, u *unit) {
	switch e.Action {
	case "output":
		u.say("", e.Output)
		return
	case "pass":
		fmt.Fprintf(s.out, "ok    %7.1fs  %s\n", e.Elapsed, e.Package)
	case "fail":
		s.packageFailed(e, u)
	case "skip":
		// It has no tests.
	default:
		return
	}
	delete(s.packages, e.Package)
}

func (s *summary) packageFailed(e event, u *unit) {
	for _, t := range u.open {
		s.repeat(u, t)
		fmt.Fprintf(s.out, "--- FAIL: %s did not end\n", t)
	}
	s.failed += len(u.open)
	s.repeat(u, "")
	if !u.failed && len(u.open) == 0 {
		s.failed++
	}
	fmt.Fprintf(s.out, "FAIL  %7.1fs  %s\n", e.Elapsed, e.Package)
}

// end prints the last line and returns the exit code of the program.
func (s *summary) end(code int) int {
	switch {
	case code == 0 && s.failed > 0:
		code = 1
	case code == 0 && s.passed == 0:
		fmt.Fprintln(s.out, "no test passed")
		code = 1
	}
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	return code
}

func (u *unit) say(test, text string) {
	if u.said[test] == nil {
		u.said[test] = &strings.Builder{}
	}
	u.said[test].WriteString(text)
}

func (u *unit) close(test string) {
	u.open = slices.DeleteFunc(u.open, func(o string) bool { return o == test })
	delete(u.said, test)
}

// repeat prints what a test has said.
func (s *summary) repeat(u *unit, test string) {
	if b := u.said[test]; b != nil {
		fmt.Fprint(s.out, b.String())
	}
}
