package sshtest

import (
	"io"
	"os"
	"slices"
	"sync"

	"github.com/pkg/sftp"
)

// Files are the files that a Server's SFTP keeps, and a record of what was asked for. A drive "/C:" is there from the start.
type Files struct {
	mem sftp.Handlers

	mu sync.Mutex
	// paths are those of every request, in order.
	paths []string
	// fail, if set, may refuse a request of a method ("Put", "Stat", "Rename", …).
	fail func(method, path string) error
	// list, if set, answers instead of a folder.
	list sftp.ListerAt
}

func newFiles() *Files {
	f := &Files{mem: sftp.InMemHandler()}
	if err := f.mem.FileCmd.Filecmd(sftp.NewRequest("Mkdir", "/C:")); err != nil {
		panic(err)
	}
	return f
}

// Fail sets a function that may refuse requests of a method ("Put", "Stat", "Rename", …).
func (f *Files) Fail(fail func(method, path string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

// List sets what every folder holds, so that a machine can list without end.
func (f *Files) List(l sftp.ListerAt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = l
}

// Paths are the distinct paths that were asked for, sorted.
func (f *Files) Paths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.Clone(f.paths)
	slices.Sort(out)
	return slices.Compact(out)
}

// Read returns the content of a file; ok is false when there is none.
func (f *Files) Read(path string) (data []byte, ok bool) {
	req := sftp.NewRequest("Get", path)
	// SSH_FXF_READ.
	req.Flags = 0x01
	r, err := f.mem.FileGet.Fileread(req)
	if err != nil {
		return nil, false
	}
	data, err = io.ReadAll(io.NewSectionReader(r, 0, 1<<40))
	return data, err == nil
}

// Write makes a file in a folder that exists.
func (f *Files) Write(path string, data []byte) error {
	r := sftp.NewRequest("Put", path)
	// SSH_FXF_WRITE, CREAT and TRUNC.
	r.Flags = 0x02 | 0x08 | 0x10
	w, err := f.mem.FilePut.Filewrite(r)
	if err != nil {
		return err
	}
	_, err = w.WriteAt(data, 0)
	return err
}

// Exists is whether there is a file or folder.
func (f *Files) Exists(path string) bool {
	_, err := f.mem.FileList.Filelist(sftp.NewRequest("Stat", path))
	return err == nil
}

func (f *Files) handlers() sftp.Handlers {
	return sftp.Handlers{FileGet: f, FilePut: f, FileCmd: f, FileList: f}
}

// note records a request and lets Fail's function refuse it.
func (f *Files) note(r *sftp.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paths = append(f.paths, r.Filepath)
	if r.Target != "" {
		f.paths = append(f.paths, r.Target)
	}
	if f.fail != nil {
		return f.fail(r.Method, r.Filepath)
	}
	return nil
}

// Fileread implements sftp.FileReader.
func (f *Files) Fileread(r *sftp.Request) (io.ReaderAt, error) {
	if err := f.note(r); err != nil {
		return nil, err
	}
	return f.mem.FileGet.Fileread(r)
}

// Filewrite implements sftp.FileWriter.
func (f *Files) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	if err := f.note(r); err != nil {
		return nil, err
	}
	return f.mem.FilePut.Filewrite(r)
}

// Filecmd implements sftp.FileCmder.
func (f *Files) Filecmd(r *sftp.Request) error {
	if err := f.note(r); err != nil {
		return err
	}
	return f.mem.FileCmd.Filecmd(r)
}

// PosixRename implements sftp.PosixRenameFileCmder.
func (f *Files) PosixRename(r *sftp.Request) error {
	if err := f.note(r); err != nil {
		return err
	}
	p, ok := f.mem.FileCmd.(sftp.PosixRenameFileCmder)
	if !ok {
		return os.ErrInvalid
	}
	return p.PosixRename(r)
}

// Filelist implements sftp.FileLister.
func (f *Files) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	if err := f.note(r); err != nil {
		return nil, err
	}
	f.mu.Lock()
	list := f.list
	f.mu.Unlock()
	if list != nil && r.Method == "List" {
		return list, nil
	}
	return f.mem.FileList.Filelist(r)
}

// Lstat implements sftp.LstatFileLister.
func (f *Files) Lstat(r *sftp.Request) (sftp.ListerAt, error) {
	if err := f.note(r); err != nil {
		return nil, err
	}
	l, ok := f.mem.FileList.(sftp.LstatFileLister)
	if !ok {
		return nil, os.ErrInvalid
	}
	return l.Lstat(r)
}
