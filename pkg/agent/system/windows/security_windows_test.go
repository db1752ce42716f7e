package windows

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// These tests need access control lists, reparse points and deletion under readers as NTFS has them; Wine has none of it.

// TestW39ClassesOnDisk: what is made has the class from the start, whatever the folder above would hand down, and can be reset.
func TestW39ClassesOnDisk(t *testing.T) {
	f, dir := here(t).Files, t.TempDir()
	for _, access := range []plan.Access{plan.AccessPublic, plan.AccessSecret} {
		file, folder := filepath.Join(dir, "file-"+string(access)), filepath.Join(dir, "folder-"+string(access))
		writeFile(t, f, file, "x", access)
		want(t, "mkdir", f.Mkdir(folder, access), nil)
		for _, path := range []string{file, folder} {
			if got := classAt(t, f, path); got != access {
				t.Errorf("%s has class %q, want %q", path, got, access)
			}
			for _, other := range []plan.Access{plan.AccessSecret, plan.AccessPublic} {
				want(t, "set access", f.SetAccess(path, other), nil)
				if got := classAt(t, f, path); got != other {
					t.Errorf("%s has class %q after the reset, want %q", path, got, other)
				}
			}
		}
	}
	inherited := filepath.Join(dir, "inherited")
	if err := os.WriteFile(inherited, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := classAt(t, f, inherited); got != "" {
		t.Errorf("a file with inherited rights has class %q", got)
	}
}

func classAt(t *testing.T, f system.Files, path string) plan.Access {
	t.Helper()
	info, err := f.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Access
}

// An account that may make folders must not be able to send a write elsewhere.
func TestReparsePointsAreNotFollowed(t *testing.T) {
	f, dir := here(t).Files, t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	want(t, "mkdir", f.Mkdir(target, plan.AccessPublic), nil)
	writeFile(t, f, filepath.Join(target, "file"), "kept", plan.AccessPublic)
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(link, "file")
	_, err := f.Open(inside)
	want(t, "open", err, system.ErrDenied)
	_, err = f.Create(inside, plan.AccessPublic)
	want(t, "create", err, system.ErrDenied)
	_, err = f.Stat(inside)
	want(t, "stat", err, system.ErrDenied)
	_, err = f.ReadDir(link)
	want(t, "list", err, system.ErrDenied)
	want(t, "mkdir", f.Mkdir(filepath.Join(link, "new"), plan.AccessPublic), system.ErrDenied)
	want(t, "rename into", f.Rename(filepath.Join(target, "file"), filepath.Join(link, "other")), system.ErrDenied)
	want(t, "remove inside", f.Remove(inside), system.ErrDenied)
	info, err := f.Stat(link)
	if err != nil || info.Dir || info.Access != "" {
		t.Errorf("the link itself is %+v, %v", info, err)
	}
	want(t, "remove the link", f.Remove(link), nil)
	if got := readFile(t, f, filepath.Join(target, "file")); got != "kept" {
		t.Errorf("the target holds %q", got)
	}
}

// A hard link that was planted under a name leads nowhere: the name is taken from it, and the other file stays as it was.
func TestCreateDoesNotWriteThroughHardLinks(t *testing.T) {
	f, dir := here(t).Files, t.TempDir()
	victim, planted := filepath.Join(dir, "victim"), filepath.Join(dir, "planted")
	writeFile(t, f, victim, "kept", plan.AccessPublic)
	if err := os.Link(victim, planted); err != nil {
		t.Fatal(err)
	}
	writeFile(t, f, planted, "secret", plan.AccessSecret)
	if got := readFile(t, f, victim); got != "kept" {
		t.Errorf("the other file holds %q", got)
	}
	if got := classAt(t, f, planted); got != plan.AccessSecret {
		t.Errorf("class %q", got)
	}
}

// Statuses that Windows folds into "access denied" are told apart.
func TestStatusNumbers(t *testing.T) {
	for _, tt := range []struct {
		status windows.NTStatus
		want   error
	}{
		{windows.STATUS_DELETE_PENDING, system.ErrBusy},
		{windows.STATUS_CANNOT_DELETE, system.ErrBusy},
		{windows.STATUS_SHARING_VIOLATION, system.ErrBusy},
		{windows.STATUS_ACCESS_DENIED, system.ErrDenied},
		{windows.STATUS_REPARSE_POINT_ENCOUNTERED, system.ErrDenied},
		{windows.STATUS_DISK_FULL, system.ErrDiskFull},
		{windows.STATUS_OBJECT_NAME_NOT_FOUND, system.ErrNotExist},
		{windows.STATUS_OBJECT_PATH_NOT_FOUND, system.ErrNotExist},
		{windows.STATUS_OBJECT_NAME_COLLISION, system.ErrExist},
	} {
		if err := failed("try", "it", tt.status); !errors.Is(err, tt.want) {
			t.Errorf("0x%x: %v, want %v", uint32(tt.status), err, tt.want)
		}
	}
}

// Readers share deletion, so that a file that is read can be replaced under them.
func TestReplaceUnderReader(t *testing.T) {
	f, dir := here(t).Files, t.TempDir()
	path, next := filepath.Join(dir, "file"), filepath.Join(dir, "next")
	writeFile(t, f, path, "old", plan.AccessPublic)
	writeFile(t, f, next, "new", plan.AccessPublic)
	r, err := f.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "replace", f.Rename(next, path), nil)
	old, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || string(old) != "old" {
		t.Errorf("the reader saw %q, %v", old, err)
	}
	if got := readFile(t, f, path); got != "new" {
		t.Errorf("content %q", got)
	}
}

// Nobody sees a file before it is closed.
func TestUnclosedFileCannotBeOpened(t *testing.T) {
	f, path := here(t).Files, filepath.Join(t.TempDir(), "torn")
	w, err := f.Create(path, plan.AccessSecret)
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Open(path)
	want(t, "open", err, system.ErrBusy)
	if err == nil {
		_ = r.Close()
	}
	want(t, "close", w.Close(), nil)
	_, err = f.Stat(path)
	want(t, "stat", err, nil)
}
