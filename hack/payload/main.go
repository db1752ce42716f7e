// Command payload packs the files that go to machines into a store, makes a stand-in store for tests and the demo, and
// verifies one.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "payload:", err)
		os.Exit(1)
	}
}
