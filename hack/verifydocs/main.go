package main

import (
	"fmt"
	"os"
	"slices"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	findings, err := check(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "verifydocs:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Fprintln(os.Stderr, f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
	fmt.Println("documents are current")
}

// check returns everything that is wrong, sorted.
func check(root string) ([]string, error) {
	t, err := walk(root)
	if err != nil {
		return nil, fmt.Errorf("looking through %s: %w", root, err)
	}
	var out []string
	for _, d := range t.documents {
		found, err := checkDocument(root, d)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	found, err := checkPackages(root, t.packages)
	if err != nil {
		return nil, err
	}
	out = append(out, found...)
	slices.Sort(out)
	return out, nil
}
