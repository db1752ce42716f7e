package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	missing := flag.Bool("missing", false, "list only cases without a test")
	flag.Parse()
	if err := run(os.Stdout, ".", *missing); err != nil {
		fmt.Fprintln(os.Stderr, "cases:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, root string, missing bool) error {
	list, err := readList(root)
	if err != nil {
		return err
	}
	tests, err := testsByCase(root)
	if err != nil {
		return err
	}
	show(out, list, tests, missing)
	return strays(list, tests)
}

func show(out io.Writer, list []report, tests map[string][]string, missing bool) {
	without := 0
	for _, r := range list {
		if len(tests[r.id]) == 0 {
			without++
		} else if missing {
			continue
		}
		fmt.Fprintf(out, "%s  %s\n", r.id, r.what)
		for _, t := range tests[r.id] {
			fmt.Fprintf(out, "       %s\n", t)
		}
		if len(tests[r.id]) == 0 {
			fmt.Fprintln(out, "       (no test yet)")
		}
	}
	fmt.Fprintf(out, "%d of %d cases have a test\n", len(list)-without, len(list))
}
