package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/windowsmachine/operator/cmd/wmcb/command"
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version = "devel"

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	env := command.Env{Version: version, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	exit, err := start(ctx, os.Args[1:], env)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return command.ExitFailed
	}
	return exit
}
