package payload

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/payload"
)

const testScale = 0.002

func TestGenerate(t *testing.T) {
	s, err := Generate(t.TempDir(), testScale)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	again, err := Generate(t.TempDir(), testScale)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(s.Manifest(), again.Manifest()); d != "" {
		t.Errorf("the second time differs: %s", d)
	}
	var plain, compressed int64
	for _, b := range s.Manifest().Blobs {
		plain, compressed = plain+b.Size, compressed+b.CompressedSize
		if name, ok := Identify(head(t, s, b.SHA256)); !ok || name != b.Name {
			t.Errorf("%s is identified as %q", b.Name, name)
		}
	}
	if ratio := float64(plain) / float64(compressed); ratio < 2.2 || ratio > 2.8 {
		t.Errorf("compresses %.2f:1, should be about 2.5:1", ratio)
	}
	if k, ok := s.Lookup("kubelet.exe"); !ok || math.Abs(float64(k.Size)-91.8e6*testScale) > 1 {
		t.Errorf("kubelet.exe has %d bytes", k.Size)
	}
}

func head(t *testing.T, s *payload.Store, digest string) []byte {
	t.Helper()
	r, err := s.OpenPlain(digest)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out, err := io.ReadAll(io.LimitReader(r, 256))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestScale(t *testing.T) {
	for _, scale := range []float64{0, -1, 1.1, math.NaN(), math.Inf(1)} {
		if _, err := Generate(t.TempDir(), scale); !errors.Is(err, ErrScale) {
			t.Errorf("scale %v gave %v", scale, err)
		}
	}
	s, err := Generate(t.TempDir(), 1e-9)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range s.Manifest().Blobs {
		if b.Size != minSize {
			t.Errorf("%s has %d bytes", b.Name, b.Size)
		}
	}
}

func TestIdentify(t *testing.T) {
	for _, tc := range []struct {
		head, name string
		ok         bool
	}{
		{string(Marker("kubelet.exe")) + "rest", "kubelet.exe", true},
		{"MZ\x90", "", false},
		{"", "", false},
		{markerPrefix, "", false},
		{markerPrefix + "\n", "", false},
		{markerPrefix + string(make([]byte, 1000)) + "\n", "", false},
	} {
		if name, ok := Identify([]byte(tc.head)); name != tc.name || ok != tc.ok {
			t.Errorf("%.30q is %q, %v", tc.head, name, ok)
		}
	}
}

func TestCached(t *testing.T) {
	base := filepath.Join(t.TempDir(), "cache")
	// Several processes may come at once; goroutines stand for them.
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := cached(base, 1e-9); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s, err := cached(base, 1e-9)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(base)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d folders in the cache, %v", len(entries), err)
	}
	// One that is broken is made anew.
	dir := filepath.Join(base, entries[0].Name())
	if err := os.Remove(filepath.Join(dir, s.Manifest().Blobs[0].SHA256+".zst")); err != nil {
		t.Fatal(err)
	}
	if s, err = cached(base, 1e-9); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	if _, err := cached(base, 2); !errors.Is(err, ErrScale) {
		t.Errorf("a bad scale gave %v", err)
	}
}
