package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync/atomic"

	"github.com/pkg/sftp"
)

const (
	// writers is how many blocks of 32 KiB are under way at once: together the 2 MiB of a channel's window.
	writers = 64
	// partSuffix marks a file that is not whole yet. The name is fixed, so that a cut upload is overwritten by the next.
	partSuffix = ".part"
	// maxReplies bounds what a machine may answer on one channel. OpenSSH sends 28 bytes for each block of 32 KiB that is written, so
	// that 4 GiB fit; without it, a machine that lists a folder without end would fill our memory.
	maxReplies  = 4 << 20
	posixRename = "posix-rename@openssh.com"
)

// ErrShort: the file on the machine has not the size that was sent.
var ErrShort = errors.New("file has another size than was sent")

// ErrFlood: the machine answers more than any file transfer needs.
var ErrFlood = errors.New("the machine sends too many SFTP replies")

// Put implements transport.Conn. The file keeps its temporary name until its size was seen to be right; whether the bytes are is
// guarded by SSH on the way, and by the agent's digest afterwards.
func (c *conn) Put(ctx context.Context, name string, size int64, open func() (io.ReadCloser, error)) (bool, error) {
	dst, err := sftpPath(name)
	if err != nil {
		return false, err
	}
	sent := false
	err = c.onSFTP(ctx, func(s *sftp.Client) error {
		if info, err := s.Stat(dst); err == nil && info.Mode().IsRegular() && info.Size() == size {
			return nil
		}
		sent = true
		return put(s, dst, size, open)
	})
	if err != nil {
		return false, fmt.Errorf("putting %s: %w", name, err)
	}
	return sent, nil
}

// RemoveAll implements transport.Conn.
func (c *conn) RemoveAll(ctx context.Context, name string) error {
	dst, err := sftpPath(name)
	if err != nil {
		return err
	}
	err = c.onSFTP(ctx, func(s *sftp.Client) error { return s.RemoveAll(dst) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", name, err)
	}
	return nil
}

// onSFTP runs use over a channel of its own.
func (c *conn) onSFTP(ctx context.Context, use func(*sftp.Client) error) error {
	return c.onChannel(ctx, func(ch channel) error {
		if err := c.request(ch, "subsystem", "sftp"); err != nil {
			return err
		}
		c.wg.Go(func() { exitStatus(ch.requests) })
		c.wg.Go(func() { _, _ = io.Copy(io.Discard, ch.Stderr()) })
		in := &replies{r: ch, left: maxReplies}
		s, err := sftp.NewClientPipe(in, ch, sftp.UseConcurrentWrites(true), sftp.MaxConcurrentRequestsPerFile(writers))
		if err != nil {
			return c.lost(err)
		}
		err = use(s)
		switch {
		case in.flood.Load():
			err = ErrFlood
		case errors.Is(err, sftp.ErrSSHFxConnectionLost) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			err = c.lost(err)
		}
		_ = ch.Close()
		_ = s.Close()
		return err
	})
}

// replies reads at most left bytes.
type replies struct {
	r     io.Reader
	left  int64
	flood atomic.Bool
}

// Read implements io.Reader.
func (r *replies) Read(p []byte) (int, error) {
	if r.left == 0 {
		r.flood.Store(true)
		return 0, ErrFlood
	}
	n, err := r.r.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

func put(s *sftp.Client, dst string, size int64, open func() (io.ReadCloser, error)) error {
	if err := s.MkdirAll(path.Dir(dst)); err != nil {
		return fmt.Errorf("making the folder: %w", err)
	}
	r, err := open()
	if err != nil {
		return fmt.Errorf("opening what to send: %w", err)
	}
	defer r.Close()
	part := dst + partSuffix
	if err := upload(s, part, size, r); err != nil {
		// What is left is of no use, but the connection may be gone; the next Put overwrites it.
		_ = s.Remove(part)
		return err
	}
	if err := replace(s, part, dst); err != nil {
		_ = s.Remove(part)
		return fmt.Errorf("renaming: %w", err)
	}
	return nil
}

func upload(s *sftp.Client, part string, size int64, r io.Reader) error {
	f, err := s.Create(part)
	if err != nil {
		return fmt.Errorf("creating: %w", err)
	}
	_, err = f.ReadFromWithConcurrency(io.LimitReader(r, size+1), writers)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	info, err := s.Stat(part)
	if err != nil {
		return fmt.Errorf("checking the size: %w", err)
	}
	if info.Size() != size {
		return fmt.Errorf("%w: %d instead of %d bytes", ErrShort, info.Size(), size)
	}
	return nil
}

// renames is what replace needs of an SFTP client.
type renames interface {
	HasExtension(name string) (string, bool)
	PosixRename(from, to string) error
	Rename(from, to string) error
	Remove(path string) error
}

// replace renames over what may be there. Without the extension a rename refuses to (SFTP version 3), so the old file goes first.
func replace(s renames, from, to string) error {
	if _, ok := s.HasExtension(posixRename); ok {
		return s.PosixRename(from, to)
	}
	if err := s.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.Rename(from, to)
}
