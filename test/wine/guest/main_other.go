//go:build !windows

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "guest runs in a machine of Wine only")
	os.Exit(2)
}
