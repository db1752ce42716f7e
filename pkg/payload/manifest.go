package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strings"
)

// ManifestVersion is the version of the Manifest format.
const ManifestVersion = "payload.windowsmachine.dev/v1"

// Limits of a Manifest.
const (
	// MaxManifest bounds manifest.json, in bytes.
	MaxManifest = 1 << 20
	// MaxBlobs bounds the blobs of a manifest, an offer or a frame stream, in items.
	MaxBlobs = 512
	// MaxBlobSize bounds one blob, in uncompressed bytes. The largest program of Kubernetes is below 100 MB.
	MaxBlobSize = 1 << 30
	// maxText bounds each free text of a manifest, in bytes.
	maxText = 512
)

// ErrManifest is wrapped by every error about the content of a manifest.
var ErrManifest = errors.New("invalid payload manifest")

var (
	digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	nameForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,126}[A-Za-z0-9]$`)
	// reservedForm are names that Windows gives to devices, whatever the extension:
	// https://learn.microsoft.com/windows/win32/fileio/naming-a-file.
	reservedForm = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?$`)
)

// Manifest lists the blobs of a Store, ordered by name.
type Manifest struct {
	// APIVersion is ManifestVersion.
	APIVersion string `json:"apiVersion"`
	Blobs      []Blob `json:"blobs"`
}

// Blob describes one file of the payload.
type Blob struct {
	// Name is a plain Windows file name, for example "kubelet.exe", unique whatever its case.
	Name string `json:"name"`
	// Version is the version of the program, for example "v1.37.2".
	Version string `json:"version"`
	// SHA256 of the uncompressed bytes, 64 lower-case hexadecimal digits.
	SHA256 string `json:"sha256"`
	// Size is the number of uncompressed bytes, CompressedSize that of the zstd file in the store.
	Size           int64 `json:"size"`
	CompressedSize int64 `json:"compressedSize"`
	// Licence is an SPDX expression, Source where the file comes from; both are for people.
	Licence string `json:"licence"`
	Source  string `json:"source"`
}

// ParseManifest reads a manifest strictly: unknown fields, trailing data and anything that Validate refuses are errors.
func ParseManifest(data []byte) (Manifest, error) {
	if len(data) > MaxManifest {
		return Manifest{}, fmt.Errorf("%w: more than %d bytes", ErrManifest, MaxManifest)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var m Manifest
	if err := d.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Manifest{}, fmt.Errorf("%w: data after the end", ErrManifest)
	}
	if err := m.Validate(); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

// Validate checks m against the format and its limits. Two names may share a digest; their sizes must then agree.
func (m Manifest) Validate() error {
	if m.APIVersion != ManifestVersion {
		return fmt.Errorf("%w: apiVersion %q is not %q", ErrManifest, clip(m.APIVersion), ManifestVersion)
	}
	if len(m.Blobs) == 0 || len(m.Blobs) > MaxBlobs {
		return fmt.Errorf("%w: %d blobs, must be 1 to %d", ErrManifest, len(m.Blobs), MaxBlobs)
	}
	names, sizes := map[string]bool{}, map[string][2]int64{}
	for _, b := range m.Blobs {
		if err := b.validate(); err != nil {
			return fmt.Errorf("%w: blob %q: %w", ErrManifest, clip(b.Name), err)
		}
		fold := strings.ToLower(b.Name)
		if names[fold] {
			return fmt.Errorf("%w: blob %q is named twice", ErrManifest, b.Name)
		}
		names[fold] = true
		size := [2]int64{b.Size, b.CompressedSize}
		if old, ok := sizes[b.SHA256]; ok && old != size {
			return fmt.Errorf("%w: blob %q: another size than the blob with the same digest", ErrManifest, b.Name)
		}
		sizes[b.SHA256] = size
	}
	return nil
}

func (b Blob) validate() error {
	if !nameForm.MatchString(b.Name) || reservedForm.MatchString(b.Name) {
		return errors.New("name is not a plain file name")
	}
	if err := checkBlob(b.SHA256, b.Size); err != nil {
		return err
	}
	if b.CompressedSize < 1 || b.CompressedSize > maxCompressed(b.Size) {
		return fmt.Errorf("compressed size %d is not possible", b.CompressedSize)
	}
	for _, text := range []string{b.Version, b.Licence, b.Source} {
		if text == "" || len(text) > maxText {
			return fmt.Errorf("version, licence and source must have 1 to %d bytes", maxText)
		}
	}
	return nil
}

// checkBlob checks a digest and an uncompressed size.
func checkBlob(digest string, size int64) error {
	if !digestForm.MatchString(digest) {
		return errors.New("sha256 is not 64 lower-case hexadecimal digits")
	}
	if size < 1 || size > MaxBlobSize {
		return fmt.Errorf("size %d, must be 1 to %d", size, int64(MaxBlobSize))
	}
	return nil
}

// maxCompressed is an upper bound of the zstd size of size bytes: three bytes for each stored block of 128 KiB at most, and
// headers (RFC 8878, 3.1.1). It is kept wide, since it only bounds what a receiver reads.
func maxCompressed(size int64) int64 { return size + size>>7 + 1024 }

// encode returns the canonical text of m: blobs ordered by name, two spaces of indentation, one final line feed.
func (m Manifest) encode() ([]byte, error) {
	m.Blobs = append([]Blob(nil), m.Blobs...)
	sort.Slice(m.Blobs, func(i, j int) bool { return m.Blobs[i].Name < m.Blobs[j].Name })
	out, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest: %w", err)
	}
	return append(out, '\n'), nil
}

// clip bounds a foreign text in a message.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}
