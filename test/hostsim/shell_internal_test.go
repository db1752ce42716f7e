package hostsim

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	for _, tc := range []struct {
		line            string
		cmd, powershell []string
	}{
		{`C:\k\a.exe b  c`, []string{`C:\k\a.exe`, "b", "c"}, []string{`C:\k\a.exe`, "b", "c"}},
		{`C:\k\a.exe --x="a b"`, []string{`C:\k\a.exe`, "--x=a b"}, []string{`C:\k\a.exe`, "--x=a b"}},
		{`"C:\a b\c.exe" d`, []string{`C:\a b\c.exe`, "d"}, nil},
		{`a.exe %PATH%`, nil, []string{"a.exe", "%PATH%"}},
		{`a.exe $x`, []string{"a.exe", "$x"}, nil},
		{`a.exe 'x'`, []string{"a.exe", "'x'"}, nil},
		{`a.exe x,y`, []string{"a.exe", "x,y"}, nil},
		{`a.exe @x`, []string{"a.exe", "@x"}, nil},
		{`a.exe x@y`, []string{"a.exe", "x@y"}, []string{"a.exe", "x@y"}},
		{`a.exe & b.exe`, nil, nil},
		{`a.exe > b`, nil, nil},
		{`a.exe "open`, nil, nil},
		{"a.exe\nb.exe", nil, nil},
		{``, nil, nil},
	} {
		for shell, want := range map[Shell][]string{ShellCmd: tc.cmd, ShellPowerShell: tc.powershell} {
			got, err := split(shell, tc.line)
			if diff := cmp.Diff(want, got); diff != "" || (want == nil && tc.line != "") != errors.Is(err, errSyntax) {
				t.Errorf("%s %q: %v, %s", shell, tc.line, err, diff)
			}
		}
	}
}

func TestEntryEnd(t *testing.T) {
	data := []byte("{\"seq\":1,\"code\":\"A\"}\n{\"seq\":2,\"code\":\"B\"}\n")
	for seq, want := range map[int64]int{1: len(data) / 2, 2: len(data), 3: 0} {
		got, ok := entryEnd(data, seq)
		if got != want || ok != (want > 0) {
			t.Errorf("entry %d ends at %d, %v; want %d", seq, got, ok, want)
		}
	}
	if _, ok := entryEnd([]byte("no json"), 0); ok {
		t.Error("found an entry in no journal")
	}
}
