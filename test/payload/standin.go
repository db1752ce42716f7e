package payload

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"github.com/windowsmachine/operator/pkg/payload"
)

const (
	markerPrefix = "WMO-STAND-IN "
	maxName      = 128
	// minSize keeps the marker whole at every scale.
	minSize = 4 << 10
	// generation names the content's recipe; it is part of the cache key.
	generation = "1"
)

// ErrScale: the scale is not above 0 and at most 1.
var ErrScale = errors.New("scale must be above 0 and at most 1")

// program is a file of the payload with its measured size in MB (stripped, windows/amd64).
type program struct {
	name, version, licence, origin string
	megabytes                      float64
}

// programs are those of a payload for Kubernetes 1.37. Sizes of programs that are built elsewhere (csi-proxy, hybrid overlay, cloud
// node manager) are rounded guesses.
func programs() []program {
	const k8s, ctrd, cni = "v1.37.2", "v2.4.2", "v1.10.0"
	return []program{
		{"azure-cloud-node-manager.exe", "v1.37.0", "Apache-2.0", "sigs.k8s.io/cloud-provider-azure", 50},
		{"containerd-shim-runhcs-v1.exe", "v0.15.0", "MIT", "github.com/Microsoft/hcsshim", 15.6},
		{"containerd.exe", ctrd, "Apache-2.0", "github.com/containerd/containerd", 37.4},
		{"crictl.exe", "v1.37.0", "Apache-2.0", "sigs.k8s.io/cri-tools", 29.4},
		{"csi-proxy.exe", "v1.3.0", "Apache-2.0", "github.com/kubernetes-csi/csi-proxy", 12},
		{"ctr.exe", ctrd, "Apache-2.0", "github.com/containerd/containerd", 20.5},
		{"host-local.exe", cni, "Apache-2.0", "github.com/containernetworking/plugins", 3},
		{"hybrid-overlay-node.exe", "v1.2.0", "Apache-2.0", "github.com/ovn-org/ovn-kubernetes", 55},
		{"kube-log-runner.exe", k8s, "Apache-2.0", "k8s.io/component-base", 3},
		{"kube-proxy.exe", k8s, "Apache-2.0", "k8s.io/kubernetes", 78.6},
		{"kubelet.exe", k8s, "Apache-2.0", "k8s.io/kubernetes", 91.8},
		{"win-bridge.exe", cni, "Apache-2.0", "github.com/containernetworking/plugins", 7.4},
		{"win-overlay.exe", cni, "Apache-2.0", "github.com/containernetworking/plugins", 7.4},
		{"windows_exporter.exe", "v0.27.2", "MIT", "github.com/prometheus-community/windows_exporter", 16.5},
	}
}

// Marker returns the bytes with which the stand-in of that name begins.
func Marker(name string) []byte { return []byte(markerPrefix + name + "\n") }

// Identify returns the name of the stand-in whose first bytes (at least 256) these are; ok is false for anything else.
func Identify(head []byte) (name string, ok bool) {
	rest, ok := bytes.CutPrefix(head, []byte(markerPrefix))
	if !ok {
		return "", false
	}
	end := bytes.IndexByte(rest[:min(len(rest), maxName+1)], '\n')
	if end < 1 {
		return "", false
	}
	return string(rest[:end]), true
}

// Generate writes the stand-in payload into dir with each file's size multiplied by scale (0 < scale <= 1; at least 4 KiB a file).
func Generate(dir string, scale float64) (*payload.Store, error) {
	if !(scale > 0 && scale <= 1) {
		return nil, fmt.Errorf("%w: %v", ErrScale, scale)
	}
	var sources []payload.Source
	for _, p := range programs() {
		size := max(int64(math.Round(p.megabytes*1e6*scale)), minSize)
		sources = append(sources, payload.Source{
			Name: p.name, Version: p.version, Licence: p.licence, Origin: "stand-in for " + p.origin,
			Open: func() (io.ReadCloser, error) { return io.NopCloser(newContent(p.name, size)), nil },
		})
	}
	return payload.Pack(dir, sources)
}

// Cached returns the stand-in payload of that scale from ${XDG_CACHE_HOME:-~/.cache}/windowsmachine/standin, generated when it
// is not there. Several processes may call it at the same time.
func Cached(scale float64) (*payload.Store, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding the cache folder: %w", err)
	}
	return cached(filepath.Join(base, "windowsmachine", "standin"), scale)
}

func cached(base string, scale float64) (*payload.Store, error) {
	dir := filepath.Join(base, "v"+generation+"-"+strconv.FormatFloat(scale, 'g', -1, 64))
	if s, err := payload.OpenStore(dir); err == nil {
		return s, nil
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return nil, fmt.Errorf("making the cache folder: %w", err)
	}
	tmp, err := os.MkdirTemp(base, ".making-*")
	if err != nil {
		return nil, fmt.Errorf("making the cache folder: %w", err)
	}
	defer os.RemoveAll(tmp)
	fresh := filepath.Join(tmp, "store")
	if _, err := Generate(fresh, scale); err != nil {
		return nil, err
	}
	return publish(fresh, dir)
}

// publish renames fresh to dir. A folder that is there by now is either another process's, then it is used, or broken, then it
// is moved aside into fresh's parent, which the caller removes.
func publish(fresh, dir string) (*payload.Store, error) {
	err := os.Rename(fresh, dir)
	if errors.Is(err, fs.ErrExist) {
		if s, err := payload.OpenStore(dir); err == nil {
			return s, nil
		}
		if err := os.Rename(dir, filepath.Join(filepath.Dir(fresh), "broken")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("replacing the cached payload: %w", err)
		}
		err = os.Rename(fresh, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("publishing the cached payload: %w", err)
	}
	return payload.OpenStore(dir)
}

// content yields a marker and then units of random bytes followed by a piece of a fixed dictionary, which zstd -3 packs to
// about 40 percent, as it does programs written in Go.
type content struct {
	left int64
	rnd  *rand.Rand
	dict []byte
	unit []byte
	rest []byte
}

const (
	unitSize   = 64
	unitRandom = 21
	dictSize   = 2 << 10
)

func newContent(name string, size int64) *content {
	h := fnv.New64a()
	h.Write([]byte(name))
	c := &content{left: size, rnd: rand.New(rand.NewPCG(h.Sum64(), 1)), dict: make([]byte, dictSize), unit: make([]byte, 0, unitSize)}
	for i := range c.dict {
		c.dict[i] = byte(c.rnd.Uint32())
	}
	c.rest = Marker(name)
	return c
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), c.left)]
	n := 0
	for n < len(p) {
		if len(c.rest) == 0 {
			c.next()
		}
		k := copy(p[n:], c.rest)
		c.rest = c.rest[k:]
		n += k
	}
	c.left -= int64(n)
	return n, nil
}

func (c *content) next() {
	c.unit = c.unit[:0]
	for len(c.unit) < unitRandom {
		v := c.rnd.Uint64()
		c.unit = append(c.unit, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56))
	}
	c.unit = c.unit[:unitRandom]
	at := c.rnd.IntN(dictSize - unitSize)
	c.unit = append(c.unit, c.dict[at:at+unitSize-unitRandom]...)
	c.rest = c.unit
}
