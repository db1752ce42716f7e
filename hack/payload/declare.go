package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/windowsmachine/operator/hack/gobuild"
	"github.com/windowsmachine/operator/hack/payload/programs"
	"github.com/windowsmachine/operator/pkg/payload"
)

// fetchTime bounds the fetch of one declared file.
const fetchTime = 15 * time.Minute

var (
	errDeclaration = errors.New("a declared file needs name, version, licence, source and sha256")
	errFetch       = errors.New("fetching a declared file")

	digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// declared reads a declaration, fetches what has an address, and holds every file against its SHA-256. Nothing is packed before all
// of it is right.
func declared(ctx context.Context, list string, progress io.Writer) ([]programs.Declared, error) {
	if list == "" {
		return nil, nil
	}
	entries, err := readList(list)
	if err != nil {
		return nil, err
	}
	var out []programs.Declared
	var errs []error
	for _, e := range entries {
		d, err := declare(ctx, e, progress)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", list, e.Name, err))
		}
		out = append(out, d)
	}
	return out, errors.Join(errs...)
}

func declare(ctx context.Context, e entry, progress io.Writer) (programs.Declared, error) {
	if e.Version == "" || e.Licence == "" || e.Source == "" || !digestForm.MatchString(e.SHA256) {
		return programs.Declared{}, errDeclaration
	}
	if e.URL != "" {
		var err error
		if e.File, err = fetched(ctx, e, progress); err != nil {
			return programs.Declared{}, err
		}
	}
	if err := check(e); err != nil {
		return programs.Declared{}, fmt.Errorf("%s: %w", e.File, err)
	}
	return programs.Declared{Name: e.Name, Version: e.Version, Licence: e.Licence, Source: e.Source, SHA256: e.SHA256, Path: e.File}, nil
}

// fetched returns the cached file of an entry with an address; its name in the cache is its digest.
func fetched(ctx context.Context, e entry, progress io.Writer) (string, error) {
	cache, err := gobuild.CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "declared")
	file := filepath.Join(dir, e.SHA256)
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	fmt.Fprintf(progress, "payload: fetching %s\n", e.URL)
	tmp, err := os.CreateTemp(dir, ".fetching-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp.Name())
	sum, err := fetch(ctx, e.URL, tmp)
	if err := errors.Join(err, tmp.Close()); err != nil {
		return "", fmt.Errorf("%w %s: %w", errFetch, e.URL, err)
	}
	if sum != e.SHA256 {
		return "", fmt.Errorf("%s: %w: it has %s, the list says %s", e.URL, errSHA256, sum, e.SHA256)
	}
	return file, os.Rename(tmp.Name(), file)
}

// fetch writes what an address answers and returns its SHA-256.
func fetch(ctx context.Context, url string, out io.Writer) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the server answers %s", resp.Status)
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, h), io.LimitReader(resp.Body, payload.MaxBlobSize+1))
	if err != nil {
		return "", err
	}
	if n > payload.MaxBlobSize {
		return "", fmt.Errorf("it has more than %d bytes", int64(payload.MaxBlobSize))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
