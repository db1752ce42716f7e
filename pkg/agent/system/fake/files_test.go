package fake_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

func TestPaths(t *testing.T) {
	m := newMachine(t)
	files := m.System().Files
	if err := files.Mkdir(`C:\k`, plan.AccessPublic); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		`C:\k\kubelet.exe`:                     nil,
		`c:\K\Console.txt`:                     nil,
		`C:\k\a b.txt`:                         nil,
		`C:\k\` + strings.Repeat("x", 255):     nil,
		`C:\k\` + strings.Repeat("x", 256):     fs.ErrInvalid,
		`C:\k\x.`:                              fs.ErrInvalid,
		`C:\k\x `:                              fs.ErrInvalid,
		`C:\k\NUL`:                             fs.ErrInvalid,
		`C:\k\con.txt`:                         fs.ErrInvalid,
		`C:\k\Com1`:                            fs.ErrInvalid,
		`C:\k\LPT³.log`:                        fs.ErrInvalid,
		`C:\k\CONIN$`:                          fs.ErrInvalid,
		`C:\k\x:stream`:                        fs.ErrInvalid,
		`C:\k\..\x`:                            fs.ErrInvalid,
		`C:\k\\x`:                              fs.ErrInvalid,
		`C:\k/x`:                               fs.ErrInvalid,
		`C:\k\a*b`:                             fs.ErrInvalid,
		"C:\\k\\a\x01":                         fs.ErrInvalid,
		`\\server\share\x`:                     fs.ErrInvalid,
		`k\x`:                                  fs.ErrInvalid,
		`D:\x`:                                 fs.ErrNotExist,
		`C:\nowhere\x`:                         fs.ErrNotExist,
		`C:\k\x.txt\y`:                         fs.ErrNotExist,
		`C:\` + strings.Repeat(`x\`, 17000):    fs.ErrInvalid,
		`C:\`:                                  system.ErrDenied,
		`C:\Windows`:                           system.ErrDenied,
		`C:\k\COM10`:                           nil,
		`C:\k\nul-like`:                        nil,
		`C:\k\` + strings.Repeat("ü", 128):     fs.ErrInvalid, // counted in bytes here, a little stricter than NTFS
		`C:\k\.hidden`:                         nil,
		`C:\k\` + strings.Repeat(`a`, 10) + ``: nil,
	} {
		f, err := files.Create(path, plan.AccessPublic)
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("Create(%.40q) = %v, want %v", path, err, want)
		}
		if err == nil {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestFilesKeepCaseAndIgnoreIt(t *testing.T) {
	m := newMachine(t)
	files := m.System().Files
	if err := files.Mkdir(`C:\K`, plan.AccessSecret); err != nil {
		t.Fatal(err)
	}
	put(t, files, `c:\k\Kubelet.EXE`, "one")
	if got := read(t, files, `C:\k\kubelet.exe`); got != "one" {
		t.Errorf("got %q", got)
	}
	put(t, files, `C:\k\KUBELET.exe`, "two")
	if err := files.Mkdir(`C:\k`, plan.AccessPublic); !errors.Is(err, system.ErrExist) {
		t.Errorf("Mkdir over another case: %v", err)
	}
	infos, err := files.ReadDir(`C:\k`)
	if err != nil {
		t.Fatal(err)
	}
	want := []system.Info{{Path: `C:\K\Kubelet.EXE`, Size: 3, Access: plan.AccessPublic}}
	if diff := cmp.Diff(want, infos); diff != "" {
		t.Error(diff)
	}
	if err := files.Rename(`C:\k\kubelet.exe`, `C:\k\kubelet.exe`); err != nil {
		t.Errorf("changing the case of a name: %v", err)
	}
	if i, err := files.Stat(`C:\K\KUBELET.EXE`); err != nil || i.Path != `C:\K\kubelet.exe` {
		t.Errorf("after a rename to another case: %v, %v", i, err)
	}
}

func TestInheritedAndExplicitAccess(t *testing.T) {
	m := newMachine(t)
	if err := m.WriteFile(`C:\k\conf\a.txt`, []byte("x")); err != nil {
		t.Fatal(err)
	}
	files := m.System().Files
	for _, path := range []string{`C:\k`, `C:\k\conf`, `C:\k\conf\a.txt`} {
		if i, err := files.Stat(path); err != nil || i.Access != "" {
			t.Errorf("%s has access %q, %v; want inherited", path, i.Access, err)
		}
		if err := files.SetAccess(path, plan.AccessSecret); err != nil {
			t.Error(err)
		}
		if i, err := files.Stat(path); err != nil || i.Access != plan.AccessSecret {
			t.Errorf("%s has access %q, %v after SetAccess", path, i.Access, err)
		}
	}
	if err := files.SetAccess(`C:\k\none`, plan.AccessPublic); !errors.Is(err, system.ErrNotExist) {
		t.Errorf("SetAccess of nothing: %v", err)
	}
}

func TestNotElevatedMayNotChangeAnything(t *testing.T) {
	m := newMachine(t, func(o *fake.Options) { o.NotElevated = true })
	if err := m.WriteFile(`C:\k\a.txt`, []byte("x")); err != nil {
		t.Fatal(err)
	}
	s := m.System()
	_, create := s.Files.Create(`C:\k\b`, plan.AccessPublic)
	_, enable := s.Features.Enable(t.Context(), "Containers")
	_, lock := s.Files.Lock(`C:\k\lock`)
	for name, err := range map[string]error{
		"create": create, "mkdir": s.Files.Mkdir(`C:\z`, plan.AccessPublic), "remove": s.Files.Remove(`C:\k\a.txt`), "lock": lock,
		"env": s.Env.Set("A", "b"), "feature": enable, "service": s.Services.Create(system.ServiceConfig{Name: "x", Exe: "y"}),
		"network": s.Networks.Create(t.Context(), plan.Network{}), "firewall": s.Firewall.Set(plan.FirewallRule{}),
		"route": s.Routes.Add(plan.Route{}), "certificate": s.Certificates.Add("ROOT", nil), "defender": s.Defender.Add(plan.DefenderExclusion{}),
	} {
		if !errors.Is(err, system.ErrDenied) {
			t.Errorf("%s: %v, want access denied", name, err)
		}
	}
	if got := read(t, s.Files, `C:\k\a.txt`); got != "x" {
		t.Errorf("reading: %q", got)
	}
	if up, err := s.Machine.Elevated(); up || err != nil {
		t.Errorf("Elevated = %v, %v", up, err)
	}
}

// sharing is one way in which a file is in use.
type sharing struct {
	name                          string
	use                           func(t *testing.T, m *fake.Machine)
	overwrite, remove, away, onto error
}

func TestSharingViolations(t *testing.T) {
	const file = `C:\k\x.exe`
	for _, tc := range []sharing{
		{name: "free", use: func(*testing.T, *fake.Machine) {}},
		{
			name: "running image may only be renamed away",
			use: func(t *testing.T, m *fake.Machine) {
				if _, err := m.StartProcess(file, nil, fake.Streams{}); err != nil {
					t.Fatal(err)
				}
			},
			overwrite: system.ErrBusy, remove: system.ErrBusy, onto: system.ErrBusy,
		},
		{
			name: "open without delete sharing",
			use: func(t *testing.T, m *fake.Machine) {
				if _, err := m.Hold(file); err != nil {
					t.Fatal(err)
				}
			},
			overwrite: system.ErrBusy, remove: system.ErrBusy, onto: system.ErrBusy, away: system.ErrBusy,
		},
		{
			name: "being written",
			use: func(t *testing.T, m *fake.Machine) {
				if _, err := m.System().Files.Append(file, plan.AccessPublic); err != nil {
					t.Fatal(err)
				}
			},
			overwrite: system.ErrBusy, remove: system.ErrBusy, onto: system.ErrBusy, away: system.ErrBusy,
		},
		{
			name: "being read with delete sharing",
			use: func(t *testing.T, m *fake.Machine) {
				if _, err := m.System().Files.Open(file); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "locked",
			use: func(t *testing.T, m *fake.Machine) {
				if _, err := m.System().Files.Lock(file); err != nil {
					t.Fatal(err)
				}
			},
			overwrite: system.ErrBusy, remove: system.ErrBusy, onto: system.ErrBusy, away: system.ErrBusy,
		},
	} {
		for op, want := range map[string]error{"overwrite": tc.overwrite, "remove": tc.remove, "away": tc.away, "onto": tc.onto} {
			t.Run(tc.name+"/"+op, func(t *testing.T) {
				m := newMachine(t, func(o *fake.Options) { o.Programs = map[string]fake.Program{"x.exe": untilKilled} })
				for _, path := range []string{file, `C:\k\new.exe`} {
					if err := m.WriteFile(path, []byte(path)); err != nil {
						t.Fatal(err)
					}
				}
				tc.use(t, m)
				files := m.System().Files
				var err error
				switch op {
				case "overwrite":
					_, err = files.Create(file, plan.AccessPublic)
				case "remove":
					err = files.Remove(file)
				case "away":
					err = files.Rename(file, `C:\k\old.exe`)
				case "onto":
					err = files.Rename(`C:\k\new.exe`, file)
				}
				if !errors.Is(err, want) || want == nil && err != nil {
					t.Errorf("%s = %v, want %v", op, err, want)
				}
			})
		}
	}
}

func TestReaderKeepsReplacedFile(t *testing.T) {
	m := newMachine(t)
	files := m.System().Files
	if err := files.Mkdir(`C:\k`, plan.AccessPublic); err != nil {
		t.Fatal(err)
	}
	put(t, files, `C:\k\a`, "old")
	put(t, files, `C:\k\b`, "new")
	r, err := files.Open(`C:\k\a`)
	if err != nil {
		t.Fatal(err)
	}
	if err := files.Rename(`C:\k\b`, `C:\k\a`); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 3)
	if _, err := r.Read(buf); err != nil || string(buf) != "old" {
		t.Errorf("reader of the replaced file got %q, %v", buf, err)
	}
	if got := read(t, files, `C:\k\a`); got != "new" {
		t.Errorf("the name holds %q", got)
	}
}

func TestFolders(t *testing.T) {
	m := newMachine(t)
	if err := m.WriteFile(`C:\a\b\c.txt`, []byte("x")); err != nil {
		t.Fatal(err)
	}
	files := m.System().Files
	code := func(err error) uint32 {
		var e *fake.Error
		if errors.As(err, &e) {
			return e.Code
		}
		return 0
	}
	if err := files.Remove(`C:\a`); code(err) != 145 {
		t.Errorf("removing a full folder: %v", err)
	}
	if err := files.Rename(`C:\a`, `C:\a\b\d`); !errors.Is(err, system.ErrBusy) {
		t.Errorf("moving a folder into itself: %v", err)
	}
	if err := files.Rename(`C:\a`, `C:\Windows`); !errors.Is(err, system.ErrDenied) {
		t.Errorf("moving a folder onto another: %v", err)
	}
	release, err := m.Hold(`C:\a\b\c.txt`)
	if err != nil {
		t.Fatal(err)
	}
	if err := files.Rename(`C:\a`, `C:\z`); !errors.Is(err, system.ErrDenied) {
		t.Errorf("moving a folder with an open file: %v", err)
	}
	release()
	if err := files.Rename(`C:\a`, `C:\z`); err != nil {
		t.Error(err)
	}
	if got := read(t, files, `C:\z\b\c.txt`); got != "x" {
		t.Errorf("after moving the folder: %q", got)
	}
	if _, err := files.ReadDir(`C:\z\b\c.txt`); code(err) != 267 {
		t.Errorf("listing a file: %v", err)
	}
	if _, err := files.Open(`C:\z`); !errors.Is(err, system.ErrDenied) {
		t.Errorf("opening a folder: %v", err)
	}
}

func TestDiskFullKeepsWhatFitted(t *testing.T) {
	m := newMachine(t, func(o *fake.Options) { o.DiskSize = 1 << 20 })
	s := m.System()
	m.FillDisk(100)
	f, err := s.Files.Create(`C:\big`, plan.AccessPublic)
	if err != nil {
		t.Fatal(err)
	}
	n, err := f.Write(make([]byte, 250))
	if n != 100 || !errors.Is(err, system.ErrDiskFull) {
		t.Errorf("Write = %d, %v", n, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	free := func() int64 {
		n, err := s.Machine.FreeDisk(`C:\`)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if free() != 0 {
		t.Errorf("free = %d, want 0", free())
	}
	if err := s.Files.Remove(`C:\big`); err != nil {
		t.Fatal(err)
	}
	if free() != 100 {
		t.Errorf("free = %d after the removal, want 100", free())
	}
	m.FillDisk(-1)
	if free() != 1<<20 {
		t.Errorf("free = %d without ballast", free())
	}
}

func TestPowerCutTearsUnsyncedBytes(t *testing.T) {
	for tear, want := range map[fake.Tear]string{fake.TearZeros: "kept\x00\x00\x00\x00", fake.TearTruncate: "kept"} {
		t.Run(fmt.Sprint(tear), func(t *testing.T) {
			m := newMachine(t, func(o *fake.Options) { o.Timing.Boot = 1 })
			files := m.System().Files
			f, err := files.Create(`C:\journal`, plan.AccessPublic)
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range []func() error{
				func() error { _, err := f.Write([]byte("kept")); return err }, f.Sync,
				func() error { _, err := f.Write([]byte("lost")); return err }, f.Close,
			} {
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			put(t, files, `C:\never`, "synced")
			m.PowerCut(tear)
			if err := m.PowerOn(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := read(t, files, `C:\journal`); got != want {
				t.Errorf("journal = %q, want %q", got, want)
			}
			if got := read(t, files, `C:\never`); strings.Trim(got, "\x00") != "" {
				t.Errorf("a file that was never synced holds %q", got)
			}
		})
	}
}

func TestRebootKeepsUnsyncedBytes(t *testing.T) {
	m := newMachine(t, func(o *fake.Options) { o.Timing = fake.Timing{Boot: 1, Shutdown: 1} })
	files := m.System().Files
	put(t, files, `C:\a`, "written")
	if err := m.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.PowerCut(fake.TearZeros)
	if err := m.PowerOn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := read(t, files, `C:\a`); got != "written" {
		t.Errorf("got %q", got)
	}
}

func TestLock(t *testing.T) {
	m := newMachine(t, func(o *fake.Options) { o.Programs = map[string]fake.Program{"a.exe": untilKilled} })
	if err := m.WriteFile(`C:\a.exe`, nil); err != nil {
		t.Fatal(err)
	}
	p, err := m.StartProcess(`C:\a.exe`, nil, fake.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.System().Files.Lock(`C:\lock`); err != nil {
		t.Fatal(err)
	}
	if _, err := m.System().Files.Lock(`C:\lock`); !errors.Is(err, system.ErrBusy) {
		t.Errorf("second lock: %v", err)
	}
	p.Kill()
	release, err := m.System().Files.Lock(`C:\lock`)
	if err != nil {
		t.Fatalf("lock after its process was killed: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if err := release(); err == nil {
		t.Error("a lock was released twice")
	}
}
