package gobuild

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

const (
	// modulePath is the module of this repository.
	modulePath = "github.com/windowsmachine/operator"
	// maxFile bounds each file of a module that is read.
	maxFile = 4 << 20
)

var (
	// ErrNoRoot: the repository cannot be found from here.
	ErrNoRoot = errors.New("module " + modulePath + " not found above the working directory or the source file")
	// ErrNoVersion: a go.mod does not require a module.
	ErrNoVersion = errors.New("go.mod names no version of the module")

	moduleLine = regexp.MustCompile(`(?m)^module\s+(\S+)\s*$`)
)

// Module is a folder with a go.mod and a go.sum.
type Module struct {
	// Dir is the absolute path of the folder.
	Dir string
	// Files are those that decide what is built, by their name below Dir.
	Files map[string][]byte
}

// OpenModule reads go.mod, go.sum and more files of a folder. It starts no program.
func OpenModule(dir string, more ...string) (Module, error) {
	m := Module{Dir: dir, Files: map[string][]byte{}}
	for _, name := range append([]string{"go.mod", "go.sum"}, more...) {
		b, err := readFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return Module{}, fmt.Errorf("reading a tools module: %w", err)
		}
		m.Files[name] = b
	}
	return m, nil
}

// Version is the version of a module that go.mod requires, for example "v1.37.2".
func (m Module) Version(path string) (string, error) {
	line, err := regexp.Compile(`(?m)^(?:require)?\s*` + regexp.QuoteMeta(path) + ` (v\S+)`)
	if err != nil {
		return "", err
	}
	found := line.FindSubmatch(m.Files["go.mod"])
	if found == nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Join(m.Dir, "go.mod"), ErrNoVersion, path)
	}
	return string(found[1]), nil
}

// Key is a digest, 16 hexadecimal digits, of the files and of parts: what else decides the content.
func (m Module) Key(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%q\n", part)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		fmt.Fprintf(h, "%q %x\n", name, sha256.Sum256(m.Files[name]))
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Root is the folder of this repository. It looks above the working directory first, since a program built with -trimpath knows no
// source path.
func Root() (string, error) {
	var starts []string
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		starts = append(starts, filepath.Dir(file))
	}
	for _, start := range starts {
		if root, ok := rootAbove(start); ok {
			return root, nil
		}
	}
	return "", fmt.Errorf("%w (looked from %s)", ErrNoRoot, strings.Join(starts, ", "))
}

// rootAbove walks up from dir to the folder of the module.
func rootAbove(dir string) (string, bool) {
	for {
		b, err := readFile(filepath.Join(dir, "go.mod"))
		if m := moduleLine.FindSubmatch(b); err == nil && m != nil && string(m[1]) == modulePath {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

// readFile reads a whole file of at most maxFile bytes.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return b, nil
}
