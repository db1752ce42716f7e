//go:build linux

package wine

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/test/wine/hns"
)

// TestDefinition: a library hands on all that Wine's exports, but for what its source stands for.
func TestDefinition(t *testing.T) {
	dump := "stuff\n[Ordinal/Name Pointer] Table\n\t[  23] FreeAddrInfoEx\n\t[   1] bind\n\n\t[  1] other\n"
	names := exportedNames([]byte(dump))
	got := string(definition("ws2_32.dll", names, []byte("int WINAPI my_bind(SOCKET s)"), "ws2_3o"))
	want := "LIBRARY ws2_32.dll\nEXPORTS\n FreeAddrInfoEx=ws2_3o.FreeAddrInfoEx\n bind=my_bind\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestShimsSayWhatTheyAre: every source in shim begins with a comment that says what it stands in for and what it invents.
func TestShimsSayWhatTheyAre(t *testing.T) {
	files, err := filepath.Glob("shim/*.[ch]")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := bytes.Cut(b, []byte("*/"))
		for _, want := range []string{"/* ", "Stands in for", "nvents"} {
			if !bytes.Contains(head, []byte(want)) {
				t.Errorf("the first comment of %s lacks %q", f, want)
			}
		}
	}
	for _, s := range shims() {
		if !slices.Contains(files, filepath.Join("shim", s.source)) {
			t.Errorf("%s is not there", s.source)
		}
	}
}

func TestMessages(t *testing.T) {
	var b bytes.Buffer
	for _, text := range []string{"", "rules", "hns\na\n\x00b"} {
		if err := writeMessage(&b, text); err != nil {
			t.Fatal(err)
		}
		if got, err := readMessage(&b); err != nil || got != text {
			t.Errorf("read %q, %v, want %q", got, err, text)
		}
	}
	if _, err := readMessage(strings.NewReader("\xff\xff\xff\xff")); !errors.Is(err, errTooLong) {
		t.Errorf("a message of 4 GiB: %v", err)
	}
	if _, err := readMessage(strings.NewReader("\x05\x00\x00\x00ab")); err == nil {
		t.Error("half a message is no error")
	}
}

func newHardware(t *testing.T) (*hardware, *[]bool) {
	t.Helper()
	s, err := hns.New(hns.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pressed := &[]bool{}
	return &hardware{hns: s, power: func(restart bool) { *pressed = append(*pressed, restart) }, features: map[string]int{"Containers": featureStaged}}, pressed
}

// TestFeatures: a feature that is enabled slowly is there after a boot.
func TestFeatures(t *testing.T) {
	for _, tc := range []struct {
		name          string
		slow          bool
		enabled, then string
	}{
		{"at once", false, "0", "4"},
		{"after a reboot", true, "3010", "5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, _ := newHardware(t)
			h.slowFeatures = tc.slow
			got := []string{h.answer("feature\nContainers"), h.answer("enable-feature\nContainers"), h.answer("feature\nContainers")}
			if err := h.boot(); err != nil {
				t.Fatal(err)
			}
			got = append(got, h.answer("feature\nContainers"), h.answer("enable-feature\nContainers"), h.answer("feature\nabsent"), h.answer("enable-feature\nabsent"))
			if diff := cmp.Diff([]string{"3", tc.enabled, tc.then, "4", "0", "-1", "-1"}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRules(t *testing.T) {
	h, _ := newHardware(t)
	for _, m := range []string{
		"add-rule\na\x1fours\n", "add-rule\na\x1ftheirs\n", "add-rule\nb\x1fours\n", "replace-rule\na\x1fours\nc\x1fours", "remove-rule\na\n", "remove-rule\nabsent\n",
	} {
		if got := h.answer(m); got != "" {
			t.Errorf("%q answers %q", m, got)
		}
	}
	if got, want := h.answer("rules"), "c\x1fours\x1eb\x1fours"; got != want {
		t.Errorf("rules %q, want %q", got, want)
	}
}

// TestStarted: programs are recorded and fail, but shutdown.exe, which presses the button.
func TestStarted(t *testing.T) {
	h, pressed := newHardware(t)
	for line, want := range map[string]string{
		`powershell -Command x`:                                  "1",
		`"C:\Windows\System32\shutdown.exe" /r /t 0 /f /d p:4:1`: "0",
		`netsh.exe`: "1",
		``:          "1",
	} {
		if got := h.answer("started\n" + line); got != want {
			t.Errorf("%q answers %q, want %q", line, got, want)
		}
	}
	if diff := cmp.Diff([]string{"", "netsh.exe", "powershell -Command x"}, slices.Sorted(slices.Values(h.started))); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(*pressed, []bool{true}) {
		t.Errorf("the button was pressed %v", *pressed)
	}
}

func TestReadSSH(t *testing.T) {
	const log = `2026/11/30 21:38:24 connection 1: refused: EOF
2026/11/30 21:38:24 connection 2: open user=Administrator
2026/11/30 21:38:24 connection 2: subsystem sftp
2026/11/30 21:38:25 connection 2: exec C:\Windows\wmcb\0\wmcb.exe serve
2026/11/30 21:38:26 connection 2: closed
`
	want := SSH{Connections: 1, Channels: []string{"sftp", `C:\Windows\wmcb\0\wmcb.exe serve`}}
	if diff := cmp.Diff(want, readSSH(log)); diff != "" {
		t.Error(diff)
	}
}

// TestCloneDisk: a disk is its template's equal, and shares only what nothing writes into.
func TestCloneDisk(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "disk")
	large := bytes.Repeat([]byte("x"), linkedFrom)
	for name, content := range map[string][]byte{
		"drive_c/windows/system32/a.dll": large, "drive_c/windows/small.ini": []byte("1"), "drive_c/k/large.exe": large, "system.reg": large,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../drive_c", filepath.Join(from, "c:")); err != nil {
		t.Fatal(err)
	}
	if err := cloneDisk(from, to); err != nil {
		t.Fatal(err)
	}
	shared := map[string]bool{}
	for name := range maps.Keys(map[string]bool{"drive_c/windows/system32/a.dll": true, "drive_c/windows/small.ini": true, "drive_c/k/large.exe": true, "system.reg": true}) {
		a, errA := os.Stat(filepath.Join(from, name))
		b, errB := os.Stat(filepath.Join(to, name))
		if errA != nil || errB != nil || a.Size() != b.Size() {
			t.Fatal(name, errA, errB)
		}
		shared[name] = os.SameFile(a, b)
	}
	want := map[string]bool{"drive_c/windows/system32/a.dll": true, "drive_c/windows/small.ini": false, "drive_c/k/large.exe": false, "system.reg": false}
	if diff := cmp.Diff(want, shared); diff != "" {
		t.Error(diff)
	}
	if link, err := os.Readlink(filepath.Join(to, "c:")); err != nil || link != "../drive_c" {
		t.Error(link, err)
	}
}

// TestPrune: templates of other sources go when nobody has used them for a day, the one in use never.
func TestPrune(t *testing.T) {
	base := t.TempDir()
	old := time.Now().Add(-2 * unused)
	for name, at := range map[string]time.Time{"template-used": old, "template-old": old, "template-young": time.Now(), "root-trixie-1": old} {
		if err := errors.Join(os.Mkdir(filepath.Join(base, name), 0o755), os.Chtimes(filepath.Join(base, name), at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := (preparation{base: base}).prune(filepath.Join(base, "template-used")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{"root-trixie-1", "template-used", "template-young"}, left); diff != "" {
		t.Error(diff)
	}
}

// TestFilesLeaveOutWhatIsOurs: what changes by itself would make every comparison fail.
func TestFilesLeaveOutWhatIsOurs(t *testing.T) {
	m := &Machine{disk: t.TempDir()}
	for _, f := range []string{`C:\windows\bed\guest.exe`, `C:\ProgramData\ssh\logs\sshd.log`, `C:\k\a.txt`} {
		if err := m.Put(f, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	files, err := m.Files()
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys(files))
	want := []string{`C:\.`, `C:\ProgramData`, `C:\ProgramData\ssh`, `C:\k`, `C:\k\a.txt`, `C:\windows`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if files[`C:\k`] != "folder" || len(files[`C:\k\a.txt`]) != 64 {
		t.Errorf("files %v", files)
	}
}
