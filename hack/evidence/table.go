package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/test/windows"
)

// shown is how many tests a cell names.
const shown = 2

// named is a report with its file, relative to the results' folder.
type named struct {
	windows.Report
	file string
}

// readReports reads all reports, the newest first. A folder that is not there holds none.
func readReports(dir string) ([]named, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(dir); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var out []named
	for _, f := range files {
		r, err := windows.ReadReport(f)
		if err != nil {
			return nil, err
		}
		out = append(out, named{r, filepath.Base(f)})
	}
	slices.SortFunc(out, func(a, b named) int { return cmp.Or(b.Started.Compare(a.Started), strings.Compare(a.file, b.file)) })
	return out, nil
}

// table is the table in Markdown.
func table(tags []tag, reports []named) string {
	var b strings.Builder
	b.WriteString("| Step | Windows Server | Wine 10 with shims | Modelled Windows, in CI |\n| --- | --- | --- | --- |\n")
	for _, s := range subjects() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", s.title,
			orElse(reported(s.name, windows.PlatformWindows, reports), "not yet run on Windows"),
			orElse(wine(s, tags, reports), "no"),
			orElse(tests(s.name, windows.PlatformFake, tags), "no"))
	}
	return b.String()
}

// wine is what was seen under Wine, and whether that was Wine.
func wine(s subject, tags []tag, reports []named) string {
	text := join(reported(s.name, windows.PlatformWine, reports), tests(s.name, windows.PlatformWine, tags))
	if s.invented && text != "" {
		text += " (a shim answers)"
	}
	return text
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func join(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "; ")
}

// reported is what the newest report of a platform that has run a subject says of it; one that has not run it says so only where no other has.
func reported(name string, p windows.Platform, reports []named) string {
	notRun := ""
	for _, r := range reports {
		res, ok := r.Find(name)
		if r.Platform != p || !ok {
			continue
		}
		switch text := cell(r, res); {
		case res.Outcome != windows.NotRun:
			return text
		case notRun == "":
			notRun = text
		}
	}
	return notRun
}

func cell(r named, res windows.Result) string {
	word := string(res.Outcome)
	if res.Outcome == windows.NotRun {
		word = "not run"
	}
	where := r.Build
	if r.Platform == windows.PlatformWine {
		where = r.PlatformVersion
	}
	return fmt.Sprintf("[%s](%s/%s) %s, %s", word, resultsFolder, r.file, where, r.Started.UTC().Format("2006-01-02"))
}

// tests names the tests that are tagged with a subject.
func tests(name string, p windows.Platform, tags []tag) string {
	var links []string
	more := 0
	for _, t := range tags {
		if t.platform != p || t.subject != name {
			continue
		}
		if len(links) == shown {
			more++
			continue
		}
		links = append(links, fmt.Sprintf("[%s](%s)", t.test, t.file))
	}
	text := strings.Join(links, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
