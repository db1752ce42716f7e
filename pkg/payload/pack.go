package payload

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// packing begins the names of files that are not whole yet.
const packing = ".packing-"

// packWindow is the window of zstd level 3. It bounds what the receiver must keep in memory.
const packWindow = 2 << 20

var blobFile = regexp.MustCompile(`^[0-9a-f]{64}\.zst$`)

// Source is a file to pack.
type Source struct {
	// Name, Version, Licence and Origin become Name, Version, Licence and Source of the Blob.
	Name, Version, Licence, Origin string
	// Open returns the file's bytes; it is called once.
	Open func() (io.ReadCloser, error)
}

// Pack writes a store into dir, which is made when it is missing, and returns it opened. The same sources give the same bytes,
// whatever their order. The manifest is written last and atomically; blobs of an older store that are no longer named are
// removed, other files are left alone.
func Pack(dir string, sources []Source) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("packing into %s: %w", dir, err)
	}
	m := Manifest{APIVersion: ManifestVersion}
	for _, src := range sources {
		b, err := packBlob(dir, src)
		if err != nil {
			return nil, fmt.Errorf("packing %q: %w", clip(src.Name), err)
		}
		m.Blobs = append(m.Blobs, b)
	}
	if err := writeManifest(dir, m); err != nil {
		return nil, err
	}
	if err := sweep(dir, m); err != nil {
		return nil, err
	}
	return OpenStore(dir)
}

// packBlob compresses one source under a temporary name, then renames it to its digest.
func packBlob(dir string, src Source) (b Blob, err error) {
	in, err := src.Open()
	if err != nil {
		return Blob{}, err
	}
	defer in.Close()
	tmp, err := os.CreateTemp(dir, packing+"*")
	if err != nil {
		return Blob{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	digest, size, err := compress(tmp, in)
	if err = errors.Join(err, tmp.Chmod(0o644)); err != nil {
		return Blob{}, errors.Join(err, tmp.Close())
	}
	info, err := tmp.Stat()
	if err = errors.Join(err, tmp.Close()); err != nil {
		return Blob{}, err
	}
	b = Blob{
		Name: src.Name, Version: src.Version, SHA256: digest, Size: size, CompressedSize: info.Size(),
		Licence: src.Licence, Source: src.Origin,
	}
	if err := b.validate(); err != nil {
		return Blob{}, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return b, os.Rename(tmp.Name(), filepath.Join(dir, digest+blobSuffix))
}

// compress copies in to out as one zstd stream. One encoder thread and a fixed window make the result repeatable.
func compress(out io.Writer, in io.Reader) (digest string, size int64, err error) {
	enc, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(3)), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(packWindow), zstd.WithEncoderCRC(false))
	if err != nil {
		return "", 0, fmt.Errorf("preparing to compress: %w", err)
	}
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(enc, sum), io.LimitReader(in, MaxBlobSize+1))
	if err = errors.Join(err, enc.Close()); err != nil {
		return "", 0, fmt.Errorf("compressing: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), size, nil
}

func writeManifest(dir string, m Manifest) error {
	if err := m.Validate(); err != nil {
		return err
	}
	data, err := m.encode()
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, packing+ManifestFile)
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, ManifestFile)); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	return nil
}

// sweep removes blobs that m does not name, and what an earlier Pack left when it was killed.
func sweep(dir string, m Manifest) error {
	keep := map[string]bool{}
	for _, b := range m.Blobs {
		keep[b.SHA256+blobSuffix] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("sweeping the payload: %w", err)
	}
	for _, e := range entries {
		left := blobFile.MatchString(e.Name()) || strings.HasPrefix(e.Name(), packing)
		if left && !keep[e.Name()] {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("sweeping the payload: %w", err)
			}
		}
	}
	return nil
}
