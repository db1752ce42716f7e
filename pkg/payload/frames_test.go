package payload

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// golden reads a file of hexadecimal digits with comments behind #.
func golden(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	out, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// collect is a put function that keeps what it gets, as a careful agent does.
func collect(into map[string][]byte) func(Incoming, io.Reader) error {
	return func(b Incoming, r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if int64(len(data)) != b.Size-b.From {
			return errors.New("size differs from what was read")
		}
		into[b.Digest] = data
		return nil
	}
}

func TestFramesGolden(t *testing.T) {
	want := golden(t, "testdata/frames.hex")
	hello, bye := []byte("hello"), []byte("bye")
	s := storeOf(t, map[string][]byte{"hello.exe": hello, "bye.exe": bye})
	var got bytes.Buffer
	var progress []int64
	err := WriteFrames(&got, s, Need{Need: []string{digestOf(hello), digestOf(bye)}}, func(n int64) { progress = append(progress, n) })
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(hex.Dump(want), hex.Dump(got.Bytes())); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]int64{14, 26}, progress); d != "" {
		t.Errorf("progress: %s", d)
	}
	blobs := map[string][]byte{}
	if err := ReadFrames(bytes.NewReader(want), DefaultLimits(), collect(blobs)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string][]byte{digestOf(hello): hello, digestOf(bye): bye}, blobs); d != "" {
		t.Error(d)
	}
}

func TestFramesRoundTrip(t *testing.T) {
	big := append(bytes.Repeat([]byte("kubelet "), 500_000), noiseBytes(1, 300_000)...)
	data := map[string][]byte{"big.exe": big, "small.exe": []byte("x")}
	s := pack(t, t.TempDir(), source("big.exe", big), source("small.exe", data["small.exe"]))
	want := map[string][]byte{}
	var digests []string
	for _, b := range s.Manifest().Blobs {
		want[b.SHA256] = data[b.Name]
		digests = append(digests, b.SHA256)
	}
	for _, tc := range []struct {
		name string
		need []string
		wrap func(io.Reader) io.Reader
	}{
		{"all", digests, func(r io.Reader) io.Reader { return r }},
		{"all in odd pieces", digests, iotest.HalfReader},
		{"all with the last error early", digests, iotest.DataErrReader},
		{"none", nil, func(r io.Reader) io.Reader { return r }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var wire bytes.Buffer
			if err := WriteFrames(&wire, s, Need{Need: tc.need}, nil); err != nil {
				t.Fatal(err)
			}
			got := map[string][]byte{}
			if err := ReadFrames(tc.wrap(&wire), DefaultLimits(), collect(got)); err != nil {
				t.Fatal(err)
			}
			if len(got) != len(tc.need) {
				t.Fatalf("got %d blobs", len(got))
			}
			for d, data := range got {
				if !bytes.Equal(data, want[d]) {
					t.Errorf("blob %s differs", d)
				}
			}
		})
	}
}

func TestWriteFramesErrors(t *testing.T) {
	s := storeOf(t, map[string][]byte{"a.exe": []byte("a")})
	d := digestOf([]byte("a"))
	if err := WriteFrames(io.Discard, s, Need{Need: []string{digestOf([]byte("b"))}}, nil); !errors.Is(err, ErrUnknownBlob) {
		t.Errorf("an unknown blob gave %v", err)
	}
	for n := range 60 {
		w := &limitedWriter{left: n}
		if err := WriteFrames(w, s, Need{Need: []string{d}}, nil); !errors.Is(err, io.ErrClosedPipe) {
			t.Fatalf("a writer that fails after %d bytes gave %v", n, err)
		}
	}
	if err := os.Remove(s.path(d)); err != nil {
		t.Fatal(err)
	}
	if err := WriteFrames(io.Discard, s, Need{Need: []string{d}}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file gave %v", err)
	}
}

type limitedWriter struct{ left int }

// Write implements io.Writer.
func (l *limitedWriter) Write(p []byte) (int, error) {
	if len(p) > l.left {
		return 0, io.ErrClosedPipe
	}
	l.left -= len(p)
	return len(p), nil
}

// stream builds a frame stream piece by piece.
type stream struct{ bytes.Buffer }

func newStream() *stream {
	s := &stream{}
	s.WriteString(frameMagic)
	s.Write([]byte{0, FrameVersion})
	return s
}

func (s *stream) blob(digest string, size, compressed int, data []byte) *stream {
	raw, err := hex.DecodeString(digest)
	if err != nil {
		panic(err)
	}
	s.WriteByte(markBlob)
	s.Write(raw)
	s.Write(binary.BigEndian.AppendUint64(nil, uint64(size)))
	s.Write(binary.BigEndian.AppendUint64(nil, uint64(compressed)))
	s.Write(data)
	return s
}

// of adds a frame that is right.
func (s *stream) of(data []byte) *stream {
	z := rawZstd(data)
	return s.blob(digestOf(data), len(data), len(z), z)
}

func (s *stream) end(count int) *stream {
	s.WriteByte(markEnd)
	s.Write(binary.BigEndian.AppendUint32(nil, uint32(count)))
	return s
}

func (s *stream) with(extra string) *stream {
	s.WriteString(extra)
	return s
}

func TestReadFramesRefuses(t *testing.T) {
	a := []byte("hello")
	z := rawZstd(a)
	bomb := zstdOf(t, make([]byte, 64<<20))
	wide := zstdOf(t, noiseBytes(1, 100<<10), zstd.WithWindowSize(64<<20), zstd.WithSingleSegment(false))
	// An encoder may choose a smaller window for little data; this one says 64 MiB in its window descriptor (RFC 8878, 3.1.1.1.2).
	wide[4], wide[5] = wide[4]&^0x20, 16<<3
	lim := Limits{MaxBlobs: 2, MaxBlobSize: 200 << 10, MaxTotal: 300 << 10}
	big := noiseBytes(2, 170<<10)
	bigZ := zstdOf(t, big)
	for _, tc := range []struct {
		name string
		in   *stream
		want error
	}{
		{"good", newStream().of(a).end(1), nil},
		{"empty blob", newStream().blob(digestOf(nil), 0, 9, rawZstd(nil)).end(1), nil},
		{"bad magic", (&stream{}).with("WMOFRAMX\x00\x01"), ErrFormat},
		{"new version", (&stream{}).with("WMOFRAME\x00\x02"), ErrVersion},
		{"unknown mark", newStream().with("X"), ErrFormat},
		{"trailing garbage", newStream().of(a).end(1).with("x"), ErrFormat},
		{"end counts too many", newStream().of(a).end(2), ErrFormat},
		{"end counts too few", newStream().of(a).end(0), ErrFormat},
		{"wrong digest", newStream().blob(digestOf([]byte("other")), len(a), len(z), z).end(1), ErrDigest},
		{"longer than said", newStream().blob(digestOf(a), len(a)-1, len(z), z).end(1), ErrSize},
		{"shorter than said", newStream().blob(digestOf(a), len(a)+1, len(z), z).end(1), ErrSize},
		{"bomb", newStream().blob(digestOf(a), 128<<10, len(bomb), bomb).end(1), ErrSize},
		{"window too wide", newStream().blob(digestOf(a), 100<<10, len(wide), wide).end(1), ErrFormat},
		{"not zstd", newStream().blob(digestOf(a), len(a), len(z), bytes.Repeat([]byte("x"), len(z))).end(1), ErrFormat},
		{"garbage behind the zstd stream", newStream().blob(digestOf(a), len(a), len(z)+4, append(append([]byte{}, z...), "junk"...)).end(1), ErrFormat},
		{"second zstd stream", newStream().blob(digestOf(a), len(a), 2*len(z), append(append([]byte{}, z...), z...)).end(1), ErrSize},
		{"zstd stream cut by its frame", newStream().blob(digestOf(a), len(a), len(z)-1, z[:len(z)-1]).end(1), ErrSize},
		{"no zstd stream", newStream().blob(digestOf(a), len(a), 0, nil).end(1), ErrSize},
		{"too many blobs", newStream().of(a).of([]byte("b")).of([]byte("c")).end(3), ErrLimit},
		{"too large a blob", newStream().blob(digestOf(a), 200<<10+1, len(z), z), ErrLimit},
		{"size beyond any integer", newStream().blob(digestOf(a), -1, len(z), z), ErrLimit},
		{"compressed beyond any integer", newStream().blob(digestOf(a), 5, -1, z), ErrLimit},
		{"compressed far above its size", newStream().blob(digestOf(a), 5, 5000, z), ErrLimit},
		{"too much in all", newStream().blob(digestOf(big), len(big), len(bigZ), bigZ).blob(digestOf(big), len(big), len(bigZ), bigZ), ErrLimit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var read int64
			err := ReadFrames(&tc.in.Buffer, lim, func(b Incoming, r io.Reader) error {
				n, err := io.Copy(io.Discard, r)
				read = n
				if n > b.Size {
					t.Errorf("put was given %d bytes of a blob of %d", n, b.Size)
				}
				return err
			})
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v after %d bytes", err, read)
			}
		})
	}
}

// The reader itself must tell, so that a put function that ignores what comes later has not renamed a bad blob into place.
func TestReadFramesTellsPut(t *testing.T) {
	a := []byte("hello")
	z := rawZstd(a)
	in := newStream().blob(digestOf([]byte("other")), len(a), len(z), z).end(1)
	var told error
	err := ReadFrames(&in.Buffer, DefaultLimits(), func(_ Incoming, r io.Reader) error {
		_, told = io.ReadAll(r)
		_, again := r.Read(make([]byte, 1))
		if !errors.Is(again, ErrDigest) {
			t.Errorf("a second read gave %v", again)
		}
		return nil
	})
	if !errors.Is(told, ErrDigest) {
		t.Errorf("put was told %v", told)
	}
	if !errors.Is(err, ErrUnread) {
		t.Errorf("a put function that hides an error gave %v", err)
	}
}

func TestReadFramesPut(t *testing.T) {
	own := errors.New("disk full")
	for _, tc := range []struct {
		name string
		put  func(io.Reader) error
		want error
	}{
		{"own error", func(io.Reader) error { return own }, own},
		{"nothing read", func(io.Reader) error { return nil }, ErrUnread},
		{"not read to the end", func(r io.Reader) error { _, err := io.ReadFull(r, make([]byte, 5)); return err }, ErrUnread},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := newStream().of([]byte("hello")).end(1)
			calls := 0
			err := ReadFrames(&in.Buffer, DefaultLimits(), func(_ Incoming, r io.Reader) error {
				calls++
				return tc.put(r)
			})
			if !errors.Is(err, tc.want) || calls != 1 {
				t.Errorf("got %v after %d calls", err, calls)
			}
		})
	}
}

// Wherever the connection is cut, the reader says that it was cut, and never that the blob is bad.
func TestReadFramesCut(t *testing.T) {
	whole := golden(t, "testdata/frames.hex")
	for n := range whole {
		got := map[string][]byte{}
		err := ReadFrames(bytes.NewReader(whole[:n]), DefaultLimits(), collect(got))
		if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrSize) || errors.Is(err, ErrFormat) {
			t.Fatalf("cut at byte %d of %d: %v", n, len(whole), err)
		}
	}
	broken := errors.New("network down")
	for n := range whole {
		r := io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(broken))
		// A connection that breaks is not taken for a stream that is wrong.
		if err := ReadFrames(r, DefaultLimits(), collect(map[string][]byte{})); !errors.Is(err, broken) || errors.Is(err, ErrFormat) {
			t.Fatalf("failing at byte %d: %v", n, err)
		}
	}
}

// TestRestGolden: the form of a rest, whose compressed bytes may be any zstd stream.
func TestRestGolden(t *testing.T) {
	want := golden(t, "testdata/rest.hex")
	hello := []byte("hello")
	got := map[string][]byte{}
	err := ReadFrames(bytes.NewReader(want), DefaultLimits(), func(b Incoming, r io.Reader) error {
		if d := cmp.Diff(Incoming{Digest: digestOf(hello), Size: 5, From: 2}, b); d != "" {
			t.Error(d)
		}
		return collect(got)(b, r)
	})
	if err != nil || string(got[digestOf(hello)]) != "llo" {
		t.Errorf("%q, %v", got, err)
	}
	var wire bytes.Buffer
	need := Need{Need: []string{digestOf(hello)}, Have: map[string]int64{digestOf(hello): 2}}
	if err := WriteFrames(&wire, pack(t, t.TempDir(), source("hello.exe", hello)), need, nil); err != nil {
		t.Fatal(err)
	}
	// Up to the length of the first chunk.
	const head = len(frameMagic) + 2 + 1 + blobHeader
	if d := cmp.Diff(hex.Dump(want[:head]), hex.Dump(wire.Bytes()[:head])); d != "" {
		t.Error(d)
	}
}

// TestRest: of a blob whose beginning is there only the rest travels, in bounded memory and chunks; wherever that is cut, the reader says so.
func TestRest(t *testing.T) {
	text := bytes.Repeat([]byte("kubelet.exe "), 40_000)
	noise := noiseBytes(7, 300<<10)
	s := pack(t, t.TempDir(), source("text.exe", text), source("noise.exe", noise))
	for _, from := range []int64{1, 1000, int64(len(noise)) - 1} {
		need := Need{Need: []string{digestOf(text), digestOf(noise)}, Have: map[string]int64{digestOf(noise): from}}
		var wire bytes.Buffer
		if err := WriteFrames(&wire, s, need, nil); err != nil {
			t.Fatal(err)
		}
		if limit := 100<<10 + len(noise) - int(from); wire.Len() > limit {
			t.Errorf("%d bytes were sent for a rest of %d", wire.Len(), len(noise)-int(from))
		}
		got := map[string][]byte{}
		var in []Incoming
		err := ReadFrames(bytes.NewReader(wire.Bytes()), DefaultLimits(), func(b Incoming, r io.Reader) error {
			in = append(in, b)
			return collect(got)(b, r)
		})
		want := []Incoming{{Digest: digestOf(text), Size: int64(len(text))}, {Digest: digestOf(noise), Size: int64(len(noise)), From: from}}
		if d := cmp.Diff(want, in); err != nil || d != "" {
			t.Fatalf("%v: %s", err, d)
		}
		if !bytes.Equal(got[digestOf(noise)], noise[from:]) || !bytes.Equal(got[digestOf(text)], text) {
			t.Errorf("from byte %d: something else arrived", from)
		}
		for n := 0; n < wire.Len(); n += 1 + wire.Len()/300 {
			err := ReadFrames(bytes.NewReader(wire.Bytes()[:n]), DefaultLimits(), collect(map[string][]byte{}))
			if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrSize) || errors.Is(err, ErrFormat) {
				t.Fatalf("cut at byte %d of %d: %v", n, wire.Len(), err)
			}
		}
	}
}

func TestRestRefused(t *testing.T) {
	a := []byte("hello")
	chunk := func(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }
	rest := func(size, from int, data []byte) []byte {
		raw, err := hex.DecodeString(digestOf(a))
		if err != nil {
			t.Fatal(err)
		}
		b := append(newStream().Bytes(), markRest)
		b = binary.BigEndian.AppendUint64(append(b, raw...), uint64(size))
		b = append(binary.BigEndian.AppendUint64(b, uint64(from)), data...)
		return append(b, markEnd, 0, 0, 0, 1)
	}
	z := zstdOf(t, a[2:])
	none := make([]byte, 4)
	for name, tc := range map[string]struct {
		in   []byte
		want error
	}{
		"whole":             {rest(5, 2, append(chunk(z), none...)), nil},
		"nothing is there":  {rest(5, 0, append(chunk(z), none...)), ErrFormat},
		"all is there":      {rest(5, 5, append(chunk(z), none...)), ErrFormat},
		"more is there":     {rest(5, 6, append(chunk(z), none...)), ErrFormat},
		"beyond an integer": {rest(5, -1, append(chunk(z), none...)), ErrFormat},
		"shorter":           {rest(9, 2, append(chunk(z), none...)), ErrSize},
		"longer":            {rest(4, 2, append(chunk(z), none...)), ErrSize},
		"no zstd stream":    {rest(5, 2, append(chunk([]byte("no zstd at all")), none...)), ErrFormat},
		"a chunk too large": {rest(5, 2, binary.BigEndian.AppendUint32(nil, maxChunk+1)), ErrLimit},
		"chunks for ever":   {rest(5, 2, bytes.Repeat(append(chunk(bytes.Repeat([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, 1000)), []byte{}...), 20)), ErrLimit},
		"a blob too large":  {rest(1<<30+1, 2, append(chunk(z), none...)), ErrLimit},
	} {
		t.Run(name, func(t *testing.T) {
			err := ReadFrames(bytes.NewReader(tc.in), DefaultLimits(), func(_ Incoming, r io.Reader) error {
				_, err := io.Copy(io.Discard, r)
				return err
			})
			if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func FuzzReadFrames(f *testing.F) {
	whole := golden(f, "testdata/frames.hex")
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	var rest bytes.Buffer
	text := bytes.Repeat([]byte("hello"), 100)
	if err := WriteFrames(&rest, pack(f, f.TempDir(), source("a.exe", text)), Need{Need: []string{digestOf(text)}, Have: map[string]int64{digestOf(text): 50}}, nil); err != nil {
		f.Fatal(err)
	}
	f.Add(rest.Bytes())
	f.Add(newStream().blob(digestOf(nil), 1<<20, 20, zstdOf(f, make([]byte, 1<<20))).end(1).Bytes())
	lim := Limits{MaxBlobs: 4, MaxBlobSize: 1 << 20, MaxTotal: 2 << 20}
	f.Fuzz(func(t *testing.T, in []byte) {
		var total int64
		err := ReadFrames(bytes.NewReader(in), lim, func(b Incoming, r io.Reader) error {
			data, err := io.ReadAll(r)
			total += int64(len(data))
			if int64(len(data)) > b.Size-b.From {
				t.Errorf("blob of %d bytes, %d of them there, yields %d", b.Size, b.From, len(data))
			}
			if err == nil && (int64(len(data)) != b.Size-b.From || b.From == 0 && digestOf(data) != b.Digest) {
				t.Error("a blob that is not what its frame says was accepted")
			}
			return err
		})
		if total > lim.MaxTotal {
			t.Errorf("%d bytes in all", total)
		}
		if err == nil && (len(in) < 15 || in[len(in)-5] != markEnd) {
			t.Error("a stream without its end was accepted")
		}
	})
}
