package windows

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/windows"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// childArg makes the test program wait for the end of its standard input, so that a copy of it can be a running program.
const childArg = "-wait-for-end-of-input"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == childArg {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	os.Exit(m.Run())
}

func here(t *testing.T) system.System {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func writeFile(t *testing.T, f system.Files, path, content string, access plan.Access) {
	t.Helper()
	w, err := f.Create(path, access)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, f system.Files, path string) string {
	t.Helper()
	r, err := f.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// want fails the test unless err is the sentinel; nil asks for no error.
func want(t *testing.T, what string, err, sentinel error) {
	t.Helper()
	if !errors.Is(err, sentinel) || sentinel == nil && err != nil {
		t.Errorf("%s: %v, want %v", what, err, sentinel)
	}
}

func TestFilesCreateReadRename(t *testing.T) {
	f, dir := here(t).Files, t.TempDir()
	path := filepath.Join(dir, "Plan.json")
	writeFile(t, f, path, "one", plan.AccessSecret)
	writeFile(t, f, path, "two", plan.AccessSecret)
	if got := readFile(t, f, strings.ToUpper(path)); got != "two" {
		t.Errorf("content %q", got)
	}
	info, err := f.Stat(strings.ToLower(path))
	if err != nil || info.Size != 3 || info.Dir {
		t.Errorf("%+v %v", info, err)
	}
	if filepath.Base(info.Path) != "Plan.json" {
		t.Errorf("stored name %s", info.Path)
	}
	target := filepath.Join(dir, "target")
	writeFile(t, f, target, "old", plan.AccessPublic)
	want(t, "rename", f.Rename(path, target), nil)
	if got := readFile(t, f, target); got != "two" {
		t.Errorf("content after rename %q", got)
	}
	_, err = f.Stat(path)
	want(t, "stat of the old name", err, system.ErrNotExist)
	want(t, "remove", f.Remove(target), nil)
	want(t, "remove again", f.Remove(target), system.ErrNotExist)
}

func TestFilesRefusals(t *testing.T) {
	f, dir := here(t).Files, t.TempDir()
	file, missing := filepath.Join(dir, "file"), filepath.Join(dir, "no", "file")
	writeFile(t, f, file, "x", plan.AccessPublic)
	want(t, "mkdir", f.Mkdir(filepath.Join(dir, "sub"), plan.AccessPublic), nil)
	want(t, "mkdir again", f.Mkdir(filepath.Join(dir, "sub"), plan.AccessPublic), system.ErrExist)
	want(t, "mkdir without parent", f.Mkdir(missing, plan.AccessPublic), system.ErrNotExist)
	want(t, "rename to a missing folder", f.Rename(file, missing), system.ErrNotExist)
	want(t, "rename of nothing", f.Rename(missing, file), system.ErrNotExist)
	for _, open := range []func(string) error{
		func(p string) error { _, err := f.Open(p); return err },
		func(p string) error { _, err := f.Create(p, plan.AccessPublic); return err },
		func(p string) error { _, err := f.Append(p, plan.AccessPublic); return err },
		func(p string) error { _, err := f.Lock(p); return err },
		func(p string) error { _, err := f.ReadDir(p); return err },
	} {
		want(t, "missing folder", open(missing), system.ErrNotExist)
		want(t, "relative path", open("file"), fs.ErrInvalid)
		want(t, "stream", open(file+":stream"), fs.ErrInvalid)
	}
	if _, err := f.Create(filepath.Join(dir, "sub"), plan.AccessPublic); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if _, err := f.Stat(filepath.Join(dir, "sub")); err != nil {
		t.Errorf("the folder is gone: %v", err)
	}
	_, err := f.Create(file, "nonsense")
	if err == nil {
		t.Error("an unknown class was taken")
	}
	writeFile(t, f, filepath.Join(dir, "sub", "inner"), "", plan.AccessPublic)
	err = f.Remove(filepath.Join(dir, "sub"))
	if !is(err, uint32(windows.ERROR_DIR_NOT_EMPTY)) || errors.Is(err, system.ErrExist) {
		t.Errorf("remove of a folder that is not empty: %v", err)
	}
}

// A file that was never closed goes with its handle.
func TestFilesUnclosedFileGoes(t *testing.T) {
	f, path := here(t).Files, filepath.Join(t.TempDir(), "torn")
	w, err := f.Create(path, plan.AccessSecret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "half"); err != nil {
		t.Fatal(err)
	}
	if err := w.(*newFile).f.Close(); err != nil { // what the end of a process does
		t.Fatal(err)
	}
	_, err = f.Stat(path)
	want(t, "stat after the process ended", err, system.ErrNotExist)
}

func TestFilesAppend(t *testing.T) {
	f, path := here(t).Files, filepath.Join(t.TempDir(), "journal.jsonl")
	for _, line := range []string{"one\n", "two\n"} {
		w, err := f.Append(path, plan.AccessSecret)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(w, line)
		if got := readFile(t, f, path); !strings.HasSuffix(got, line) {
			t.Errorf("a reader sees %q while the writer is open", got)
		}
		want(t, "append", errors.Join(err, w.Sync(), w.Close()), nil)
	}
	if got := readFile(t, f, path); got != "one\ntwo\n" {
		t.Errorf("journal %q", got)
	}
}

// A file that is held without sharing can be neither replaced nor deleted.
func TestFilesHeld(t *testing.T) {
	f, dir := here(t).Files, t.TempDir()
	path, next := filepath.Join(dir, "file"), filepath.Join(dir, "next")
	writeFile(t, f, path, "old", plan.AccessPublic)
	writeFile(t, f, next, "new", plan.AccessPublic)
	held, err := open("hold", path, opening{access: windows.FILE_GENERIC_READ, share: windows.FILE_SHARE_READ, disposition: windows.FILE_OPEN})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "replace", f.Rename(next, path), system.ErrBusy)
	want(t, "remove", f.Remove(path), system.ErrBusy)
	_, err = f.Create(path, plan.AccessPublic)
	want(t, "create", err, system.ErrBusy)
	if err := windows.CloseHandle(held); err != nil {
		t.Fatal(err)
	}
	want(t, "replace after it was let go", f.Rename(next, path), nil)
}

// A running program's file can be renamed away and nothing else.
func TestFilesRunningProgram(t *testing.T) {
	f, dir := here(t).Files, t.TempDir()
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	path, next, away := filepath.Join(dir, "kubelet.exe"), filepath.Join(dir, "kubelet.new"), filepath.Join(dir, "kubelet.old")
	writeFile(t, f, path, string(self), plan.AccessPublic)
	writeFile(t, f, next, "MZ", plan.AccessPublic)
	child := exec.Command(path, childArg)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	want(t, "replace", f.Rename(next, path), system.ErrBusy)
	want(t, "remove", f.Remove(path), system.ErrBusy)
	_, err = f.Create(path, plan.AccessPublic)
	want(t, "create", err, system.ErrBusy)
	want(t, "rename away", f.Rename(path, away), nil)
	want(t, "put the new one in place", f.Rename(next, path), nil)
	if err := errors.Join(stdin.Close(), child.Wait()); err != nil {
		t.Fatal(err)
	}
	want(t, "remove the old one", f.Remove(away), nil)
}

func TestFilesReadDir(t *testing.T) {
	f, dir := here(t).Files, t.TempDir()
	for _, name := range []string{"b", "C", "a"} {
		writeFile(t, f, filepath.Join(dir, name), name, plan.AccessPublic)
	}
	want(t, "mkdir", f.Mkdir(filepath.Join(dir, "d"), plan.AccessPublic), nil)
	list, err := f.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, strings.TrimPrefix(e.Path, dir))
		if e.Dir != strings.HasSuffix(e.Path, `\d`) {
			t.Errorf("%+v", e)
		}
	}
	if diff := cmp.Diff([]string{`\C`, `\a`, `\b`, `\d`}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFilesLongPath(t *testing.T) {
	f, dir := here(t).Files, t.TempDir()
	for range 6 {
		dir = filepath.Join(dir, strings.Repeat("n", 60))
		want(t, "mkdir", f.Mkdir(dir, plan.AccessPublic), nil)
	}
	path := filepath.Join(dir, "file")
	writeFile(t, f, path, "deep", plan.AccessPublic)
	if got := readFile(t, f, path); got != "deep" {
		t.Errorf("content %q of a path of %d characters", got, len(path))
	}
}

func TestFilesLock(t *testing.T) {
	f, path := here(t).Files, filepath.Join(t.TempDir(), "lock")
	release, err := f.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Lock(path)
	want(t, "second lock", err, system.ErrBusy)
	want(t, "release", release(), nil)
	release, err = f.Lock(path)
	want(t, "lock again", err, nil)
	want(t, "release", release(), nil)
}

// TestRenameIsAChange: who watches a folder for writes is told of a file that is moved into it from another one.
func TestRenameIsAChange(t *testing.T) {
	const modified = 3 // FILE_ACTION_MODIFIED
	files, from, to := here(t).Files, t.TempDir(), t.TempDir()
	writeFile(t, files, from+`\new`, "content", plan.AccessPublic)
	name, err := windows.UTF16PtrFromString(to)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := windows.CreateFile(name, windows.FILE_LIST_DIRECTORY, shareAll, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		t.Fatal(err)
	}
	changed := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		close(watching)
		for {
			var buffer [4096]byte
			const filter = windows.FILE_NOTIFY_CHANGE_FILE_NAME | windows.FILE_NOTIFY_CHANGE_LAST_WRITE
			if windows.ReadDirectoryChanges(folder, &buffer[0], uint32(len(buffer)), false, filter, nil, nil, 0) != nil {
				return
			}
			for at := uint32(0); ; {
				entry := (*windows.FileNotifyInformation)(unsafe.Pointer(&buffer[at]))
				if entry.Action == modified {
					close(changed)
					return
				}
				if at += entry.NextEntryOffset; entry.NextEntryOffset == 0 {
					break
				}
			}
		}
	}()
	<-watching
	// The first request to be told may come later than the first move, so it is moved again and again.
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if err := errors.Join(files.Rename(from+`\new`, to+`\new`), files.Rename(to+`\new`, from+`\new`)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-changed:
			_ = windows.CloseHandle(folder)
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Error("nobody was told of a write")
}
