//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/windowsmachine/operator/test/wine"
)

func main() {
	source := flag.String("source", "test/wine", "the folder of package wine")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if _, err := wine.Prepare(ctx, *source, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "setup:", err)
		os.Exit(1)
	}
}
