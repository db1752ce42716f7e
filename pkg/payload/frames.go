package payload

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

// The frame stream, all integers big-endian:
//
//	stream header   8 bytes   "WMOFRAME"
//	version         2 bytes   FrameVersion
//	then for each blob
//	  mark          1 byte    'B'
//	  digest       32 bytes   SHA-256 of the uncompressed bytes
//	  size          8 bytes   uncompressed bytes
//	  compressed    8 bytes   bytes that follow
//	  data                    one zstd stream (RFC 8878) of that many bytes
//	or, of a blob whose beginning is there already,
//	  mark          1 byte    'R'
//	  digest       32 bytes   SHA-256 of all the uncompressed bytes
//	  size          8 bytes   uncompressed bytes in all
//	  from          8 bytes   how many of them are there
//	  data                    one zstd stream of the rest, in chunks: 4 bytes with the length, at most maxChunk, and that many bytes;
//	                          0 is the end
//	then at the end
//	  mark          1 byte    'E'
//	  count         4 bytes   number of blobs before
//
// Nothing may follow the end; a stream without it was cut.
const (
	// FrameVersion is the version of the frame format.
	FrameVersion = 1

	frameMagic  = "WMOFRAME"
	markBlob    = 'B'
	markRest    = 'R'
	markEnd     = 'E'
	blobHeader  = sha256.Size + 8 + 8
	frameWindow = 8 << 20
	// maxChunk bounds a chunk of a rest, in bytes.
	maxChunk = 64 << 10
)

// Errors of ReadFrames; ErrSize and ErrDigest also of Store. A stream that ends too early wraps io.ErrUnexpectedEOF.
var (
	// ErrFormat: the stream is not in the frame format.
	ErrFormat = errors.New("invalid frame stream")
	// ErrVersion: the stream has a version that this program does not know.
	ErrVersion = errors.New("unknown frame version")
	// ErrLimit: the stream exceeds Limits.
	ErrLimit = errors.New("frame stream exceeds a limit")
	// ErrSize: a blob is longer or shorter than its frame or manifest says.
	ErrSize = errors.New("blob has not the size that was said")
	// ErrDigest: a blob's bytes do not have the digest that its frame or manifest says.
	ErrDigest = errors.New("blob has not the digest that was said")
	// ErrUnread: the put function returned no error but did not read its blob up to io.EOF.
	ErrUnread = errors.New("blob was not read to its end")
)

// Limits bound what ReadFrames accepts.
type Limits struct {
	// MaxBlobs is the number of blobs, MaxBlobSize the uncompressed bytes of one, MaxTotal those of all together.
	MaxBlobs    int
	MaxBlobSize int64
	MaxTotal    int64
}

// DefaultLimits fit every payload whose manifest is valid and whose blobs are together at most 4 GiB.
func DefaultLimits() Limits {
	return Limits{MaxBlobs: MaxBlobs, MaxBlobSize: MaxBlobSize, MaxTotal: 4 << 30}
}

// WriteFrames writes the blobs of s that are needed in this order, streamed from disk; of one whose beginning is there only the rest, compressed on
// the way. progress, if not nil, is called with the number of compressed bytes sent so far each time that some were sent.
func WriteFrames(w io.Writer, s *Store, need Need, progress func(sent int64)) error {
	header := binary.BigEndian.AppendUint16([]byte(frameMagic), FrameVersion)
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("writing the frame header: %w", err)
	}
	count := &countingWriter{w: w, progress: progress}
	for _, d := range need.Need {
		if err := writeFrame(w, count, s, d, need.Have[d]); err != nil {
			return fmt.Errorf("writing the frame of %s: %w", d, err)
		}
	}
	end := binary.BigEndian.AppendUint32([]byte{markEnd}, uint32(len(need.Need)))
	if _, err := w.Write(end); err != nil {
		return fmt.Errorf("writing the frame end: %w", err)
	}
	return nil
}

func writeFrame(w io.Writer, data *countingWriter, s *Store, digest string, from int64) error {
	b, ok := s.Blob(digest)
	if !ok {
		return ErrUnknownBlob
	}
	raw, err := hex.DecodeString(digest)
	if err != nil {
		return fmt.Errorf("decoding the digest: %w", err)
	}
	if from > 0 {
		return writeRest(w, data, s, b, raw, from)
	}
	r, err := s.Open(digest)
	if err != nil {
		return err
	}
	defer r.Close()
	header := append([]byte{markBlob}, raw...)
	header = binary.BigEndian.AppendUint64(header, uint64(b.Size))
	header = binary.BigEndian.AppendUint64(header, uint64(b.CompressedSize))
	if _, err := w.Write(header); err != nil {
		return err
	}
	_, err = io.CopyN(data, r, b.CompressedSize)
	return err
}

type countingWriter struct {
	w        io.Writer
	sent     int64
	progress func(int64)
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.sent += int64(n)
	if c.progress != nil && n > 0 {
		c.progress(c.sent)
	}
	return n, err
}

// Incoming is a blob that arrives.
type Incoming struct {
	Digest string
	// Size is that of the whole blob. From is how many of its bytes are not sent, since they are there: 0 for all of a blob.
	Size, From int64
}

// ReadFrames reads a frame stream up to its end and the end of r, and hands each blob to put as it comes.
//
// The reader given to put yields the uncompressed bytes behind From. It returns io.EOF only when exactly those were read and, of a whole blob, have
// the frame's digest; before that it returns ErrSize or ErrDigest, so put must keep the blob only after it has seen io.EOF, and check the digest
// itself where From is not 0. Memory is
// bounded (a window of 8 MiB), whatever the stream says. An error of put ends the reading and is returned wrapped. The
// dimensions of a blob are checked against lim before put is called.
func ReadFrames(r io.Reader, lim Limits, put func(b Incoming, r io.Reader) error) error {
	if err := readHeader(r); err != nil {
		return err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(frameWindow))
	if err != nil {
		return fmt.Errorf("preparing to decompress: %w", err)
	}
	defer dec.Close()
	f := frameReader{r: r, lim: lim, dec: dec, put: put}
	for {
		done, err := f.next()
		if err != nil {
			return fmt.Errorf("frame %d: %w", f.count+1, err)
		}
		if done {
			return nil
		}
	}
}

func readHeader(r io.Reader) error {
	var header [len(frameMagic) + 2]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return fmt.Errorf("reading the frame header: %w", cut(err))
	}
	if !bytes.HasPrefix(header[:], []byte(frameMagic)) {
		return fmt.Errorf("%w: it does not begin as one", ErrFormat)
	}
	if v := binary.BigEndian.Uint16(header[len(frameMagic):]); v != FrameVersion {
		return fmt.Errorf("%w %d", ErrVersion, v)
	}
	return nil
}

type frameReader struct {
	r     io.Reader
	lim   Limits
	dec   *zstd.Decoder
	put   func(Incoming, io.Reader) error
	count int
	total int64
}

// next reads one frame; done is true after the end frame.
func (f *frameReader) next() (done bool, err error) {
	var mark [1]byte
	if _, err := io.ReadFull(f.r, mark[:]); err != nil {
		return false, cut(err)
	}
	switch mark[0] {
	case markBlob, markRest:
		return false, f.blob(mark[0] == markRest)
	case markEnd:
		return true, f.end()
	}
	return false, fmt.Errorf("%w: unknown mark", ErrFormat)
}

func (f *frameReader) end() error {
	var count [4]byte
	if _, err := io.ReadFull(f.r, count[:]); err != nil {
		return cut(err)
	}
	if int64(binary.BigEndian.Uint32(count[:])) != int64(f.count) {
		return fmt.Errorf("%w: the end counts other frames", ErrFormat)
	}
	var extra [1]byte
	switch n, err := io.ReadFull(f.r, extra[:]); {
	case n > 0:
		return fmt.Errorf("%w: data after the end", ErrFormat)
	case !errors.Is(err, io.EOF):
		return cut(err)
	}
	return nil
}

func (f *frameReader) blob(rest bool) error {
	var header [blobHeader]byte
	if _, err := io.ReadFull(f.r, header[:]); err != nil {
		return cut(err)
	}
	size := binary.BigEndian.Uint64(header[sha256.Size:])
	second := binary.BigEndian.Uint64(header[sha256.Size+8:])
	in := Incoming{Digest: hex.EncodeToString(header[:sha256.Size])}
	b := &blobReader{dec: f.dec, sum: sha256.New()}
	if rest {
		if err := f.admitRest(size, second); err != nil {
			return err
		}
		in.Size, in.From = int64(size), int64(second)
		b.data = &chunkReader{r: f.r, left: maxCompressed(in.Size - in.From)}
	} else {
		if err := f.admit(size, second); err != nil {
			return err
		}
		in.Size = int64(size)
		b.want = header[:sha256.Size]
		b.data = &limitReader{LimitedReader: io.LimitedReader{R: f.r, N: int64(second)}}
	}
	b.left = in.Size - in.From
	return f.hand(in, b)
}

// hand gives a blob to put.
func (f *frameReader) hand(in Incoming, b *blobReader) error {
	if err := f.dec.Reset(b.data); err != nil {
		return fmt.Errorf("preparing to decompress: %w", err)
	}
	if err := f.put(in, b); err != nil {
		return err
	}
	if !errors.Is(b.err, io.EOF) {
		return fmt.Errorf("%s: %w", in.Digest, ErrUnread)
	}
	f.count++
	f.total += in.Size
	return nil
}

// compressed is the compressed bytes of a blob.
type compressed interface {
	io.Reader
	// whole reports whether all of them were read.
	whole() bool
	// failed is why no more can be read of a stream that neither ended nor is wrong, nil otherwise.
	failed() error
}

type limitReader struct {
	io.LimitedReader
	err error
}

func (l *limitReader) whole() bool   { return l.N == 0 }
func (l *limitReader) failed() error { return l.err }

// Read implements io.Reader.
func (l *limitReader) Read(p []byte) (int, error) {
	n, err := l.LimitedReader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		l.err = err
	}
	return n, err
}

// admit checks a frame's sizes against the limits before anything is read.
func (f *frameReader) admit(size, compressed uint64) error {
	switch {
	case f.count >= f.lim.MaxBlobs:
		return fmt.Errorf("%w: more than %d blobs", ErrLimit, f.lim.MaxBlobs)
	case size > uint64(f.lim.MaxBlobSize):
		return fmt.Errorf("%w: a blob of %d bytes", ErrLimit, size)
	case int64(size) > f.lim.MaxTotal-f.total:
		return fmt.Errorf("%w: more than %d bytes in all", ErrLimit, f.lim.MaxTotal)
	case compressed > uint64(maxCompressed(int64(size))):
		return fmt.Errorf("%w: %d compressed bytes for a blob of %d", ErrLimit, compressed, size)
	}
	return nil
}

// blobReader yields a blob's bytes and ends with io.EOF only when all is right.
type blobReader struct {
	data compressed
	dec  *zstd.Decoder
	// want is the digest, nil where only a part is read.
	want []byte
	left int64
	sum  hash.Hash
	err  error
}

// Read implements io.Reader.
func (b *blobReader) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if b.left == 0 {
		b.err = b.finish()
		return 0, b.err
	}
	n, err := b.dec.Read(p[:min(int64(len(p)), b.left)])
	b.sum.Write(p[:n])
	b.left -= int64(n)
	if err != nil && (!errors.Is(err, io.EOF) || b.left > 0) {
		b.err = b.explain(err)
	}
	return n, b.err
}

// finish decides what follows the last expected byte.
func (b *blobReader) finish() error {
	var extra [1]byte
	n, err := io.ReadFull(b.dec, extra[:])
	switch {
	case n > 0:
		return ErrSize
	case !errors.Is(err, io.EOF) || !b.data.whole():
		return b.explain(err)
	case b.want != nil && !bytes.Equal(b.sum.Sum(nil), b.want):
		return ErrDigest
	}
	return io.EOF
}

// explain tells a stream that was cut (its bytes are not all there) from a blob that is not what its frame says.
func (b *blobReader) explain(err error) error {
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	switch failed := b.data.failed(); {
	case failed != nil:
		// A connection that breaks is no stream that is wrong.
		return fmt.Errorf("the stream was cut: %w: %w", io.ErrUnexpectedEOF, failed)
	case errors.Is(err, ErrLimit):
		return err
	case ended && !b.data.whole():
		return fmt.Errorf("the stream was cut: %w", io.ErrUnexpectedEOF)
	case ended:
		return ErrSize
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}

// cut makes the end of the input inside the stream an unexpected one, whether it ended or broke.
func cut(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return err
	}
	return fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
}
