package disk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Errors that callers branch on.
var (
	// ErrTooLarge: a file or stream is larger than its limit.
	ErrTooLarge = errors.New("larger than its limit")
	// ErrDigest: content is not what its SHA-256 says.
	ErrDigest = errors.New("content does not have the expected SHA-256")
)

// bufferSize of copies, in bytes.
const bufferSize = 256 << 10

// Read returns the content of path, at most limit bytes; ErrTooLarge when there are more.
func Read(files system.Files, path string, limit int64) ([]byte, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("reading %s: %w (%d bytes)", path, ErrTooLarge, limit)
	}
	return b, nil
}

// Digest returns the SHA-256 of a file in lower-case hexadecimal.
func Digest(ctx context.Context, files system.Files, path string) (string, error) {
	f, err := files.Open(path)
	if err != nil {
		return "", fmt.Errorf("opening %s: %w", path, err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(h, &reader{ctx: ctx, r: f}, make([]byte, bufferSize)); err != nil {
		return "", fmt.Errorf("hashing %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Sum returns the SHA-256 of b in lower-case hexadecimal.
func Sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// Write makes path with what r holds, flushes it to the disk and checks it against digest unless that is "". On any
// failure the file is taken away again. The folder must exist.
func Write(ctx context.Context, files system.Files, path string, access plan.Access, r io.Reader, digest string) error {
	if err := write(ctx, files, path, access, r, digest); err != nil {
		// The half-written file is of no use to anybody; that it may be gone or stuck changes nothing about err.
		_ = files.Remove(path)
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// Resume goes on with a file of exactly from bytes, 0 for a new one, as Write does, and digest is that of the whole. On a failure what was written
// stays when keep says so of the error; what has another digest, or another length at the beginning, never stays.
func Resume(ctx context.Context, files system.Files, path string, access plan.Access, from int64, r io.Reader, digest string, keep func(error) bool) error {
	err := resume(ctx, files, path, access, from, r, digest)
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrDigest) || !keep(err) {
		_ = files.Remove(path)
	}
	return fmt.Errorf("writing %s: %w", path, err)
}

func resume(ctx context.Context, files system.Files, path string, access plan.Access, from int64, r io.Reader, digest string) error {
	if from == 0 {
		return write(ctx, files, path, access, r, digest)
	}
	h := sha256.New()
	old, err := files.Open(path)
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(h, &reader{ctx: ctx, r: old}, make([]byte, bufferSize))
	if err := errors.Join(err, old.Close()); err != nil {
		return err
	}
	if n != from {
		return fmt.Errorf("%d bytes are there instead of %d: %w", n, from, ErrDigest)
	}
	f, err := files.Append(path, access)
	if err != nil {
		return err
	}
	return fill(ctx, f, h, r, digest)
}

func write(ctx context.Context, files system.Files, path string, access plan.Access, r io.Reader, digest string) error {
	f, err := files.Create(path, access)
	if err != nil {
		return err
	}
	return fill(ctx, f, sha256.New(), r, digest)
}

// fill copies r to a file, on top of what h has seen.
func fill(ctx context.Context, f system.NewFile, h hash.Hash, r io.Reader, digest string) error {
	_, err := io.CopyBuffer(io.MultiWriter(f, h), &reader{ctx: ctx, r: r}, make([]byte, bufferSize))
	if err == nil && digest != "" && hex.EncodeToString(h.Sum(nil)) != digest {
		err = ErrDigest
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// reader ends with the context's error once it is done, so that a long copy can be stopped.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// Exists reports whether path is there.
func Exists(files system.Files, path string) (bool, error) {
	_, err := files.Stat(path)
	if errors.Is(err, system.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", path, err)
	}
	return true, nil
}

// Clear deletes everything inside a folder and leaves the folder. A folder that is absent is clear.
func Clear(ctx context.Context, files system.Files, folder string) error {
	list, err := files.ReadDir(folder)
	if errors.Is(err, system.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing %s: %w", folder, err)
	}
	var errs []error
	for _, e := range list {
		errs = append(errs, RemoveAll(ctx, files, e.Path))
	}
	return errors.Join(errs...)
}

// RemoveAll deletes path with all that is in it. What is absent is no error. Each entry is first removed as it is, and a
// folder is opened only when that fails: the removal of a junction or a symbolic link takes the link (RemoveDirectoryW
// does not follow it), so that nothing outside is reached.
func RemoveAll(ctx context.Context, files system.Files, path string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := files.Remove(path)
	if err == nil || errors.Is(err, system.ErrNotExist) {
		return nil
	}
	info, serr := files.Stat(path)
	if serr != nil || !info.Dir {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	if err := Clear(ctx, files, path); err != nil {
		return err
	}
	if err := files.Remove(path); err != nil && !errors.Is(err, system.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	return nil
}
