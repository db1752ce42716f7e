package consoletest

import (
	"context"
	"io"
	"slices"

	"github.com/windowsmachine/operator/pkg/console"
	"github.com/windowsmachine/operator/pkg/transport"
)

// IsServe reports whether a command is `wmcb serve`.
func IsServe(c transport.Command) bool { return slices.Equal(c.Args, []string{"serve"}) }

// Serve is `wmcb serve` where each command is a call of run, until the command's standard input or ctx ends. A run that fails ends it with that
// error, as a program does that is killed.
func Serve(ctx context.Context, c transport.Command, run func(context.Context, transport.Command) (int, error)) (exit int, err error) {
	// A read of the input ends with the channel; the owner of the input closes it then.
	in, feed := io.Pipe()
	go func() {
		_, err := io.Copy(feed, c.Stdin)
		_ = feed.CloseWithError(err)
	}()
	defer in.Close()
	defer context.AfterFunc(ctx, func() { _ = in.CloseWithError(context.Cause(ctx)) })()
	err = console.Serve(ctx, in, c.Stdout, func(ctx context.Context, k console.Command) (int, error) {
		var err error
		exit, err = run(ctx, transport.Command{Path: c.Path, Args: k.Args, Stdin: k.Stdin, Stdout: k.Stdout, Stderr: k.Stderr})
		return exit, err
	})
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return exit, err
}
