package main

import (
	"fmt"
	"os"
	"path/filepath"
)

const (
	listFile = "docs/failures.md"
	// rows is how many the list has, leastShown how many of them must be shown.
	rows, leastShown = 68, 40
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	summary, findings, err := check(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "verifyfailures:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Fprintln(os.Stderr, listFile+": "+f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
	fmt.Println(summary)
}

// check returns the counts, and everything that is wrong.
func check(root string) (summary string, findings []string, err error) {
	text, err := os.ReadFile(filepath.Join(root, listFile))
	if err != nil {
		return "", nil, fmt.Errorf("reading the list: %w", err)
	}
	known, err := walk(root)
	if err != nil {
		return "", nil, fmt.Errorf("looking through %s: %w", root, err)
	}
	list, findings := parse(string(text))
	findings = append(findings, verify(list, known)...)
	counts := map[state]int{}
	for _, r := range list {
		counts[r.state]++
	}
	if counts[shown] < leastShown {
		findings = append(findings, fmt.Sprintf("%d rows are shown, at least %d must be", counts[shown], leastShown))
	}
	return fmt.Sprintf("%d failures of others: %d shown, %d partly, %d open", len(list), counts[shown], counts[partly], counts[open]), findings, nil
}
