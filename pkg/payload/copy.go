package payload

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// CopyTo makes dir a store with the same manifest and blobs, and returns it opened. On the same file system the blobs are linked and take
// no room. As with Pack, blobs of an older store go and other files in dir are left alone.
func (s *Store) CopyTo(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("copying a payload to %s: %w", dir, err)
	}
	for digest := range s.byDigest {
		if err := s.copyBlob(dir, digest); err != nil {
			return nil, fmt.Errorf("copying a payload to %s: %w", dir, err)
		}
	}
	if err := writeManifest(dir, s.manifest); err != nil {
		return nil, err
	}
	if err := sweep(dir, s.manifest); err != nil {
		return nil, err
	}
	return OpenStore(dir)
}

// copyBlob links or copies one blob under a temporary name, then renames it to its digest.
func (s *Store) copyBlob(dir, digest string) error {
	tmp := filepath.Join(dir, packing+digest)
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Link(s.path(digest), tmp); err != nil {
		if err := copyFile(tmp, s.path(digest)); err != nil {
			return err
		}
	}
	// Renaming a link onto the same file leaves both names (POSIX rename); sweep takes the temporary one.
	return os.Rename(tmp, filepath.Join(dir, digest+blobSuffix))
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
