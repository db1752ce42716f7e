package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/windowsmachine/operator/pkg/payload"
)

// maxList bounds the list file, in bytes.
const maxList = 1 << 20

var (
	errList   = errors.New("the list is not valid")
	errSHA256 = errors.New("the file has another SHA-256 than the list says")
	errNone   = errors.New("no file to pack")
)

// entry is a file to pack, as the list file writes it.
type entry struct {
	File string `json:"file"`
	// URL is where a declared file is fetched from, instead of File.
	URL     string `json:"url"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Licence string `json:"licence"`
	Source  string `json:"source"`
	SHA256  string `json:"sha256"`
}

func readList(file string) ([]entry, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxList+1))
	if err != nil {
		return nil, fmt.Errorf("reading the list: %w", err)
	}
	if len(text) > maxList {
		return nil, fmt.Errorf("%s: %w: more than %d bytes", file, errList, maxList)
	}
	var entries []entry
	if err := yaml.UnmarshalStrict(text, &entries); err != nil {
		return nil, fmt.Errorf("%s: %w: %w; it is a YAML list of entries such as {file: bin/a.exe, version: v1.0.0, licence: MIT, source: https://example.com/a, sha256: <64 digits>}",
			file, errList, err)
	}
	for i := range entries {
		if err := entries[i].complete(filepath.Dir(file)); err != nil {
			return nil, fmt.Errorf("%s: %w: entry %d: %w", file, errList, i+1, err)
		}
	}
	return entries, nil
}

// complete fills what may be left out. Relative files lie below dir.
func (e *entry) complete(dir string) error {
	switch {
	case (e.File == "") == (e.URL == ""):
		return errors.New("it must have exactly one of file and url")
	case e.URL != "":
		return e.completeURL()
	}
	if e.Name == "" {
		e.Name = filepath.Base(e.File)
	}
	if !filepath.IsAbs(e.File) {
		e.File = filepath.Join(dir, e.File)
	}
	return nil
}

// completeURL names the entry after the last part of its address.
func (e *entry) completeURL() error {
	u, err := url.Parse(e.URL)
	if err != nil {
		return err
	}
	if (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return fmt.Errorf("url %s is not one of http or https", e.URL)
	}
	if e.Name == "" {
		e.Name = path.Base(u.Path)
	}
	return nil
}

func readFolder(dir string, common entry) ([]entry, error) {
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, f := range found {
		if f.Type().IsRegular() {
			e := common
			e.File, e.Name = filepath.Join(dir, f.Name()), f.Name()
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// pack packs the entries; one whose SHA-256 is given and differs is refused before anything is written.
func pack(out string, entries []entry) (*payload.Store, error) {
	if len(entries) == 0 {
		return nil, errNone
	}
	var sources []payload.Source
	for _, e := range entries {
		if e.URL != "" {
			return nil, fmt.Errorf("%w: %s: a url is for files that build --declare names", errList, e.URL)
		}
		if err := check(e); err != nil {
			return nil, fmt.Errorf("%s: %w", e.File, err)
		}
		sources = append(sources, payload.Source{
			Name: e.Name, Version: e.Version, Licence: e.Licence, Origin: e.Source,
			Open: func() (io.ReadCloser, error) { return os.Open(e.File) },
		})
	}
	return payload.Pack(out, sources)
}

func check(e entry) error {
	if e.SHA256 == "" {
		return nil
	}
	f, err := os.Open(e.File)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != e.SHA256 {
		return fmt.Errorf("%w: it has %s, the list says %s", errSHA256, got, e.SHA256)
	}
	return nil
}
