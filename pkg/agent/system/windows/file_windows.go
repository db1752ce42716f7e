package windows

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/windows"
)

// file is an open file whose errors are told by number.
type file struct {
	f    *os.File
	path string
}

func (f *file) Read(p []byte) (int, error) {
	n, err := f.f.Read(p)
	if errors.Is(err, io.EOF) {
		return n, io.EOF
	}
	return n, failed("read", f.path, err)
}

func (f *file) Write(p []byte) (int, error) {
	n, err := f.f.Write(p)
	return n, failed("write", f.path, err)
}

func (f *file) Sync() error { return failed("flush", f.path, f.f.Sync()) }

func (f *file) Close() error { return failed("close", f.path, f.f.Close()) }

// newFile is a file that goes unless it is closed.
type newFile struct {
	file
	handle windows.Handle
}

func (f *newFile) Close() error {
	keep := failed("close", f.path, markDeleted(f.handle, false))
	return errors.Join(keep, f.file.Close())
}
