package ssh

import (
	"errors"
	"strings"
	"testing"

	"github.com/windowsmachine/operator/pkg/transport"
)

// The line is the same for cmd.exe and PowerShell, since it holds nothing that either of them would read in its own way.
func TestW37CommandLine(t *testing.T) {
	const exe = `C:\Windows\wmcb\0123456789abcdef\wmcb.exe`
	for _, tc := range []struct {
		name, path string
		args       []string
		want       string
	}{
		{"agent", exe, []string{"facts", "--json"}, exe + " facts --json"},
		{"follow", exe, []string{"status", "--follow", "--json"}, exe + " status --follow --json"},
		{"value", exe, []string{"--level=5"}, exe + " --level=5"},
		{"reboot", `C:\Windows\System32\shutdown.exe`, []string{"/r", "/t", "0", "/f", "/d", "p:4:1"}, `C:\Windows\System32\shutdown.exe /r /t 0 /f /d p:4:1`},
		{"no arguments", exe, nil, exe},
		{"path as argument", exe, []string{`C:\k\plan.json`}, exe + ` C:\k\plan.json`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := commandLine(transport.Command{Path: tc.path, Args: tc.args}); got != tc.want || err != nil {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
	for _, path := range []string{
		"", "sc", "wmcb.exe", `\\server\share\a.exe`, `C:\Program Files\a.exe`, `C:\a.exe & calc`, `C:\a=b.exe`, `C:/a.exe`, `C:\..\a.exe`,
		`C:\%TEMP%\a.exe`, `C:\$a.exe`, `C:\a,b.exe`, `"C:\a.exe"`, "C:\\a.exe\n", `C:\`, `C:a.exe`, `C:\a\`, "C:\\ä.exe",
	} {
		if line, err := commandLine(transport.Command{Path: path}); !errors.Is(err, transport.ErrCommand) {
			t.Errorf("program %q gave %q, %v", path, line, err)
		}
	}
	for _, word := range []string{
		"", " ", "a b", "a;b", "a&b", "a|b", "a>b", "a<b", "a^b", "%PATH%", "!a!", "$a", "`a", "'a'", `"a"`, "(a)", "{a}", "@a", "#a", "*", "?",
		"a\x00b", "a\nb", "a\rb", "größe", "\u2018a\u2019", "-", "--", "---a", "--%", "a,b", "-a.b", "-a:b", "--log=C:\\a", "~", "[a]", "a+b", ".", ":a", "=a",
	} {
		if line, err := commandLine(transport.Command{Path: exe, Args: []string{word}}); !errors.Is(err, transport.ErrCommand) {
			t.Errorf("word %q gave %q, %v", word, line, err)
		}
	}
	secret := "s3cret!"
	if _, err := commandLine(transport.Command{Path: exe, Args: []string{secret}}); strings.Contains(err.Error(), secret) {
		t.Errorf("the refused word is in the message: %v", err)
	}
	if _, err := commandLine(transport.Command{Path: exe, Args: []string{strings.Repeat("a", maxCommand)}}); !errors.Is(err, transport.ErrCommand) {
		t.Errorf("a long line gave %v", err)
	}
}

func TestW46Paths(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{`C:\k\cni\config\cni.conf`, "/C:/k/cni/config/cni.conf"},
		{`C:\Program Files\containerd\containerd.exe`, "/C:/Program Files/containerd/containerd.exe"},
		{`D:\k`, "/D:/k"},
		{`c:\k`, "/c:/k"},
		{`C:\k\größe`, "/C:/k/größe"},
		{`C:\` + strings.Repeat(`a\`, 148) + "abc", "/C:/" + strings.Repeat("a/", 148) + "abc"},
	} {
		if got, err := sftpPath(tc.in); got != tc.want || err != nil {
			t.Errorf("%s becomes %s, %v", tc.in, got, err)
		}
	}
	for _, in := range []string{
		"", `\\server\share`, `\\?\C:\k`, `\\.\C:\k`, `C:\k\..\Windows\x`, `C:\..`, `C:\.\k`, `k\a`, `..\k`, `\k`, `C:`, `C:\`, `C:k`, `C:/k/a`, `/C:/k`,
		`C:\k\`, `C:\\k`, `C:\k\a.exe:stream`, `C:\k\a*`, `C:\k\a?`, `C:\k\a.`, `C:\k\a `, "C:\\k\\a\x00", "C:\\k\\a\nb", `C:\k/a`, `1:\k`, `CC:\k`,
		`C:\` + strings.Repeat("a", maxPath),
	} {
		if got, err := sftpPath(in); !errors.Is(err, ErrPath) {
			t.Errorf("%q becomes %q, %v", in, got, err)
		}
	}
}

func FuzzPath(f *testing.F) {
	f.Add(`C:\k\a.exe`)
	f.Add(`C:\k\..\a`)
	f.Add(`\\server\share`)
	f.Fuzz(func(t *testing.T, in string) {
		got, err := sftpPath(in)
		if err != nil {
			return
		}
		back := strings.ReplaceAll(strings.TrimPrefix(got, "/"), "/", `\`)
		if back != in || strings.Contains(got, "/../") || strings.Contains(got, "//") || strings.ContainsAny(got, "\\\x00") {
			t.Errorf("%q becomes %q", in, got)
		}
	})
}

func FuzzCommandLine(f *testing.F) {
	f.Add(`C:\a.exe`, "facts")
	f.Add(`C:\a.exe`, "--json")
	f.Fuzz(func(t *testing.T, path, word string) {
		line, err := commandLine(transport.Command{Path: path, Args: []string{word}})
		if err != nil {
			return
		}
		if line != path+" "+word || strings.ContainsAny(path+word, " \t\r\n\x00&|<>^%!$`'\"(){}[]@#*?;,~+") {
			t.Errorf("%q and %q become %q", path, word, line)
		}
	})
}
