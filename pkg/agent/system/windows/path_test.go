package windows

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

// TestW46PathsAreWindowsPaths: a drive, backslashes, nothing that Win32 would rewrite and nothing that leads elsewhere.
func TestW46PathsAreWindowsPaths(t *testing.T) {
	long := strings.Repeat(`\folder name`, 25) // 300 characters
	for _, tt := range []struct{ path, drive, rest string }{
		{`C:\`, `C:`, ``},
		{`C:\k`, `C:`, `k`},
		{`C:\k\cni\config\cni.conf`, `C:`, `k\cni\config\cni.conf`},
		{`C:\Program Files\containerd\containerd.exe`, `C:`, `Program Files\containerd\containerd.exe`},
		{`d:\k\`, `d:`, `k`},
		{`C:` + long, `C:`, long[1:]},
		{`C:\k\.hidden`, `C:`, `k\.hidden`},
		{`C:\k\console.log`, `C:`, `k\console.log`},
		{`C:\k\com10`, `C:`, `k\com10`},
		{`C:\k\Ünïcode`, `C:`, `k\Ünïcode`},
	} {
		drive, rest, err := splitPath("test", tt.path)
		if err != nil || drive != tt.drive || rest != tt.rest {
			t.Errorf("%s is %q %q %v, want %q %q", tt.path, drive, rest, err, tt.drive, tt.rest)
		}
	}
}

func TestPathsRefused(t *testing.T) {
	for _, path := range []string{
		``, `k`, `C:`, `C:k`, `C:/k`, `/C:/k`, `\k`, `\\server\share\x`, `\\?\C:\k`, `\\.\PhysicalDrive0`, `1:\k`,
		`C:\k\..\Windows\x`, `C:\k\.`, `C:\k\\x`, `C:\\k`, `C:\k/cni`, `C:\k\x:stream`, `C:\k\x::$DATA`,
		`C:\k\x.`, `C:\k\x `, `C:\k.\x`, `C:\k\a*`, `C:\k\a?`, `C:\k\"a"`, `C:\k\a|b`, `C:\k\<a>`, "C:\\k\\a\x00b", "C:\\k\\a\nb",
		`C:\k\NUL`, `C:\k\nul.txt`, `C:\CON\x`, `C:\k\com1`, `C:\k\LPT9.log`, `C:\k\COM¹`, `C:\k\aux .txt`, `C:\k\CONIN$`,
		`C:\` + strings.Repeat("a", 256), `C:` + strings.Repeat(`\aaaaaaaaa`, 3200),
	} {
		if _, _, err := splitPath("test", path); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%.60q: %v, want it refused", path, err)
		}
	}
}

func TestSplitLast(t *testing.T) {
	for _, tt := range []struct{ rest, folder, name string }{
		{``, ``, ``}, {`k`, ``, `k`}, {`k\wmcb`, `k`, `wmcb`}, {`k\wmcb\plan.json`, `k\wmcb`, `plan.json`},
	} {
		if folder, name := splitLast(tt.rest); folder != tt.folder || name != tt.name {
			t.Errorf("%q is %q %q, want %q %q", tt.rest, folder, name, tt.folder, tt.name)
		}
	}
}
