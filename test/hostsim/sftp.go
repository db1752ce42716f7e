package hostsim

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

// homeDir is where relative SFTP paths begin.
const homeDir = "/C:/Users/Administrator"

// sftp runs the SFTP server as a process of the machine, so that its handles close when the connection ends.
func (c *serverConn) sftp(ch ssh.Channel) {
	c.h.count(func(s *Stats) { s.Subsystems++ })
	server := func(_ context.Context, p *fake.Process) int {
		d := drive{p: p}
		s := sftp.NewRequestServer(&packets{Channel: ch, request: c.h.sftpRequest}, sftp.Handlers{FileGet: d, FilePut: d, FileCmd: d, FileList: d}, sftp.WithStartDirectory(homeDir))
		if err := s.Serve(); err != nil && !errors.Is(err, io.EOF) {
			return 1
		}
		return 0
	}
	p, err := c.h.machine.StartBuiltin("sftp-server.exe", nil, fake.Streams{}, server)
	if err != nil {
		_ = ch.Close()
		return
	}
	c.keep(p)
	defer c.drop(p)
	<-p.Done()
	_ = ch.Close()
}

// drive maps SFTP requests onto the process's files. Paths are "/C:/k/x"; files made have inherited access.
type drive struct{ p *fake.Process }

// windowsPath maps "/C:/k/x" to `C:\k\x`, as sftp-server.exe does. A path without a drive is no such file.
func windowsPath(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok || len(rest) < 2 || rest[1] != ':' || len(rest) > 2 && rest[2] != '/' {
		return "", sftp.ErrSSHFxNoSuchFile
	}
	if len(rest) == 2 {
		return rest + `\`, nil
	}
	return strings.ReplaceAll(rest, "/", `\`), nil
}

// status maps an error to what sftp-server.exe answers: everything without a status of its own is a failure.
func status(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return sftp.ErrSSHFxNoSuchFile
	case errors.Is(err, fs.ErrPermission):
		return sftp.ErrSSHFxPermissionDenied
	default:
		return sftp.ErrSSHFxFailure
	}
}

func (d drive) open(path string, mode fake.Mode) (*fake.Handle, error) {
	path, err := windowsPath(path)
	if err != nil {
		return nil, err
	}
	h, err := d.p.Open(path, mode)
	return h, status(err)
}

// Fileread implements sftp.FileReader.
func (d drive) Fileread(r *sftp.Request) (io.ReaderAt, error) {
	h, err := d.open(r.Filepath, fake.ModeRead)
	if err != nil {
		return nil, err
	}
	return readFile{h}, nil
}

// Filewrite implements sftp.FileWriter.
func (d drive) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	flags := r.Pflags()
	mode := fake.ModeUpdate
	switch {
	case flags.Excl:
		mode = fake.ModeNew
	case flags.Trunc:
		mode = fake.ModeCreate
	case flags.Creat:
		path, err := windowsPath(r.Filepath)
		if err != nil {
			return nil, err
		}
		if _, err := d.p.System().Files.Stat(path); errors.Is(err, fs.ErrNotExist) {
			mode = fake.ModeNew
		}
	}
	h, err := d.open(r.Filepath, mode)
	if err != nil {
		return nil, err
	}
	return writeFile{h}, nil
}

type readFile struct{ h *fake.Handle }

func (f readFile) ReadAt(p []byte, off int64) (int, error) { return f.h.ReadAt(p, off) }
func (f readFile) Close() error                            { return status(f.h.Close()) }

type writeFile struct{ h *fake.Handle }

func (f writeFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.h.WriteAt(p, off)
	return n, status(err)
}

func (f writeFile) Close() error { return status(f.h.Close()) }

// Filecmd implements sftp.FileCmder.
func (d drive) Filecmd(r *sftp.Request) error {
	path, err := windowsPath(r.Filepath)
	if err != nil {
		return err
	}
	files := d.p.System().Files
	switch r.Method {
	case "Setstat":
		if r.AttrFlags().Size {
			return status(d.p.Truncate(path, int64(r.Attributes().Size)))
		}
		return nil // modes, owners and times have no meaning here
	case "Rename":
		to, err := windowsPath(r.Target)
		if err != nil {
			return err
		}
		if _, err := files.Stat(to); err == nil {
			return sftp.ErrSSHFxFailure // SSH_FXP_RENAME does not replace
		}
		return status(files.Rename(path, to))
	case "Mkdir":
		return status(files.Mkdir(path, ""))
	case "Remove", "Rmdir":
		return status(d.remove(files, path, r.Method == "Rmdir"))
	default:
		return sftp.ErrSSHFxOpUnsupported
	}
}

func (d drive) remove(files system.Files, path string, dir bool) error {
	info, err := files.Stat(path)
	if err != nil {
		return err
	}
	if info.Dir != dir {
		return fs.ErrInvalid
	}
	return files.Remove(path)
}

// PosixRename implements sftp.PosixRenameFileCmder (posix-rename@openssh.com), which replaces the target.
func (d drive) PosixRename(r *sftp.Request) error {
	from, err := windowsPath(r.Filepath)
	if err != nil {
		return err
	}
	to, err := windowsPath(r.Target)
	if err != nil {
		return err
	}
	return status(d.p.System().Files.Rename(from, to))
}

// Filelist implements sftp.FileLister.
func (d drive) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	if r.Filepath == "/" && r.Method == "List" {
		return listing{fileInfo{system.Info{Path: "C:", Dir: true}}}, nil
	}
	path, err := windowsPath(r.Filepath)
	if err != nil {
		return nil, err
	}
	files := d.p.System().Files
	switch r.Method {
	case "List":
		infos, err := files.ReadDir(path)
		if err != nil {
			return nil, status(err)
		}
		var l listing
		for _, i := range infos {
			l = append(l, fileInfo{i})
		}
		return l, nil
	case "Stat":
		i, err := files.Stat(path)
		if err != nil {
			return nil, status(err)
		}
		return listing{fileInfo{i}}, nil
	default:
		return nil, sftp.ErrSSHFxOpUnsupported
	}
}

type listing []os.FileInfo

// ListAt implements sftp.ListerAt.
func (l listing) ListAt(out []os.FileInfo, offset int64) (int, error) {
	if offset >= int64(len(l)) {
		return 0, io.EOF
	}
	n := copy(out, l[offset:])
	if n < len(out) {
		return n, io.EOF
	}
	return n, nil
}

type fileInfo struct{ i system.Info }

func (f fileInfo) Name() string       { return f.i.Path[strings.LastIndexByte(f.i.Path, '\\')+1:] }
func (f fileInfo) Size() int64        { return f.i.Size }
func (f fileInfo) ModTime() time.Time { return time.Unix(0, 0) }
func (f fileInfo) IsDir() bool        { return f.i.Dir }
func (f fileInfo) Sys() any           { return nil }

func (f fileInfo) Mode() fs.FileMode {
	if f.i.Dir {
		return fs.ModeDir | 0o777
	}
	return 0o666
}
