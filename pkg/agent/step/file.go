package step

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// content is what a file shall hold. An empty digest accepts whatever is there.
type content struct {
	digest string
	open   func() (io.ReadCloser, error)
}

// fileItem is a file of the plan, or a secret.
type fileItem struct {
	b      *bench
	kind   Kind
	path   string
	access plan.Access
	// once: what others change in it after it was written stays.
	once bool
	// want is asked at each look, since generated content depends on the machine.
	want func() (content, error)
}

func (b *bench) file(f plan.File) fileItem {
	return fileItem{b: b, kind: KindFile, path: f.Path, access: f.Access, once: f.Once, want: func() (content, error) { return b.contentOf(f) }}
}

// secret is a file whose content came beside the plan. Without content only its presence counts: the machine changes
// such a file at times, and the agent does not keep credentials.
func (b *bench) secret(s plan.Secret) fileItem {
	return fileItem{b: b, kind: KindSecret, path: s.Path, access: plan.AccessSecret, want: func() (content, error) {
		if data, ok := b.opts.Secrets[s.Name]; ok {
			return inline(data), nil
		}
		return content{open: func() (io.ReadCloser, error) { return nil, fmt.Errorf("secret %s: %w", s.Name, ErrSecretMissing) }}, nil
	}}
}

func inline(data []byte) content {
	return content{digest: disk.Sum(data), open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

func (b *bench) contentOf(f plan.File) (content, error) {
	if f.Blob != "" {
		return content{digest: f.Blob, open: func() (io.ReadCloser, error) { return b.openBlob(f.Blob) }}, nil
	}
	if !f.Generated {
		return inline(f.Inline), nil
	}
	text, err := b.resolve(string(f.Inline))
	if err != nil {
		return content{}, err
	}
	return inline([]byte(text)), nil
}

func (b *bench) openBlob(digest string) (io.ReadCloser, error) {
	r, err := b.sys.Files.Open(BlobPath(b.opts.Root, digest))
	if errors.Is(err, system.ErrNotExist) {
		return nil, fmt.Errorf("blob %s: %w", digest, ErrBlobMissing)
	}
	return r, err
}

func (i fileItem) id() ID { return newID(i.kind, disk.Key(i.path)) }

func (i fileItem) name() string { return i.path }

func (i fileItem) check(ctx context.Context) (string, error) {
	want, err := i.want()
	if err != nil {
		return "", err
	}
	info, err := i.b.sys.Files.Stat(i.path)
	switch {
	case errors.Is(err, system.ErrNotExist):
		return "missing", nil
	case err != nil:
		return "", err
	case info.Dir:
		return "is a folder", nil
	}
	if i.once {
		return i.checkOnce(want), nil
	}
	same, err := i.holds(ctx, want)
	switch {
	case err != nil:
		return "", err
	case !same:
		return "content differs", nil
	case info.Access != i.access:
		return "access control list is not " + string(i.access), nil
	}
	return "", nil
}

// checkOnce: a file that is written once has been, with this content.
func (i fileItem) checkOnce(want content) string {
	if o, ok := i.b.ledger.Find(i.id()); ok && o.Fingerprint == want.digest {
		return ""
	}
	return "was not written with this content"
}

// remember records what a file that is written once was written with.
func (i fileItem) remember(want content) error {
	o, ok := i.b.ledger.Find(i.id())
	if !i.once || !ok || o.Fingerprint == want.digest {
		return nil
	}
	o.Fingerprint = want.digest
	return i.b.ledger.Record(o)
}

// holds reports whether the file's bytes are the wanted ones, always by hashing all of them.
func (i fileItem) holds(ctx context.Context, want content) (bool, error) {
	if want.digest == "" {
		return true, nil
	}
	have, err := disk.Digest(ctx, i.b.sys.Files, i.path)
	if errors.Is(err, system.ErrNotExist) {
		return false, nil
	}
	return err == nil && have == want.digest, err
}

func (i fileItem) claim(ctx context.Context) (Owned, error) {
	o := Owned{ID: i.id(), Name: i.path}
	info, err := i.b.sys.Files.Stat(i.path)
	switch {
	case errors.Is(err, system.ErrNotExist):
		return o, nil
	case err != nil:
		return Owned{}, err
	case info.Dir:
		return Owned{}, fmt.Errorf("a folder is in its place: %w", ErrForeign)
	}
	o.Existed, o.Access = true, info.Access
	o.Digest, err = disk.Digest(ctx, i.b.sys.Files, i.path)
	return o, err
}

// apply writes the content to a file of its own first, so that nothing is stopped or replaced for bytes that turn out to be
// missing or wrong.
func (i fileItem) apply(ctx context.Context) (bool, error) {
	want, err := i.want()
	if err != nil {
		return false, err
	}
	there, err := disk.Exists(i.b.sys.Files, i.path)
	if err != nil {
		return false, err
	}
	if there {
		same, err := i.holds(ctx, want)
		if err != nil {
			return false, err
		}
		if same && i.once {
			return false, i.remember(want)
		}
		if same {
			return false, i.b.sys.Files.SetAccess(i.path, i.access)
		}
	}
	temp, err := i.stage(ctx, want)
	if err != nil {
		return false, err
	}
	if err := i.b.ensureFolder(ctx, disk.Parent(i.path)); err != nil {
		return false, err
	}
	if err := i.replace(ctx, temp); err != nil {
		return false, err
	}
	return false, i.remember(want)
}

// stage writes the wanted content into the temporary folder and returns its path.
func (i fileItem) stage(ctx context.Context, want content) (string, error) {
	r, err := want.open()
	if err != nil {
		return "", err
	}
	defer r.Close()
	temp := disk.Join(i.b.opts.Root, TempDir, fileName(i.path))
	err = disk.Write(ctx, i.b.sys.Files, temp, i.access, r, want.digest)
	if errors.Is(err, disk.ErrDigest) {
		// Only a blob can differ from its digest; without it the next run asks for it again.
		_ = i.b.sys.Files.Remove(BlobPath(i.b.opts.Root, want.digest))
		return "", fmt.Errorf("blob %s: %w", want.digest, ErrBlobCorrupt)
	}
	return temp, err
}

// replace moves temp onto the path: services that use the file are stopped, a file that was there before the agent is moved to
// the backup folder, and one that still runs is renamed away, which Windows allows for a running executable.
func (i fileItem) replace(ctx context.Context, temp string) error {
	if err := i.b.stopUsers(ctx, i.kind, i.path); err != nil {
		return err
	}
	if err := i.preserve(ctx); err != nil {
		return err
	}
	err := i.b.sys.Files.Rename(temp, i.path)
	if !errors.Is(err, system.ErrBusy) && !errors.Is(err, system.ErrDenied) {
		return err
	}
	old, nerr := i.b.oldName(i.path)
	if nerr != nil {
		return errors.Join(err, nerr)
	}
	if rerr := i.b.sys.Files.Rename(i.path, old); rerr != nil {
		return fmt.Errorf("renaming the file that is in use away: %w", rerr)
	}
	return i.b.sys.Files.Rename(temp, i.path)
}

// preserve moves a file that was there before the agent to the backup folder, once.
func (i fileItem) preserve(ctx context.Context) error {
	o, ok := i.b.ledger.Find(i.id())
	if !ok || !o.Existed {
		return nil
	}
	backup := i.b.backupName(o)
	saved, err := disk.Exists(i.b.sys.Files, backup)
	if err != nil || saved {
		return err
	}
	have, err := disk.Digest(ctx, i.b.sys.Files, i.path)
	if errors.Is(err, system.ErrNotExist) || err == nil && have != o.Digest {
		return nil
	}
	if err != nil {
		return err
	}
	return i.b.sys.Files.Rename(i.path, backup)
}

// undoFile deletes the file, or puts back the one that was there.
func (b *bench) undoFile(_ context.Context, o Owned) error {
	files := b.sys.Files
	if o.Existed {
		err := files.Rename(b.backupName(o), o.Name)
		if errors.Is(err, system.ErrNotExist) {
			// It was never replaced: the plan wanted what was there.
			return b.restoreAccess(o)
		}
		return err
	}
	err := files.Remove(o.Name)
	if errors.Is(err, system.ErrNotExist) {
		return nil
	}
	return err
}

func (b *bench) backupName(o Owned) string {
	return disk.Join(b.opts.Root, BackupDir, fileName(o.Name))
}

// oldName returns a free name for a running executable.
func (b *bench) oldName(path string) (string, error) {
	for n := range 1000 {
		name := disk.Join(b.opts.Root, OldDir, fmt.Sprintf("%s.%d", fileName(path), n))
		there, err := disk.Exists(b.sys.Files, name)
		if err != nil || !there {
			return name, err
		}
	}
	return "", fmt.Errorf("no free name for %s: %w", path, system.ErrBusy)
}

// fileName turns a path into a file name that no other path has.
func fileName(path string) string { return disk.Sum([]byte(disk.Key(path)))[:32] }
