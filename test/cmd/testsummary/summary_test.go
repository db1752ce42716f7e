package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// outcome is what a run showed.
type outcome struct {
	Code int
	Last string
	// Shown are those of the row's texts that were printed.
	Shown []string
}

// TestRun runs the real go command on small modules, since what it prints is what the counts rest on.
func TestRun(t *testing.T) {
	const pass = "func TestA(t *testing.T) { t.Run(\"x\", func(t *testing.T) { t.Log(\"quiet\") }) }\n"
	for _, c := range []struct {
		name string
		// files of packages, by package; the package clause and the imports testing, os and fmt are added.
		files map[string]string
		args  []string
		want  outcome
		// never are texts that must not be printed.
		never []string
	}{
		{
			name: "each test and each subtest counts", files: map[string]string{"a": pass, "b": pass},
			want: outcome{0, "4 passed, 0 failed, 0 skipped", []string{"ok ", "x/a", "x/b"}}, never: []string{"quiet"},
		},
		{
			name:  "a failed subtest counts with the test around it, the package does not",
			files: map[string]string{"a": "func TestA(t *testing.T) { t.Run(\"x\", func(t *testing.T) { t.Error(\"boom\") }); t.Run(\"y\", func(*testing.T) {}) }\n", "b": pass},
			want:  outcome{1, "3 passed, 2 failed, 0 skipped", []string{"boom", "FAIL ", "x/a", "ok ", "x/b"}}, never: []string{"quiet"},
		},
		{
			name: "skipped tests count", files: map[string]string{"a": pass + "func TestB(t *testing.T) { t.Skip() }\n"},
			want: outcome{0, "2 passed, 0 failed, 1 skipped", []string{"ok "}},
		},
		{
			name: "only skipped tests are no success", files: map[string]string{"a": "func TestB(t *testing.T) { t.Skip() }\n"},
			want: outcome{1, "0 passed, 0 failed, 1 skipped", []string{"no test passed"}},
		},
		{
			name: "a package that does not build is one failure, and says why", files: map[string]string{"a": "func TestA(t *testing.T) { missing() }\n", "b": pass},
			want: outcome{1, "2 passed, 1 failed, 0 skipped", []string{"undefined: missing", "FAIL ", "x/a"}},
		},
		{
			name: "a panic is its test's failure, and its stack is shown", files: map[string]string{"a": "func TestA(t *testing.T) { panic(\"boom\") }\nfunc TestB(*testing.T) {}\n"},
			want: outcome{1, "0 passed, 1 failed, 0 skipped", []string{"panic: boom", "goroutine", "FAIL "}},
		},
		{
			name: "a test in which the process exits has failed, and its last words are shown", files: map[string]string{"a": "func TestA(*testing.T) { fmt.Println(\"last words\"); os.Exit(3) }\n"},
			want: outcome{1, "0 passed, 1 failed, 0 skipped", []string{"last words", "TestA did not end", "FAIL "}},
		},
		{
			name: "tests that run out of time have failed", files: map[string]string{"a": "func TestA(t *testing.T) { t.Run(\"x\", func(*testing.T) { select {} }) }\n"}, args: []string{"-timeout", "100ms"},
			want: outcome{1, "0 passed, 2 failed, 0 skipped", []string{"test timed out", "TestA did not end", "TestA/x did not end"}},
		},
		{
			name: "a TestMain that says no is a failure", files: map[string]string{"a": pass + "func TestMain(m *testing.M) { m.Run(); fmt.Println(\"a leak\"); os.Exit(1) }\n"},
			want: outcome{1, "2 passed, 1 failed, 0 skipped", []string{"a leak", "FAIL "}},
		},
		{
			name: "no test at all is no success", files: map[string]string{"a": pass}, args: []string{"-run", "TestNone"},
			want: outcome{1, "0 passed, 0 failed, 0 skipped", []string{"no test passed"}},
		},
		{
			name: "a flag that go test refuses", files: map[string]string{"a": pass}, args: []string{"-p=nonsense"},
			want: outcome{2, "0 passed, 0 failed, 0 skipped", []string{"nonsense"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out, errOut bytes.Buffer
			args := append([]string{"go", "-C", module(t, c.files), "test", "-json"}, append(c.args, "./...")...)
			code := run(t.Context(), [][]string{args}, &out, &errOut)
			got := outcome{Code: code, Last: lastLine(out.String())}
			for _, s := range c.want.Shown {
				if strings.Contains(out.String()+errOut.String(), s) {
					got.Shown = append(got.Shown, s)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s\noutput:\n%s%s", diff, out.String(), errOut.String())
			}
			for _, s := range c.never {
				if strings.Contains(out.String(), s) {
					t.Errorf("the output has %q:\n%s", s, out.String())
				}
			}
		})
	}
}

// module writes a module with these packages.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module x\n\ngo 1.26\n")
	for pkg, text := range files {
		write(t, filepath.Join(dir, pkg, "a_test.go"), "package "+pkg+"\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = fmt.Sprint(os.Args)\n\n"+text)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return lines[len(lines)-1]
}

func TestRunWithoutCommand(t *testing.T) {
	var out bytes.Buffer
	if code := run(t.Context(), [][]string{{"/nowhere/go"}}, &out, &out); code != 1 {
		t.Errorf("exit code %d, want 1; output: %s", code, out.String())
	}
}

func TestRead(t *testing.T) {
	const start = `{"Action":"start","Package":"x/a"}` + "\n"
	for _, c := range []struct {
		name, in, want string
		failed         int
	}{
		{"what is not an event is shown as it is", "go: downloading\n{\"a\":1}\n", "go: downloading\n{\"a\":1}\n", 0},
		{"a package that only begins says nothing", start, "", 0},
		{
			"a package that fails without a word",
			start + `{"Action":"fail","Package":"x/a","Elapsed":0.25}` + "\n", "FAIL      0.2s  x/a\n", 1,
		},
		{
			"a test without a result in a package that fails",
			start + `{"Action":"run","Package":"x/a","Test":"T"}` + "\n" + `{"Action":"output","Package":"x/a","Test":"T","Output":"words\n"}` + "\n" +
				`{"Action":"fail","Package":"x/a","Elapsed":1}` + "\n", "words\n--- FAIL: T did not end\nFAIL      1.0s  x/a\n", 1,
		},
		{"a package without tests", start + `{"Action":"skip","Package":"x/a"}` + "\n", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			s := newSummary(&out)
			if err := s.read(strings.NewReader(c.in)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if s.failed != c.failed {
				t.Errorf("%d failed, want %d", s.failed, c.failed)
			}
		})
	}
}

func TestReadRefusesEndlessLine(t *testing.T) {
	s := newSummary(&bytes.Buffer{})
	if err := s.read(strings.NewReader(strings.Repeat("x", maxLine+1))); err == nil {
		t.Error("a line over the limit was read without an error")
	}
}

func TestExitCode(t *testing.T) {
	three := exec.CommandContext(t.Context(), "sh", "-c", "exit 3").Run()
	killed := exec.CommandContext(t.Context(), "sh", "-c", "kill -9 $$").Run()
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"success", nil, 0},
		{"the command's own", three, 3},
		{"ended by a signal", killed, 1},
		{"unreadable output of a command that succeeded", errors.New("too long"), 1},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestEndTrustsTheCount: a failure that was seen is a failure, whatever the command said at its end.
func TestEndTrustsTheCount(t *testing.T) {
	s := newSummary(&bytes.Buffer{})
	s.passed, s.failed = 2, 1
	if got := s.end(0); got != 1 {
		t.Errorf("exit code %d, want 1", got)
	}
}

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []string
		want [][]string
	}{
		{"none", nil, nil},
		{"nothing but the mark", []string{"--", "--"}, nil},
		{"one", []string{"--", "go", "test"}, [][]string{{"go", "test"}}},
		{"one without the mark", []string{"go", "test"}, [][]string{{"go", "test"}}},
		{"two", []string{"--", "go", "test", "./a", "--", "go", "test", "./b"}, [][]string{{"go", "test", "./a"}, {"go", "test", "./b"}}},
		{"a mark at the end", []string{"--", "go", "--"}, [][]string{{"go"}}},
	} {
		if d := cmp.Diff(c.want, commands(c.in)); d != "" {
			t.Errorf("%s: -want +got:\n%s", c.name, d)
		}
	}
}

// TestSeveralCommands: what comes later runs although what came before failed, and the counts are one.
func TestSeveralCommands(t *testing.T) {
	t.Parallel()
	bad := module(t, map[string]string{"a": "func TestA(t *testing.T) { t.Error(\"boom\") }\n"})
	good := module(t, map[string]string{"b": "func TestB(*testing.T) {}\n"})
	var out, errOut bytes.Buffer
	code := run(t.Context(), [][]string{{"go", "-C", bad, "test", "-json", "./..."}, {"go", "-C", good, "test", "-json", "./..."}}, &out, &errOut)
	if got, want := lastLine(out.String()), "1 passed, 1 failed, 0 skipped"; code != 1 || got != want || strings.Count(out.String(), " passed, ") != 1 {
		t.Errorf("exit code %d, want 1, and %q, want %q:\n%s%s", code, got, want, out.String(), errOut.String())
	}
}
