package controlplane

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

const (
	// modulePath is the module whose folder holds hack/controlplane.
	modulePath = "github.com/windowsmachine/operator"
	// maxSourceFile bounds each file of hack/controlplane that is read.
	maxSourceFile = 4 << 20
	// recipe names the build command in the cache key; raise it when buildArgs changes what is built.
	recipe = "1"
)

var (
	// errNoSource: the folder hack/controlplane cannot be found from here.
	errNoSource = errors.New("module " + modulePath + " not found above the working directory or the source file")

	requireKubernetes = regexp.MustCompile(`(?m)^(?:require)?\s*k8s\.io/kubernetes (v1\.(\d+)\.\S+)`)
	requireEtcd       = regexp.MustCompile(`(?m)^(?:require)?\s*go\.etcd\.io/etcd/server/v3 (v3\.\S+)`)
	moduleLine        = regexp.MustCompile(`(?m)^module\s+(\S+)\s*$`)
)

// source is what the programs are built from.
type source struct {
	// dir is the absolute path of hack/controlplane.
	dir string
	// kubernetes and etcd are module versions, minor the minor number of the first.
	kubernetes, minor, etcd string
	// key names the folder of the finished programs.
	key string
}

// findSource reads the tools module. It starts no program.
func findSource() (source, error) {
	root, err := repositoryRoot()
	if err != nil {
		return source{}, err
	}
	dir := filepath.Join(root, "hack", "controlplane")
	files := map[string][]byte{}
	for _, name := range sourceFiles() {
		b, err := readFile(filepath.Join(dir, name), maxSourceFile)
		if err != nil {
			return source{}, fmt.Errorf("reading the control plane's module: %w", err)
		}
		files[name] = b
	}
	return newSource(dir, files, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// sourceFiles are the files that decide what is built.
func sourceFiles() []string { return []string{"etcd/main.go", "go.mod", "go.sum"} }

// newSource derives versions and key.
func newSource(dir string, files map[string][]byte, goVersion, goos, goarch string) (source, error) {
	kubernetes := requireKubernetes.FindSubmatch(files["go.mod"])
	etcd := requireEtcd.FindSubmatch(files["go.mod"])
	if kubernetes == nil || etcd == nil {
		return source{}, fmt.Errorf("%s names no version of k8s.io/kubernetes or go.etcd.io/etcd/server/v3", filepath.Join(dir, "go.mod"))
	}
	s := source{dir: dir, kubernetes: string(kubernetes[1]), minor: string(kubernetes[2]), etcd: string(etcd[1])}
	h := sha256.New()
	for _, part := range []string{recipe, goVersion, goos, goarch} {
		fmt.Fprintf(h, "%q\n", part)
	}
	for _, name := range sourceFiles() {
		fmt.Fprintf(h, "%q %x\n", name, sha256.Sum256(files[name]))
	}
	s.key = fmt.Sprintf("controlplane-%s-etcd-%s-%s", s.kubernetes, s.etcd, hex.EncodeToString(h.Sum(nil))[:16])
	return s, nil
}

// repositoryRoot looks above the working directory first, since a program built with -trimpath knows no source path.
func repositoryRoot() (string, error) {
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
	return "", fmt.Errorf("%w (looked from %s)", errNoSource, strings.Join(starts, ", "))
}

// rootAbove walks up from dir to the folder of the module.
func rootAbove(dir string) (string, bool) {
	for {
		b, err := readFile(filepath.Join(dir, "go.mod"), maxSourceFile)
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

// readFile reads a whole file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return b, nil
}
