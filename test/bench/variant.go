package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/windowsmachine/operator/pkg/payload"
)

// changedBlob is the program that an upgrade changes: the largest.
const changedBlob = "kubelet.exe"

var errNoBlob = errors.New("payload has no such file")

// variant makes a store in dir that is like s, with other bytes at the end of the blob of that name. What is the same is linked.
func variant(s *payload.Store, dir, name string) error {
	old, ok := s.Lookup(name)
	if !ok {
		return fmt.Errorf("%w: %s", errNoBlob, name)
	}
	fresh, err := payload.Pack(dir, []payload.Source{{
		Name: old.Name, Version: old.Version + "-changed", Licence: old.Licence, Origin: old.Source,
		Open: func() (io.ReadCloser, error) { return longer(s, old.SHA256) },
	}})
	if err != nil {
		return err
	}
	m := s.Manifest()
	for i, b := range m.Blobs {
		if b.Name == name {
			m.Blobs[i] = fresh.Manifest().Blobs[0]
			continue
		}
		file := b.SHA256 + ".zst"
		if err := linkOrCopy(filepath.Join(s.Dir(), file), filepath.Join(dir, file)); err != nil {
			return err
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, payload.ManifestFile), text, 0o600)
}

// longer is a blob with one more line.
func longer(s *payload.Store, digest string) (io.ReadCloser, error) {
	r, err := s.OpenPlain(digest)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(r, strings.NewReader("changed\n")), r}, nil
}

// linkOrCopy links; folders on two file systems cannot, then it copies.
func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
