package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// state is how far a row is shown.
type state string

const (
	shown  state = "shown"
	partly state = "partly"
	open   state = "open"
)

// row is one of the table.
type row struct {
	number int
	state  state
	// proofs are what the last cell names, without backticks.
	proofs []string
}

var (
	numbered = regexp.MustCompile(`^\| *([0-9]+) *\|`)
	word     = regexp.MustCompile(`^(shown|partly|open)\b`)
	proof    = regexp.MustCompile("`([^`]+)`")
	owned    = regexp.MustCompile(`\.TestFailure([0-9]{2})`)
)

// parse reads the rows: lines of a table that begin with a number. Other tables and text do not count.
func parse(text string) ([]row, []string) {
	var out []row
	var findings []string
	for _, line := range strings.Split(text, "\n") {
		m := numbered.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		r, why := parseRow(m[1], line)
		if why != "" {
			findings = append(findings, fmt.Sprintf("row %s: %s", m[1], why))
			continue
		}
		out = append(out, r)
	}
	for i := range max(len(out), rows) {
		if i >= len(out) || out[i].number != i+1 {
			findings = append(findings, fmt.Sprintf("row %d is not in its place; the rows go from 1 to %d", i+1, rows))
			break
		}
	}
	return out, findings
}

func parseRow(number, line string) (row, string) {
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	if len(cells) != 5 {
		return row{}, fmt.Sprintf("has %d cells, not 5", len(cells))
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	if slices.Contains(cells, "") {
		return row{}, "has an empty cell"
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		return row{}, "has no number"
	}
	last := cells[4]
	if !word.MatchString(last) {
		return row{}, "must end in a cell that begins with shown, partly or open"
	}
	r := row{number: n, state: state(word.FindString(last))}
	for _, m := range proof.FindAllStringSubmatch(last, -1) {
		r.proofs = append(r.proofs, m[1])
	}
	return r, ""
}

// verify holds the rows against what there is.
func verify(list []row, known map[string]bool) []string {
	var out []string
	named := map[string][]int{}
	for _, r := range list {
		if (r.state == open) != (len(r.proofs) == 0) {
			out = append(out, fmt.Sprintf("row %d is %s and names %d tests or checks", r.number, r.state, len(r.proofs)))
		}
		for _, p := range r.proofs {
			named[p] = append(named[p], r.number)
			if !known[p] {
				out = append(out, fmt.Sprintf("row %d names `%s`, which there is not", r.number, p))
			}
		}
	}
	var strays []string
	for name := range known {
		m := owned.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		if n, _ := strconv.Atoi(m[1]); !slices.Contains(named[name], n) {
			strays = append(strays, fmt.Sprintf("`%s` is not named in row %d", name, n))
		}
	}
	slices.Sort(strays)
	return append(out, strays...)
}
