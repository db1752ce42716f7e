package agent

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

// idleLimit is how long the sender of a stream may be silent. A sender whose machine lost its power closes nothing: the SSH server of
// Windows notices after the two hours of TCP keep-alive (KeepAliveTime), and the lock is held meanwhile.
const idleLimit = 2 * time.Minute

// pumpSize of reads, in bytes.
const pumpSize = 256 << 10

// chunk is what one read gave.
type chunk struct {
	b   []byte
	err error
}

// idleReader reads from another goroutine, since a read of standard input cannot be interrupted, and gives up with errCut when nothing comes
// for idleLimit. Only waiting counts, not what the caller does between two reads.
type idleReader struct {
	ctx    context.Context
	clock  system.Clock
	chunks <-chan chunk
	now    chunk
}

// newIdleReader reads in until ctx ends. The goroutine behind it may outlive ctx, in a read that nobody answers; it ends with the process.
func newIdleReader(ctx context.Context, clock system.Clock, in io.Reader) *idleReader {
	chunks := make(chan chunk)
	go pump(ctx, in, chunks)
	return &idleReader{ctx: ctx, clock: clock, chunks: chunks}
}

// pump hands over what it reads. There is one buffer to fill while the other is used: a chunk is taken once the one before is used up.
func pump(ctx context.Context, in io.Reader, chunks chan<- chunk) {
	for fill, other := make([]byte, pumpSize), make([]byte, pumpSize); ; fill, other = other, fill {
		n, err := in.Read(fill)
		select {
		case chunks <- chunk{fill[:n], err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// Read implements io.Reader.
func (r *idleReader) Read(p []byte) (int, error) {
	for len(r.now.b) == 0 {
		if r.now.err != nil {
			return 0, r.now.err
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.now.b)
	r.now.b = r.now.b[n:]
	return n, nil
}

func (r *idleReader) next() error {
	ctx, stop := context.WithCancel(r.ctx)
	defer stop()
	late := make(chan error, 1)
	go func() { late <- r.clock.Sleep(ctx, idleLimit) }()
	select {
	case r.now = <-r.chunks:
		return nil
	case err := <-late:
		if err == nil {
			err = fmt.Errorf("nothing came for %s: %w", idleLimit, errCut)
		}
		return err
	}
}
