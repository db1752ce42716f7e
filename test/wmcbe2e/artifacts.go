package wmcbe2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// The artifacts stand between these lines of a log; hack/run-wmcb-ci-e2e-test.sh takes them out.
const (
	beginArtifacts = "-----BEGIN ARTIFACTS-----"
	endArtifacts   = "-----END ARTIFACTS-----"
	// lineWidth is how long a line of base64 is.
	lineWidth = 76
)

// artifacts is the folder of what is kept.
type artifacts struct{ dir string }

func newArtifacts(dir string) (*artifacts, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the artifacts' folder: %w", err)
	}
	return &artifacts{dir}, nil
}

func (a *artifacts) write(name string, content []byte) error {
	if err := os.WriteFile(filepath.Join(a.dir, name), content, 0o644); err != nil {
		return fmt.Errorf("keeping an artifact: %w", err)
	}
	return nil
}

// object keeps an object as YAML. Objects with secrets are never given to it.
func (a *artifacts) object(name string, o client.Object) error {
	o.SetManagedFields(nil)
	text, err := yaml.Marshal(o)
	if err != nil {
		return fmt.Errorf("keeping %s: %w", name, err)
	}
	return a.write(name+".yaml", text)
}

// print writes all artifacts to a log, packed.
func (a *artifacts) print(w io.Writer) error {
	var packed bytes.Buffer
	if err := a.pack(&packed); err != nil {
		return fmt.Errorf("packing the artifacts: %w", err)
	}
	text := []byte(base64.StdEncoding.EncodeToString(packed.Bytes()))
	out := []byte(beginArtifacts + "\n")
	for len(text) > 0 {
		n := min(lineWidth, len(text))
		out = append(append(out, text[:n]...), '\n')
		text = text[n:]
	}
	_, err := w.Write(append(out, endArtifacts+"\n"...))
	return err
}

// pack writes the files of the folder as a compressed archive.
func (a *artifacts) pack(w io.Writer) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	return errors.Join(t.AddFS(os.DirFS(a.dir)), t.Close(), z.Close())
}
