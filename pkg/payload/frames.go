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
	markEnd     = 'E'
	blobHeader  = sha256.Size + 8 + 8
	frameWindow = 8 << 20
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

// WriteFrames writes the blobs of s with these digests in this order, streamed from disk. progress, if not nil, is called with
// the number of compressed bytes sent so far each time that some were sent.
func WriteFrames(w io.Writer, s *Store, digests []string, progress func(sent int64)) error {
	header := binary.BigEndian.AppendUint16([]byte(frameMagic), FrameVersion)
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("writing the frame header: %w", err)
	}
	count := &countingWriter{w: w, progress: progress}
	for _, d := range digests {
		if err := writeFrame(w, count, s, d); err != nil {
			return fmt.Errorf("writing the frame of %s: %w", d, err)
		}
	}
	end := binary.BigEndian.AppendUint32([]byte{markEnd}, uint32(len(digests)))
	if _, err := w.Write(end); err != nil {
		return fmt.Errorf("writing the frame end: %w", err)
	}
	return nil
}

func writeFrame(w io.Writer, data *countingWriter, s *Store, digest string) error {
	b, ok := s.Blob(digest)
	if !ok {
		return ErrUnknownBlob
	}
	raw, err := hex.DecodeString(digest)
	if err != nil {
		return fmt.Errorf("decoding the digest: %w", err)
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

// ReadFrames reads a frame stream up to its end and the end of r, and hands each blob to put as it comes.
//
// The reader given to put yields the uncompressed bytes. It returns io.EOF only when exactly size bytes with the frame's digest
// were read; before that it returns ErrSize or ErrDigest, so put must keep the blob only after it has seen io.EOF. Memory is
// bounded (a window of 8 MiB), whatever the stream says. An error of put ends the reading and is returned wrapped. The
// dimensions of a blob are checked against lim before put is called.
func ReadFrames(r io.Reader, lim Limits, put func(digest string, size int64, r io.Reader) error) error {
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
	put   func(string, int64, io.Reader) error
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
	case markBlob:
		return false, f.blob()
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
		return err
	}
	return nil
}

func (f *frameReader) blob() error {
	var header [blobHeader]byte
	if _, err := io.ReadFull(f.r, header[:]); err != nil {
		return cut(err)
	}
	digest := hex.EncodeToString(header[:sha256.Size])
	size := binary.BigEndian.Uint64(header[sha256.Size:])
	compressed := binary.BigEndian.Uint64(header[sha256.Size+8:])
	if err := f.admit(size, compressed); err != nil {
		return err
	}
	data := &io.LimitedReader{R: f.r, N: int64(compressed)}
	if err := f.dec.Reset(data); err != nil {
		return fmt.Errorf("preparing to decompress: %w", err)
	}
	b := &blobReader{data: data, dec: f.dec, want: [sha256.Size]byte(header[:sha256.Size]), left: int64(size), sum: sha256.New()}
	if err := f.put(digest, int64(size), b); err != nil {
		return err
	}
	if !errors.Is(b.err, io.EOF) {
		return fmt.Errorf("%s: %w", digest, ErrUnread)
	}
	f.count++
	f.total += int64(size)
	return nil
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
	data *io.LimitedReader
	dec  *zstd.Decoder
	want [sha256.Size]byte
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
	case !errors.Is(err, io.EOF) || b.data.N > 0:
		return b.explain(err)
	case [sha256.Size]byte(b.sum.Sum(nil)) != b.want:
		return ErrDigest
	}
	return io.EOF
}

// explain tells a stream that was cut (its bytes are not all there) from a blob that is not what its frame says.
func (b *blobReader) explain(err error) error {
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	switch {
	case ended && b.data.N > 0:
		return fmt.Errorf("the stream was cut: %w", io.ErrUnexpectedEOF)
	case ended:
		return ErrSize
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}

// cut makes the end of the input inside the stream an unexpected one.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
