package payload

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// noiseBytes returns n bytes that do not compress, the same for each seed.
func noiseBytes(seed uint64, n int) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed)})
	out := make([]byte, n)
	_, _ = r.Read(out)
	return out
}

// source is a Source over bytes with defaults.
func source(name string, data []byte) Source {
	return Source{Name: name, Version: "v1", Licence: "Apache-2.0", Origin: "test", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}}
}

func pack(t testing.TB, dir string, sources ...Source) *Store {
	t.Helper()
	s, err := Pack(dir, sources)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// blob is a valid Blob with defaults.
func blob(change func(*Blob)) Blob {
	b := Blob{Name: "a.exe", Version: "v1", SHA256: digestOf([]byte("a")), Size: 1, CompressedSize: 10, Licence: "MIT", Source: "test"}
	if change != nil {
		change(&b)
	}
	return b
}

// rawZstd returns data (less than 256 bytes) as a zstd stream with one stored block, written by hand after RFC 8878.
func rawZstd(data []byte) []byte {
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, byte(len(data)), byte(len(data)<<3 | 1), byte(len(data) >> 5), 0}
	return append(out, data...)
}

// storeOf writes a store by hand, so that the compressed bytes do not depend on an encoder.
func storeOf(t testing.TB, blobs map[string][]byte) *Store {
	t.Helper()
	dir := t.TempDir()
	m := Manifest{APIVersion: ManifestVersion}
	for name, data := range blobs {
		z := rawZstd(data)
		m.Blobs = append(m.Blobs, blob(func(b *Blob) {
			b.Name, b.SHA256, b.Size, b.CompressedSize = name, digestOf(data), int64(len(data)), int64(len(z))
		}))
		if err := os.WriteFile(filepath.Join(dir, digestOf(data)+".zst"), z, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ManifestFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func zstdOf(t testing.TB, data []byte, opts ...zstd.EOption) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil, append([]zstd.EOption{zstd.WithEncoderConcurrency(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	return enc.EncodeAll(data, nil)
}
