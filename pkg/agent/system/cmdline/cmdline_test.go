package cmdline_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/system/cmdline"
)

// TestW53PathsWithSpaces: program, configuration and log below paths with blanks survive the way through ImagePath, and
// what is read back equals what was written.
func TestW53PathsWithSpaces(t *testing.T) {
	exe := `C:\Program Files\k8s node\kubelet.exe`
	args := []string{`--config=C:\Program Files\k8s node\kubelet.conf`, `--log-dir`, `C:\var\log\kube let`, `--windows-service`, ``}
	line, err := cmdline.Join(exe, args)
	if err != nil {
		t.Fatal(err)
	}
	want := `"C:\Program Files\k8s node\kubelet.exe" "--config=C:\Program Files\k8s node\kubelet.conf" --log-dir "C:\var\log\kube let" --windows-service ""`
	if line != want {
		t.Errorf("command line\n got %s\nwant %s", line, want)
	}
	gotExe, gotArgs := cmdline.Split(line)
	if gotExe != exe {
		t.Errorf("program %q, want %q", gotExe, exe)
	}
	if diff := cmp.Diff(args, gotArgs); diff != "" {
		t.Error(diff)
	}
}

// TestW53UnquotedProgram: an unquoted program below a path with blanks would run C:\Program.exe. Join never writes one.
func TestW53UnquotedProgram(t *testing.T) {
	for _, exe := range []string{`C:\k\kubelet.exe`, `C:\Program Files\x.exe`} {
		line, err := cmdline.Join(exe, nil)
		if err != nil || line != `"`+exe+`"` {
			t.Errorf("Join(%q) = %q, %v", exe, line, err)
		}
	}
}

// TestW50TrailingBackslash: a backslash before a closing quotation mark must be doubled, elsewhere it must not.
func TestW50TrailingBackslash(t *testing.T) {
	for _, tt := range []struct{ arg, want string }{
		{`C:\k\`, `C:\k\`},
		{`C:\k node\`, `"C:\k node\\"`},
		{`C:\k node\\`, `"C:\k node\\\\"`},
		{`say "hi"`, `"say \"hi\""`},
		{`\"`, `"\\\""`},
		{`--cni-dir="C:\k\cni`, `"--cni-dir=\"C:\k\cni"`},
		{`C:\var\lib\k0s`, `C:\var\lib\k0s`},
		{"a\tb", "\"a\tb\""},
		{`C:\Ünï cøde`, `"C:\Ünï cøde"`},
	} {
		line, err := cmdline.Join("x", []string{tt.arg})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimPrefix(line, `"x" `); got != tt.want {
			t.Errorf("%s is written %s, want %s", tt.arg, got, tt.want)
		}
		if _, back := cmdline.Split(line); len(back) != 1 || back[0] != tt.arg {
			t.Errorf("%s comes back as %q", tt.arg, back)
		}
	}
}

// Split reads command lines that others wrote, by the examples of "Parsing C++ command-line arguments" and CommandLineToArgvW.
func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		line, exe string
		args      []string
	}{
		{``, ``, nil},
		{`C:\k\x.exe`, `C:\k\x.exe`, nil},
		{`C:\Program Files\x.exe -a`, `C:\Program`, []string{`Files\x.exe`, `-a`}},
		{`"C:\Program Files\x.exe"   -a  `, `C:\Program Files\x.exe`, []string{`-a`}},
		{`"unclosed path`, `unclosed path`, nil},
		{`x "a b c" d e`, `x`, []string{`a b c`, `d`, `e`}},
		{`x "ab\"c" "\\" d`, `x`, []string{`ab"c`, `\`, `d`}},
		{`x a\\\b d"e f"g h`, `x`, []string{`a\\\b`, `de fg`, `h`}},
		{`x a\\\"b c d`, `x`, []string{`a\"b`, `c`, `d`}},
		{`x a\\\\"b c" d e`, `x`, []string{`a\\b c`, `d`, `e`}},
		{`x ""`, `x`, []string{``}},
		{`x "a""b c"`, `x`, []string{`a"b`, `c`}},
	} {
		exe, args := cmdline.Split(tt.line)
		if exe != tt.exe || !cmp.Equal(args, tt.args) {
			t.Errorf("Split(%s) = %q %q, want %q %q", tt.line, exe, args, tt.exe, tt.args)
		}
	}
}

func TestJoinRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, exe string
		args      []string
		want      error
	}{
		{"no program", "", nil, cmdline.ErrProgram},
		{"mark in program", `C:\"k"\x.exe`, nil, cmdline.ErrProgram},
		{"line break in program", "C:\\k\nx.exe", nil, cmdline.ErrProgram},
		{"NUL in argument", `C:\k\x.exe`, []string{"a\x00b"}, cmdline.ErrNUL},
	} {
		if _, err := cmdline.Join(tt.exe, tt.args); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// FuzzRoundTrip: whatever Join writes, Split reads back.
func FuzzRoundTrip(f *testing.F) {
	f.Add(`C:\Program Files\x.exe`, `C:\k node\`, `"`)
	f.Add(`x`, ``, `\\" \`)
	f.Add(`x`, `""`, "\t\n")
	f.Fuzz(func(t *testing.T, exe, a, b string) {
		line, err := cmdline.Join(exe, []string{a, b})
		if err != nil {
			if !errors.Is(err, cmdline.ErrProgram) && !errors.Is(err, cmdline.ErrNUL) {
				t.Fatal(err)
			}
			return
		}
		gotExe, args := cmdline.Split(line)
		if gotExe != exe || len(args) != 2 || args[0] != a || args[1] != b {
			t.Errorf("%q %q %q written as %s comes back as %q %q", exe, a, b, line, gotExe, args)
		}
	})
}
