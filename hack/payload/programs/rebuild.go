package programs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/windowsmachine/operator/hack/gobuild"
)

// Comparison is one program that was built twice.
type Comparison struct {
	Name string
	// First and Second are the SHA-256 of the two.
	First, Second string
}

// Same reports whether both builds gave the same bytes.
func (c Comparison) Same() bool { return c.First == c.Second }

// Rebuild builds programs of a part again, from a copy of its module in another folder and with an empty build cache, and compares
// them with the cached ones, which it builds when they are missing. No names: all of them.
func (p Part) Rebuild(ctx context.Context, progress io.Writer, names ...string) ([]Comparison, error) {
	return p.rebuild(ctx, progress, names, func(s gobuild.Set, program gobuild.Program, out, cache string) error {
		return s.Compile(ctx, program, out, "GOCACHE="+cache)
	})
}

type compiler func(s gobuild.Set, program gobuild.Program, out, cache string) error

func (p Part) rebuild(ctx context.Context, progress io.Writer, names []string, compile compiler) ([]Comparison, error) {
	first, err := p.Build(ctx, progress)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "payload-again-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	again, err := p.copyTo(filepath.Join(tmp, "elsewhere"))
	if err != nil {
		return nil, err
	}
	var out []Comparison
	for _, program := range p.selected(names) {
		fmt.Fprintf(progress, "%s: %s again, in another folder and with an empty build cache\n", p.Label, program.Name)
		second := filepath.Join(tmp, program.Name)
		err := gobuild.WithHeartbeat(progress, p.Label+": "+program.Name, func() error {
			return compile(again, program, second, filepath.Join(tmp, "cache"))
		})
		if err != nil {
			return nil, fmt.Errorf("building %s again: %w", program.Name, err)
		}
		c, err := Compare(program.Name, filepath.Join(first, program.Name), second)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(progress, "%s: %s: same = %v\n", p.Label, c.Name, c.Same())
		out = append(out, c)
	}
	return out, nil
}

// copyTo writes the module's files to another folder.
func (p Part) copyTo(dir string) (gobuild.Set, error) {
	for name, content := range p.module.Files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return gobuild.Set{}, err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return gobuild.Set{}, err
		}
	}
	set := p.Set
	set.Dir = dir
	return set, nil
}

// selected are the programs of those names; no names: all.
func (p Part) selected(names []string) []gobuild.Program {
	if len(names) == 0 {
		return p.Programs
	}
	var out []gobuild.Program
	for _, program := range p.Programs {
		for _, name := range names {
			if name == program.Name {
				out = append(out, program)
			}
		}
	}
	return out
}

// Compare hashes two files.
func Compare(name, first, second string) (Comparison, error) {
	c := Comparison{Name: name}
	for _, f := range []struct {
		path string
		sum  *string
	}{{first, &c.First}, {second, &c.Second}} {
		sum, err := sum(f.path)
		if err != nil {
			return Comparison{}, fmt.Errorf("comparing two builds of %s: %w", name, err)
		}
		*f.sum = sum
	}
	return c, nil
}

func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
