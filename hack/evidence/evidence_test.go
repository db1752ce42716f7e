package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/test/windows"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// report is one in which everything has an outcome.
func report(p windows.Platform, outcome windows.Outcome, started string) windows.Report {
	at, err := time.Parse(time.DateOnly, started)
	if err != nil {
		panic(err) // The tests' own dates are right.
	}
	r := windows.Report{APIVersion: windows.ReportVersion, Platform: p, Build: "20348.2402", Started: at}
	for _, s := range windows.Subjects() {
		r.Results = append(r.Results, windows.Result{Step: s, Outcome: outcome, Why: "why"})
	}
	return r
}

// TestReadmeIsCurrent is what makes a difference fail.
func TestReadmeIsCurrent(t *testing.T) {
	if err := run("../..", true); err != nil {
		t.Error(err)
	}
}

// TestEveryStepIsHeldSomewhere: a step of a plan without a test on the modelled Windows is a gap.
func TestEveryStepIsHeldSomewhere(t *testing.T) {
	tags, err := readTags("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range windows.Subjects() {
		if !known(s) {
			t.Errorf("%s is not in the table", s)
		}
		if tests(s, windows.PlatformFake, tags) == "" {
			t.Errorf("%s has no test with a tag", s)
		}
	}
}

// TestTestingNamesTests: what docs/testing.md names is there.
func TestTestingNamesTests(t *testing.T) {
	text, err := os.ReadFile("../../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	there, err := testNames("../..")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(text), -1)
	if len(names) == 0 {
		t.Error("it names no test")
	}
	for _, name := range names {
		if !there[name] {
			t.Errorf("docs/testing.md names %s, which is no test", name)
		}
	}
}

// testNames are the names of all test functions below root.
func testNames(root string) (map[string]bool, error) {
	out := map[string]bool{}
	line := regexp.MustCompile(`(?m)^func (Test[A-Z]\w+)\(`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range line.FindAllSubmatch(text, -1) {
			out[string(m[1])] = true
		}
		return err
	})
	return out, err
}

func TestFileTags(t *testing.T) {
	const head = "package x\n\nimport \"testing\"\n\n"
	for name, tt := range map[string]struct {
		text string
		want []tag
		err  error
	}{
		"none": {head + "func TestA(t *testing.T) {}\n", nil, nil},
		"two lines": {
			head + "// TestA is one.\n//\n//evidence:fake facts install-files\n//evidence:wine facts\nfunc TestA(t *testing.T) {}\n",
			[]tag{{"fake", "facts", "f_test.go", "TestA"}, {"fake", "install-files", "f_test.go", "TestA"}, {"wine", "facts", "f_test.go", "TestA"}},
			nil,
		},
		"of a helper":       {head + "//evidence:fake facts\nfunc helper() {}\n", nil, errTag},
		"of a method":       {head + "type s struct{}\n\n//evidence:fake facts\nfunc (s) TestA() {}\n", nil, errTag},
		"inside":            {head + "func TestA(t *testing.T) {\n\t_ = `\n//evidence:fake facts`\n}\n", nil, errTag},
		"unknown subject":   {head + "//evidence:fake nonsense\nfunc TestA(t *testing.T) {}\n", nil, errTag},
		"unknown platform":  {head + "//evidence:mac facts\nfunc TestA(t *testing.T) {}\n", nil, errTag},
		"Windows by a test": {head + "//evidence:windows facts\nfunc TestA(t *testing.T) {}\n", nil, errTag},
		"no subject":        {head + "//evidence:fake\nfunc TestA(t *testing.T) {}\n", nil, errTag},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fileTags("f_test.go", []byte(tt.text))
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v", err)
			}
			if d := cmp.Diff(tt.want, got, cmp.AllowUnexported(tag{})); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestReported(t *testing.T) {
	newest := named{report(windows.PlatformWindows, windows.NotRun, "2026-03-03"), "c.json"}
	middle := named{report(windows.PlatformWindows, windows.Failed, "2026-02-02"), "b.json"}
	oldest := named{report(windows.PlatformWindows, windows.Passed, "2026-01-01"), "a.json"}
	wine := named{report(windows.PlatformWine, windows.Passed, "2026-04-04"), "w.json"}
	wine.PlatformVersion = "10.0"
	for name, tt := range map[string]struct {
		reports []named
		want    string
	}{
		"none":                    {nil, ""},
		"Wine is not Windows":     {[]named{wine}, ""},
		"not run":                 {[]named{newest}, "[not run](test/windows/results/c.json) 20348.2402, 2026-03-03"},
		"the newest that has run": {[]named{wine, newest, middle, oldest}, "[failed](test/windows/results/b.json) 20348.2402, 2026-02-02"},
		"passed":                  {[]named{oldest}, "[passed](test/windows/results/a.json) 20348.2402, 2026-01-01"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reported("facts", windows.PlatformWindows, tt.reports); got != tt.want {
				t.Errorf("%q", got)
			}
		})
	}
	if got, want := reported("facts", windows.PlatformWine, []named{wine}), "[passed](test/windows/results/w.json) 10.0, 2026-04-04"; got != want {
		t.Errorf("%q", got)
	}
	if got := reported("pod", windows.PlatformWindows, []named{oldest}); got != "" {
		t.Errorf("what no report is about: %q", got)
	}
}

func TestTable(t *testing.T) {
	tags := []tag{
		{"fake", "facts", "a_test.go", "TestA"},
		{"fake", "facts", "b_test.go", "TestB"},
		{"fake", "facts", "c_test.go", "TestC"},
		{"wine", "node", "w_test.go", "TestW"},
	}
	wine := report(windows.PlatformWine, windows.Passed, "2026-04-04")
	wine.PlatformVersion = "10.0"
	text := table(tags, []named{{wine, "w.json"}})
	for _, want := range []string{
		"| facts | not yet run on Windows | [passed](test/windows/results/w.json) 10.0, 2026-04-04 | [TestA](a_test.go), [TestB](b_test.go) and 1 more |\n",
		"| certificates, Node, lease: Ready | not yet run on Windows | [TestW](w_test.go) | no |\n",
		"| `open-firewall` | not yet run on Windows | [passed](test/windows/results/w.json) 10.0, 2026-04-04 (a shim answers) | no |\n",
		"| a pod runs and has a network | not yet run on Windows | no | no |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestRun(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, readme)
	if err := run(root, false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a README: %v", err)
	}
	write(t, path, "before\n"+begin+"old\n"+end+"after\n")
	if err := run(root, true); !errors.Is(err, errNotCurrent) {
		t.Errorf("not current: %v", err)
	}
	if err := run(root, false); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(text), "before\n"+begin+"| Step |") || !strings.HasSuffix(string(text), "|\n"+end+"after\n") {
		t.Errorf("%q, %v", text, err)
	}
	if err := run(root, true); err != nil {
		t.Errorf("current: %v", err)
	}
	// A new tag and a new report show.
	write(t, filepath.Join(root, "a_test.go"), "package a\n\nimport \"testing\"\n\n//evidence:fake facts\nfunc TestNew(t *testing.T) {}\n")
	if err := run(root, true); !errors.Is(err, errNotCurrent) {
		t.Errorf("after a new tag: %v", err)
	}
	write(t, filepath.Join(root, filepath.FromSlash(resultsFolder), "r.json"), "{}")
	if err := run(root, false); !errors.Is(err, windows.ErrReport) {
		t.Errorf("a report that is none: %v", err)
	}
	for name, bad := range map[string]string{"no lines": "x", "twice": begin + end + begin + end, "wrong way": end + begin} {
		if _, err := replace([]byte(bad), ""); !errors.Is(err, errMarks) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
