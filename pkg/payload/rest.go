package payload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

func writeRest(w io.Writer, data *countingWriter, s *Store, b Blob, raw []byte, from int64) error {
	r, err := s.OpenPlain(b.SHA256)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.CopyN(io.Discard, r, from); err != nil {
		return fmt.Errorf("skipping what is there: %w", err)
	}
	header := append([]byte{markRest}, raw...)
	header = binary.BigEndian.AppendUint64(header, uint64(b.Size))
	header = binary.BigEndian.AppendUint64(header, uint64(from))
	if _, err := w.Write(header); err != nil {
		return err
	}
	chunks := &chunkWriter{w: data}
	enc, err := zstd.NewWriter(chunks, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(restWindow))
	if err != nil {
		return fmt.Errorf("preparing to compress: %w", err)
	}
	_, err = io.CopyN(enc, r, b.Size-from)
	if err := errors.Join(err, enc.Close()); err != nil {
		return fmt.Errorf("compressing the rest: %w", err)
	}
	return chunks.end()
}

// restWindow keeps what compressing on the way takes small, in bytes.
const restWindow = 1 << 20

// chunkWriter puts a length in front of what is written.
type chunkWriter struct{ w io.Writer }

// Write implements io.Writer.
func (c *chunkWriter) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		n := min(len(p), maxChunk)
		chunk := append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+n), uint32(n)), p[:n]...)
		if _, err := c.w.Write(chunk); err != nil {
			return written, err
		}
		written += n
		p = p[n:]
	}
	return written, nil
}

func (c *chunkWriter) end() error {
	_, err := c.w.Write(make([]byte, 4))
	return err
}

// admitRest checks the head of a rest; what follows is bounded while it is read.
func (f *frameReader) admitRest(size, from uint64) error {
	if err := f.admit(size, 0); err != nil {
		return err
	}
	if from == 0 || from >= size {
		return fmt.Errorf("%w: %d bytes of %d are there", ErrFormat, from, size)
	}
	return nil
}

// chunkReader reads chunks up to their end, or left bytes.
type chunkReader struct {
	r    io.Reader
	left int64
	now  int64
	err  error
}

func (c *chunkReader) whole() bool { return errors.Is(c.err, io.EOF) }

func (c *chunkReader) failed() error {
	if c.whole() || errors.Is(c.err, ErrLimit) {
		return nil
	}
	return c.err
}

// Read implements io.Reader.
func (c *chunkReader) Read(p []byte) (int, error) {
	if len(p) == 0 || c.err != nil {
		return 0, c.err
	}
	if c.now == 0 {
		if c.err = c.next(); c.err != nil {
			return 0, c.err
		}
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.now)])
	c.now -= int64(n)
	if err != nil {
		c.err = cut(err)
	}
	return n, c.err
}

// next reads the length of the next chunk; io.EOF is the end.
func (c *chunkReader) next() error {
	var length [4]byte
	if _, err := io.ReadFull(c.r, length[:]); err != nil {
		return cut(err)
	}
	c.now = int64(binary.BigEndian.Uint32(length[:]))
	c.left -= c.now
	switch {
	case c.now == 0:
		return io.EOF
	case c.now > maxChunk:
		return fmt.Errorf("%w: a chunk of %d bytes", ErrLimit, c.now)
	case c.left < 0:
		return fmt.Errorf("%w: more compressed bytes than the rest can have", ErrLimit)
	}
	return nil
}
