package payload

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// ManifestFile is the manifest's name in a store; each blob lies beside it as <sha256>.zst.
const ManifestFile = "manifest.json"

const blobSuffix = ".zst"

// ErrUnknownBlob: the store has no blob of that digest or name.
var ErrUnknownBlob = errors.New("blob is not in the payload")

// Store is a folder of compressed blobs with its manifest. It is safe for concurrent use and never holds a blob in memory.
type Store struct {
	dir      string
	manifest Manifest
	byDigest map[string]Blob
	byName   map[string]Blob
}

// OpenStore reads the manifest of dir and checks that each blob is there with the compressed size that it says. The content is
// not read; Verify does that.
func OpenStore(dir string) (*Store, error) {
	data, err := readManifest(filepath.Join(dir, ManifestFile))
	if err != nil {
		return nil, fmt.Errorf("opening payload %s: %w", dir, err)
	}
	m, err := ParseManifest(data)
	if err != nil {
		return nil, fmt.Errorf("opening payload %s: %w", dir, err)
	}
	s := &Store{dir: dir, manifest: m, byDigest: map[string]Blob{}, byName: map[string]Blob{}}
	for _, b := range m.Blobs {
		if err := s.checkFile(b); err != nil {
			return nil, fmt.Errorf("opening payload %s: blob %s: %w", dir, b.Name, err)
		}
		s.byDigest[b.SHA256], s.byName[b.Name] = b, b
	}
	return s, nil
}

func readManifest(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxManifest+1))
}

func (s *Store) checkFile(b Blob) error {
	info, err := os.Stat(s.path(b.SHA256))
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() != b.CompressedSize {
		return fmt.Errorf("%w: the file has %d bytes and should have %d", ErrSize, info.Size(), b.CompressedSize)
	}
	return nil
}

func (s *Store) path(digest string) string { return filepath.Join(s.dir, digest+blobSuffix) }

// Manifest returns a copy of the manifest.
func (s *Store) Manifest() Manifest {
	return Manifest{APIVersion: s.manifest.APIVersion, Blobs: append([]Blob(nil), s.manifest.Blobs...)}
}

// Lookup returns the blob of that name, case kept.
func (s *Store) Lookup(name string) (Blob, bool) {
	b, ok := s.byName[name]
	return b, ok
}

// Blob returns the blob of that digest; where several names share it, the last one in the manifest.
func (s *Store) Blob(digest string) (Blob, bool) {
	b, ok := s.byDigest[digest]
	return b, ok
}

// Open returns the compressed bytes (one zstd stream of CompressedSize bytes) of the blob of that digest.
func (s *Store) Open(digest string) (io.ReadCloser, error) {
	if _, ok := s.byDigest[digest]; !ok {
		return nil, ErrUnknownBlob
	}
	f, err := os.Open(s.path(digest))
	if err != nil {
		return nil, fmt.Errorf("opening blob: %w", err)
	}
	return f, nil
}

// OpenPlain returns the uncompressed bytes of the blob of that digest. They are not checked.
func (s *Store) OpenPlain(digest string) (io.ReadCloser, error) {
	f, err := s.Open(digest)
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(frameWindow))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing to decompress: %w", err), f.Close())
	}
	return plainBlob{Decoder: dec, file: f}, nil
}

type plainBlob struct {
	*zstd.Decoder
	file io.Closer
}

// Close implements io.Closer.
func (p plainBlob) Close() error {
	p.Decoder.Close()
	return p.file.Close()
}

// Verify reads every blob and compares its size and digest with the manifest.
func (s *Store) Verify() error {
	for _, b := range s.manifest.Blobs {
		if err := s.verify(b); err != nil {
			return fmt.Errorf("verifying blob %s: %w", b.Name, err)
		}
	}
	return nil
}

func (s *Store) verify(b Blob) error {
	r, err := s.OpenPlain(b.SHA256)
	if err != nil {
		return err
	}
	defer r.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(r, b.Size+1))
	switch {
	case err != nil:
		return err
	case n != b.Size:
		return ErrSize
	case hex.EncodeToString(sum.Sum(nil)) != b.SHA256:
		return ErrDigest
	}
	return nil
}

// Dir is the folder of the store.
func (s *Store) Dir() string { return s.dir }
