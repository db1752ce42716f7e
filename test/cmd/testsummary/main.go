package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

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
	os.Exit(run(ctx, args, os.Stdout, os.Stderr))
}

// grace is how long the command may take to end after it was asked to.
const grace = 30 * time.Second

func run(ctx context.Context, args []string, out, errOut io.Writer) int {
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
	s := newSummary(out)
	rerr := s.read(pipe)
	if rerr != nil {
		fmt.Fprintln(errOut, "testsummary: reading the output:", rerr)
	}
	return s.end(exitCode(errors.Join(cmd.Wait(), rerr)))
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
