package fake

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"runtime"
	"sync"
	"weak"
)

// chunkSize is the unit in which content is kept and shared; content of at least one chunk is shared.
const chunkSize = 64 << 10

// Blobs keeps file content once, however many files on however many machines hold it: full chunks are shared while a
// file is being written, whole files by their SHA-256 once they are closed. What no file holds any more is collected
// by the Go runtime. It is safe for concurrent use.
type Blobs struct {
	seed   maphash.Seed
	mu     sync.Mutex
	chunks map[uint64][]weak.Pointer[chunk]
	whole  map[string]weak.Pointer[frozen]
	bytes  int64
}

// chunk is immutable once interned.
type chunk struct{ data []byte }

// frozen is the immutable content of a closed file.
type frozen struct {
	digest string
	size   int64
	parts  []part
}

// NewBlobs returns an empty pool.
func NewBlobs() *Blobs {
	return &Blobs{seed: maphash.MakeSeed(), chunks: map[uint64][]weak.Pointer[chunk]{}, whole: map[string]weak.Pointer[frozen]{}}
}

// Bytes is the size of all shared content that is alive; content that is no longer used counts until it is collected.
func (b *Blobs) Bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
}

// intern returns the shared chunk that equals data. It keeps data itself when owned, a copy otherwise.
func (b *Blobs) intern(data []byte, owned bool) *chunk {
	key := maphash.Bytes(b.seed, data)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.chunks[key] {
		if c := w.Value(); c != nil && bytes.Equal(c.data, data) {
			return c
		}
	}
	if !owned {
		data = bytes.Clone(data)
	}
	c := &chunk{data: data}
	b.chunks[key] = append(b.chunks[key], weak.Make(c))
	b.bytes += int64(len(data))
	runtime.AddCleanup(c, b.drop, dropped{key, int64(len(data))})
	return c
}

type dropped struct {
	key  uint64
	size int64
}

func (b *Blobs) drop(d dropped) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes -= d.size
	var live []weak.Pointer[chunk]
	for _, w := range b.chunks[d.key] {
		if w.Value() != nil {
			live = append(live, w)
		}
	}
	if live == nil {
		delete(b.chunks, d.key)
		return
	}
	b.chunks[d.key] = live
}

// share returns the one copy of f's content.
func (b *Blobs) share(f *frozen) *frozen {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.whole[f.digest].Value(); known != nil {
		return known
	}
	b.whole[f.digest] = weak.Make(f)
	runtime.AddCleanup(f, b.dropWhole, f.digest)
	return f
}

func (b *Blobs) dropWhole(digest string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.whole[digest].Value() == nil {
		delete(b.whole, digest)
	}
}

// part is one chunk of a file: shared and immutable, or private. Both nil is a hole of zeros.
type part struct {
	shared  *chunk
	private []byte
	// written counts the bytes ever written to private; a full chunk is shared when it reaches chunkSize.
	written int
}

func (p part) bytes() []byte {
	if p.shared != nil {
		return p.shared.data
	}
	return p.private
}

// content is the bytes of a file. It is guarded by its machine.
type content struct {
	size  int64
	parts []part
	// closed is the shared whole, nil while the content changes.
	closed *frozen
}

func (c *content) readAt(p []byte, off int64) int {
	n := 0
	for n < len(p) && off < c.size {
		want := min(int64(len(p)-n), chunkSize-off%chunkSize, c.size-off)
		dst := p[n : n+int(want)]
		clear(dst)
		if src := c.parts[off/chunkSize].bytes(); off%chunkSize < int64(len(src)) {
			copy(dst, src[off%chunkSize:])
		}
		n += int(want)
		off += want
	}
	return n
}

func (c *content) writeAt(pool *Blobs, p []byte, off int64) {
	c.thaw()
	for len(p) > 0 {
		i, at := int(off/chunkSize), int(off%chunkSize)
		for len(c.parts) <= i {
			c.parts = append(c.parts, part{})
		}
		n := min(len(p), chunkSize-at)
		c.parts[i].write(pool, p[:n], at)
		p, off = p[n:], off+int64(n)
		c.size = max(c.size, off)
	}
}

// thaw makes the list of parts private before it changes.
func (c *content) thaw() {
	if c.closed != nil {
		c.parts = copyParts(c.closed.parts)
		c.closed = nil
	}
}

func copyParts(in []part) []part { return append([]part(nil), in...) }

func (p *part) write(pool *Blobs, data []byte, at int) {
	if len(data) == chunkSize {
		*p = part{shared: pool.intern(data, false)}
		return
	}
	if p.shared != nil {
		p.private, p.shared = append([]byte(nil), p.shared.data...), nil
	}
	need := at + len(data)
	if need > cap(p.private) && need > chunkSize/8 {
		p.private = append(make([]byte, 0, chunkSize), p.private...)
	}
	if need > len(p.private) {
		p.private = append(p.private, make([]byte, need-len(p.private))...)
	}
	copy(p.private[at:], data)
	if p.written += len(data); p.written >= chunkSize && len(p.private) == chunkSize {
		p.shared, p.private, p.written = pool.intern(p.private, true), nil, 0
	}
}

// truncate shortens or lengthens the content.
func (c *content) truncate(size int64) {
	c.thaw()
	n := int((size + chunkSize - 1) / chunkSize)
	for len(c.parts) < n {
		c.parts = append(c.parts, part{})
	}
	c.parts = c.parts[:n]
	c.size = size
	if tail := int(size % chunkSize); tail > 0 {
		p := &c.parts[n-1]
		if b := p.bytes(); len(b) > tail {
			*p = part{private: append([]byte(nil), b[:tail]...)}
		}
	}
}

// snapshot is a copy that later writes do not change.
func (c *content) snapshot() content {
	if c.closed != nil {
		return *c
	}
	s := content{size: c.size, parts: copyParts(c.parts)}
	for i, p := range s.parts {
		if p.private != nil {
			s.parts[i].private = append([]byte(nil), p.private...)
		}
	}
	return s
}

// freeze shares content of at least one chunk.
func (c *content) freeze(pool *Blobs) {
	if c.closed != nil || c.size < chunkSize {
		return
	}
	for i := range c.parts {
		if p := &c.parts[i]; p.shared == nil && len(p.private) == chunkSize {
			*p = part{shared: pool.intern(p.private, true)}
		}
	}
	c.closed = pool.share(&frozen{digest: c.digest(), size: c.size, parts: c.parts})
	c.parts = c.closed.parts
}

// digest is the SHA-256 of the whole.
func (c *content) digest() string {
	if c.closed != nil {
		return c.closed.digest
	}
	h := sha256.New()
	buf := make([]byte, min(chunkSize, c.size))
	for off := int64(0); off < c.size; {
		n := c.readAt(buf, off)
		h.Write(buf[:n])
		off += int64(n)
	}
	return hex.EncodeToString(h.Sum(nil))
}
