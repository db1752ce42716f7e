package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	runs := commands(os.Args[1:])
	if len(runs) == 0 {
		fmt.Fprintln(os.Stderr, "usage: testsummary -- go test -json [flags] [packages] [-- go test ...]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, runs, os.Stdout, os.Stderr))
}

// commands takes the arguments apart at each "--".
func commands(args []string) (out [][]string) {
	for len(args) > 0 {
		end := slices.Index(args, "--")
		if end < 0 {
			end = len(args)
		}
		if end > 0 {
			out = append(out, args[:end])
		}
		args = args[min(end+1, len(args)):]
	}
	return out
}

// grace is how long the command may take to end after it was asked to.
const grace = 30 * time.Second

// run runs the commands one after the other, whatever becomes of them, and returns the exit code of the first that failed.
func run(ctx context.Context, commands [][]string, out, errOut io.Writer) int {
	s := newSummary(out)
	code := 0
	for _, args := range commands {
		if c := runOne(ctx, s, args, errOut); code == 0 {
			code = c
		}
		if ctx.Err() != nil {
			break
		}
	}
	return s.end(code)
}

func runOne(ctx context.Context, s *summary, args []string, errOut io.Writer) int {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	// Not killed at once, so that `go test` ends the test processes that it started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	cmd.Stderr = errOut
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(errOut, "testsummary:", err)
		return 1
	}
	rerr := s.read(pipe)
	if rerr != nil {
		fmt.Fprintln(errOut, "testsummary: reading the output:", rerr)
	}
	return exitCode(errors.Join(cmd.Wait(), rerr))
}

// exitCode is that of the command; 1 when it was ended by a signal or its output could not be read.
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
