// Command testsummary runs `go test -json` and shows what a person wants to see: a line for each package as it ends, the output of what
// failed, and last of all "N passed, N failed, N skipped". Its exit code is that of the command.
//
//	testsummary -- go test -json ./...
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

type summary struct {
	out                     io.Writer
	passed, failed, skipped int
	// output by package and test, until that test has passed.
	output map[string]*strings.Builder
}

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: testsummary -- go test -json [flags] [packages]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, args, os.Stdout))
}

func run(ctx context.Context, args []string, out io.Writer) int {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		return 1
	}
	s := summary{out: out, output: map[string]*strings.Builder{}}
	s.read(pipe)
	code := exitCode(cmd.Wait())
	if code == 0 && s.passed == 0 {
		fmt.Fprintln(out, "no test ran")
		code = 1
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	return code
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	}
	return 1
}

func (s *summary) read(r io.Reader) {
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 16<<20)
	for scan.Scan() {
		var e event
		if json.Unmarshal(scan.Bytes(), &e) != nil {
			fmt.Fprintln(s.out, scan.Text())
			continue
		}
		s.take(e)
	}
}

func (s *summary) take(e event) {
	key := e.Package + e.ImportPath + "\x00" + e.Test
	switch e.Action {
	case "output", "build-output":
		if s.output[key] == nil {
			s.output[key] = &strings.Builder{}
		}
		s.output[key].WriteString(e.Output)
	case "pass", "skip":
		s.count(e)
		delete(s.output, key)
	case "fail", "build-fail":
		s.count(e)
		if b := s.output[key]; b != nil {
			fmt.Fprint(s.out, b.String())
			delete(s.output, key)
		}
	}
}

func (s *summary) count(e event) {
	switch {
	case e.Test == "" && e.Action == "fail":
		// A package fails without a failed test when it does not build, panics or runs over its time.
		s.failed++
		fmt.Fprintf(s.out, "FAIL  %7.1fs  %s\n", e.Elapsed, e.Package)
	case e.Test == "" && e.Action == "pass":
		fmt.Fprintf(s.out, "ok    %7.1fs  %s\n", e.Elapsed, e.Package)
	case e.Test == "":
	case e.Action == "pass":
		s.passed++
	case e.Action == "fail":
		s.failed++
	case e.Action == "skip":
		s.skipped++
	}
}
