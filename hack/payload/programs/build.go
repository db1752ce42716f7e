package programs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/windowsmachine/operator/hack/gobuild"
	"github.com/windowsmachine/operator/pkg/payload"
)

// ErrChanged: a declared file is another one than a moment ago.
var ErrChanged = errors.New("the file has changed while it was packed")

// packRecipe names the way of packing in the cache key; raise it when payload.Pack writes other bytes.
const packRecipe = "1"

// Declared is a file from elsewhere, by somebody who vouches for it.
type Declared struct {
	// Name, Version, Licence (SPDX) and Source are what the manifest says; SHA256 is that of the file, in lower-case hexadecimal.
	Name, Version, Licence, Source, SHA256 string
	// Path is where the file lies.
	Path string
}

// Cached returns the packed payload of real programs, from the user's cache, and builds it first if it is not there; progress (nil:
// silent) says what is built and that it still is.
func Cached(ctx context.Context, progress io.Writer, declared ...Declared) (*payload.Store, error) {
	root, err := gobuild.Root()
	if err != nil {
		return nil, err
	}
	parts, err := Parts(root)
	if err != nil {
		return nil, err
	}
	return cached(ctx, progress, parts, declared)
}

func cached(ctx context.Context, progress io.Writer, parts []Part, declared []Declared) (*payload.Store, error) {
	if progress == nil {
		progress = io.Discard
	}
	if err := accepts(parts, declared); err != nil {
		return nil, err
	}
	cache, err := gobuild.CacheDir()
	if err != nil {
		return nil, err
	}
	folder := gobuild.Folder{
		Path: filepath.Join(cache, "payload-"+storeKey(parts, declared)), Kind: "payload",
		Whole: func(path string) bool { _, err := payload.OpenStore(path); return err == nil },
		Make: func(ctx context.Context, tmp string) error {
			return pack(ctx, progress, tmp, parts, declared)
		},
		Waiting: func() { fmt.Fprintln(progress, "payload: waiting for another process that packs one") },
	}
	if err := folder.Once(ctx); err != nil {
		return nil, err
	}
	return payload.OpenStore(folder.Path)
}

// accepts refuses, before anything is built, declared files that the manifest would not take: a name that is none, or is taken.
func accepts(parts []Part, declared []Declared) error {
	m := payload.Manifest{APIVersion: payload.ManifestVersion}
	add := func(name, version, licence, source, digest string) {
		// Sizes are not known yet; any that is possible does.
		m.Blobs = append(m.Blobs, payload.Blob{
			Name: name, Version: version, Licence: licence, Source: source, SHA256: digest, Size: 1, CompressedSize: 1,
		})
	}
	for _, p := range parts {
		for name, b := range p.blobs {
			add(name, b.version, b.licence, b.source, strings.Repeat("0", 2*sha256.Size))
		}
	}
	for _, d := range declared {
		add(d.Name, d.Version, d.Licence, d.Source, d.SHA256)
	}
	if err := m.Validate(); err != nil {
		return fmt.Errorf("built programs and declared files together: %w", err)
	}
	return nil
}

// storeKey is a digest of everything that decides the packed payload.
func storeKey(parts []Part, declared []Declared) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", packRecipe)
	for _, p := range parts {
		fmt.Fprintf(h, "%q\n", p.Folder)
	}
	for _, d := range declared {
		fmt.Fprintf(h, "%q %q %q %q %q\n", d.Name, d.Version, d.Licence, d.Source, d.SHA256)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// pack builds what is missing and packs all of it.
func pack(ctx context.Context, progress io.Writer, out string, parts []Part, declared []Declared) error {
	var sources []payload.Source
	for _, p := range parts {
		dir, err := p.Build(ctx, progress)
		if err != nil {
			return err
		}
		for _, program := range p.Programs {
			about := p.blobs[program.Name]
			sources = append(sources, source(program.Name, about, filepath.Join(dir, program.Name)))
		}
	}
	for _, d := range declared {
		sources = append(sources, source(d.Name, description{d.Version, d.Licence, d.Source}, d.Path))
	}
	fmt.Fprintf(progress, "payload: compressing %d programs\n", len(sources))
	store, err := payload.Pack(out, sources)
	if err != nil {
		return err
	}
	for _, d := range declared {
		if b, ok := store.Lookup(d.Name); !ok || b.SHA256 != d.SHA256 {
			return fmt.Errorf("declared file %s: %w: its SHA-256 is %s", d.Name, ErrChanged, b.SHA256)
		}
	}
	return nil
}

func source(name string, about description, path string) payload.Source {
	return payload.Source{
		Name: name, Version: about.version, Licence: about.licence, Origin: about.source,
		Open: func() (io.ReadCloser, error) { return os.Open(path) },
	}
}
