package windows

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/windows"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// maxEntries bounds what ReadDir returns.
const maxEntries = 100_000

// files is the file system.
type files struct{}

func (files) Stat(path string) (system.Info, error) {
	handle, err := open("stat", path, opening{
		access: windows.FILE_READ_ATTRIBUTES | windows.READ_CONTROL, share: shareAll, disposition: windows.FILE_OPEN, link: true,
	})
	if err != nil {
		return system.Info{}, err
	}
	defer func() { _ = windows.CloseHandle(handle) }()
	return info(handle, path)
}

// info describes an open file or folder. A reparse point is described as something that is not a folder and has no
// class.
func info(handle windows.Handle, path string) (system.Info, error) {
	var data windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(handle, &data); err != nil {
		return system.Info{}, failed("stat", path, err)
	}
	out := system.Info{Path: storedPath(handle, path), Size: int64(data.FileSizeHigh)<<32 | int64(data.FileSizeLow)}
	if data.FileAttributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 {
		return out, nil
	}
	if out.Dir = data.FileAttributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0; out.Dir {
		out.Size = 0
	}
	d, err := descriptorOf(handle)
	if err != nil {
		return out, failed("read access of", path, err)
	}
	out.Access = classOf(d, out.Dir)
	return out, nil
}

// storedPath returns the name with the case in which it is stored, or path where Windows does not tell.
func storedPath(handle windows.Handle, path string) string {
	buf := make([]uint16, maxPath+8)
	n, err := windows.GetFinalPathNameByHandle(handle, &buf[0], uint32(len(buf)), 0)
	if err != nil || int(n) >= len(buf) {
		return path
	}
	stored, ok := strings.CutPrefix(windows.UTF16ToString(buf[:n]), `\\?\`)
	if !ok || !strings.EqualFold(stored, path) {
		return path
	}
	return stored
}

func (files) Open(path string) (io.ReadCloser, error) {
	handle, err := open("open", path, opening{
		access: windows.FILE_GENERIC_READ, share: shareAll, disposition: windows.FILE_OPEN, options: windows.FILE_NON_DIRECTORY_FILE,
	})
	if err != nil {
		return nil, err
	}
	return &file{f: os.NewFile(uintptr(handle), path), path: path}, nil
}

// Create makes a new file under the name, with the class from its first moment, rather than truncating an old one: who held the
// old one open would read the new content, and a hard link planted there would lead to another file. Until Close the file is
// marked for deletion, so that it goes with a process that dies.
func (f files) Create(path string, access plan.Access) (system.NewFile, error) {
	security, err := securityOf(access, false)
	if err != nil {
		return nil, err
	}
	handle, err := f.createNew(path, security)
	if errors.Is(err, system.ErrExist) {
		if err := remove("create", path, windows.FILE_NON_DIRECTORY_FILE); absent(err) != nil {
			return nil, err
		}
		handle, err = f.createNew(path, security)
	}
	if errors.Is(err, system.ErrExist) {
		return nil, refuse("create", path, uint32(windows.ERROR_SHARING_VIOLATION))
	}
	if err != nil {
		return nil, err
	}
	if err := markDeleted(handle, true); err != nil {
		_ = windows.CloseHandle(handle)
		return nil, failed("create", path, err)
	}
	return &newFile{file: file{f: os.NewFile(uintptr(handle), path), path: path}, handle: handle}, nil
}

func (files) createNew(path string, security *windows.SECURITY_DESCRIPTOR) (windows.Handle, error) {
	return open("create", path, opening{
		access: windows.FILE_GENERIC_WRITE | windows.DELETE, share: windows.FILE_SHARE_READ | windows.FILE_SHARE_DELETE,
		disposition: windows.FILE_CREATE, options: windows.FILE_NON_DIRECTORY_FILE, security: security,
	})
}

// Append opens for appending only: every write goes to the end, also beside another writer. The file is there at once,
// since a journal must survive the process that writes it.
func (files) Append(path string, access plan.Access) (system.NewFile, error) {
	security, err := securityOf(access, false)
	if err != nil {
		return nil, err
	}
	handle, err := open("append", path, opening{
		access: windows.FILE_APPEND_DATA | windows.FILE_READ_ATTRIBUTES, share: shareAll,
		disposition: windows.FILE_OPEN_IF, options: windows.FILE_NON_DIRECTORY_FILE, security: security,
	})
	if err != nil {
		return nil, err
	}
	return &file{f: os.NewFile(uintptr(handle), path), path: path}, nil
}

// Rename moves by handle, into the folder of the target that has been opened without following reparse points. Who watches that folder is told of a
// change as well as of a new name: containerd takes no notice of a network configuration that only got a new name, since it expects it to be
// written yet (cni_conf_syncer.go: Create is ignored).
func (files) Rename(from, to string) error {
	source, err := open("rename", from, opening{
		access: windows.DELETE | windows.FILE_READ_ATTRIBUTES | windows.FILE_WRITE_ATTRIBUTES, share: shareAll, disposition: windows.FILE_OPEN,
		options: windows.FILE_WRITE_THROUGH, link: true,
	})
	if err != nil {
		return err
	}
	defer func() { _ = windows.CloseHandle(source) }()
	folder, name, err := openParent("rename", to)
	if err != nil {
		return err
	}
	defer func() { _ = windows.CloseHandle(folder) }()
	if err := rename(source, folder, name); err != nil {
		return failed("rename", to, deniedOrBusy(err, to))
	}
	// The file is in its place; that nobody is told is no reason to say otherwise.
	_ = touch(source)
	return nil
}

// touch moves the time of the last write by the least that there is, of which those are told who watch the folder for writes.
func touch(handle windows.Handle) error {
	var data windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(handle, &data); err != nil {
		return err
	}
	at := data.LastWriteTime
	if at.LowDateTime++; at.LowDateTime == 0 {
		at.HighDateTime++
	}
	return windows.SetFileTime(handle, nil, nil, &at)
}

// openParent opens the folder of a path and returns the path's last component.
func openParent(op, path string) (windows.Handle, string, error) {
	drive, rest, err := splitPath(op, path)
	if err != nil {
		return 0, "", err
	}
	parent, name := splitLast(rest)
	if name == "" {
		return 0, "", invalid(op, path, codeInvalidName)
	}
	folder, err := open(op, drive+`\`+parent, opening{
		access: windows.FILE_TRAVERSE | windows.FILE_READ_ATTRIBUTES, share: shareAll,
		disposition: windows.FILE_OPEN, options: windows.FILE_DIRECTORY_FILE,
	})
	return folder, name, err
}

func (files) Remove(path string) error { return remove("remove", path, 0) }

func remove(op, path string, options uint32) error {
	handle, err := open(op, path, opening{
		access: windows.DELETE | windows.FILE_READ_ATTRIBUTES, share: shareAll, disposition: windows.FILE_OPEN, options: options, link: true,
	})
	if err != nil {
		return err
	}
	defer func() { _ = windows.CloseHandle(handle) }()
	return failed(op, path, deniedOrBusy(deleteHandle(handle), path))
}

// deniedOrBusy tells a running program's file from one that may not be touched. Windows refuses to delete or replace both with
// 5 ERROR_ACCESS_DENIED; only the file of a running program can for that reason not be opened for writing with 32
// ERROR_SHARING_VIOLATION (the memory manager refuses the write).
func deniedOrBusy(err error, path string) error {
	if err == nil || !is(err, codeAccessDenied) {
		return err
	}
	handle, probe := open("probe", path, opening{
		access: windows.FILE_WRITE_DATA, share: shareAll, disposition: windows.FILE_OPEN, options: windows.FILE_NON_DIRECTORY_FILE,
	})
	if probe == nil {
		_ = windows.CloseHandle(handle)
		return err
	}
	if errors.Is(probe, system.ErrBusy) {
		return probe
	}
	return err
}

func (files) Mkdir(path string, access plan.Access) error {
	security, err := securityOf(access, true)
	if err != nil {
		return err
	}
	handle, err := open("make folder", path, opening{
		access: windows.FILE_READ_ATTRIBUTES, share: shareAll, disposition: windows.FILE_CREATE,
		options: windows.FILE_DIRECTORY_FILE, security: security,
	})
	if err != nil {
		return err
	}
	return failed("make folder", path, windows.CloseHandle(handle))
}

// ReadDir describes each entry by opening it. An entry that goes meanwhile is left out.
func (f files) ReadDir(path string) ([]system.Info, error) {
	handle, err := open("list", path, opening{
		access: windows.FILE_LIST_DIRECTORY | windows.FILE_READ_ATTRIBUTES, share: shareAll,
		disposition: windows.FILE_OPEN, options: windows.FILE_DIRECTORY_FILE,
	})
	if err != nil {
		return nil, err
	}
	folder := os.NewFile(uintptr(handle), path)
	defer func() { _ = folder.Close() }()
	names, err := folder.Readdirnames(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, failed("list", path, err)
	}
	if len(names) > maxEntries {
		return nil, fmt.Errorf("list %s: more than %d entries", path, maxEntries)
	}
	slices.Sort(names)
	var out []system.Info
	for _, name := range names {
		entry, err := f.Stat(strings.TrimSuffix(path, `\`) + `\` + name)
		if errors.Is(err, system.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, entry)
	}
	return out, nil
}

// Lock keeps a file open that nobody else may open; Windows closes and deletes it with the process.
func (files) Lock(path string) (release func() error, err error) {
	security, err := securityOf(plan.AccessSecret, false)
	if err != nil {
		return nil, err
	}
	handle, err := open("lock", path, opening{
		access: windows.FILE_GENERIC_WRITE | windows.DELETE, disposition: windows.FILE_OPEN_IF,
		options: windows.FILE_NON_DIRECTORY_FILE | windows.FILE_DELETE_ON_CLOSE, security: security,
	})
	if err != nil {
		return nil, err
	}
	return func() error { return failed("unlock", path, windows.CloseHandle(handle)) }, nil
}
