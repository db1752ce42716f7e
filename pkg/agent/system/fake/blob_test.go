package fake_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

func randomBytes(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = r.Read(b)
	return b
}

func TestContentIsKeptOncePerDigest(t *testing.T) {
	pool := fake.NewBlobs()
	data := randomBytes(1<<20+123, 1)
	sum := sha256.Sum256(data)
	var machines []*fake.Machine
	for range 20 {
		m := newMachine(t, func(o *fake.Options) { o.Blobs = pool })
		if err := m.WriteFile(`C:\a`, data); err != nil {
			t.Fatal(err)
		}
		machines = append(machines, m)
	}
	if got := pool.Bytes(); got > 2<<20 {
		t.Errorf("20 machines with one file of 1 MiB hold %d bytes", got)
	}
	for _, m := range machines {
		if got := m.Dump().Files[`C:\a`].Digest; got != hex.EncodeToString(sum[:]) {
			t.Fatalf("digest %s", got)
		}
		if err := m.System().Files.Remove(`C:\a`); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; pool.Bytes() > 0; i++ {
		if i == 100 {
			t.Fatalf("%d bytes stay after the last file is gone", pool.Bytes())
		}
		runtime.GC()
		runtime.Gosched()
	}
}

// Random writes in any order and size equal the same writes on plain bytes.
func TestContentEqualsPlainBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	m := newMachine(t)
	p, err := m.StartBuiltin("test", nil, fake.Streams{}, untilKilled)
	if err != nil {
		t.Fatal(err)
	}
	h, err := p.Open(`C:\a`, fake.ModeNew)
	if err != nil {
		t.Fatal(err)
	}
	var plain []byte
	for i := range 300 {
		off, n := r.IntN(400<<10), r.IntN(100<<10)
		data := randomBytes(n, uint64(i))
		if need := off + n; n > 0 && need > len(plain) {
			plain = append(plain, make([]byte, need-len(plain))...)
		}
		copy(plain[min(off, len(plain)):], data)
		if _, err := h.WriteAt(data, int64(off)); err != nil {
			t.Fatal(err)
		}
		switch {
		case i%50 == 49:
			size := r.IntN(len(plain) + 1)
			plain = plain[:size:size]
			if err := h.Truncate(int64(size)); err != nil {
				t.Fatal(err)
			}
		case i%20 == 19:
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			if h, err = p.Open(`C:\a`, fake.ModeUpdate); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := m.ReadFile(`C:\a`)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, plain) {
		t.Fatalf("%d bytes differ from the %d that were written", len(got), len(plain))
	}
	sum := sha256.Sum256(plain)
	if d := m.Dump().Files[`C:\a`]; d.Digest != hex.EncodeToString(sum[:]) || d.Size != int64(len(plain)) {
		t.Errorf("dump says %+v", d)
	}
}
