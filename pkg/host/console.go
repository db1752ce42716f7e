package host

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	wire "github.com/windowsmachine/operator/pkg/console"
	"github.com/windowsmachine/operator/pkg/transport"
)

// console is a run of `wmcb serve`: one channel, over which the agent's commands go one after the other.
type console struct {
	in *io.PipeWriter
	// ctx ends when nothing more may be sent.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// gone is closed when the program has ended; exit, err and stderr are set then.
	gone   chan struct{}
	exit   int
	err    error
	stderr tail

	// last is the number of the newest command; a session runs one at a time.
	last int64

	mu sync.Mutex
	// out takes the output of the command under way, nil between commands.
	out io.Writer
}

// console returns the one that runs over c, or starts it.
func (s *Session) console(c transport.Conn) *console {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == c && s.running.usable() {
		return s.running
	}
	in, feed := io.Pipe()
	ctx, cancel := context.WithCancelCause(context.Background())
	k := &console{in: feed, ctx: ctx, cancel: cancel, gone: make(chan struct{})}
	command := transport.Command{Path: s.agentPath(), Args: []string{"serve"}, Stdin: in, Stdout: k, Stderr: &k.stderr}
	s.wg.Go(func() {
		defer cancel(nil)
		exit, err := c.Run(ctx, command)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		k.exit, k.err = exit, err
		// This unblocks whoever is sending.
		_ = in.CloseWithError(io.ErrClosedPipe)
		close(k.gone)
	})
	if s.conn == c {
		s.running = k
	} else {
		// The connection was detached in this moment; its end is the console's.
		k.hangUp(errStopped)
	}
	return k
}

// leave ends the console in order, so that no program of ours runs on the machine.
func (s *Session) leave(ctx context.Context) error {
	s.mu.Lock()
	k := s.running
	s.running = nil
	s.mu.Unlock()
	if k == nil {
		return nil
	}
	_ = k.in.Close()
	select {
	case <-k.gone:
		return nil
	case <-ctx.Done():
		k.hangUp(context.Cause(ctx))
		return context.Cause(ctx)
	}
}

// Write implements io.Writer for the program's output. What comes between commands is nobody's.
func (k *console) Write(p []byte) (int, error) {
	k.mu.Lock()
	out := k.out
	k.mu.Unlock()
	if out == nil {
		return len(p), nil
	}
	return out.Write(p)
}

func (k *console) listen(w io.Writer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.out = w
}

// usable reports whether another command can be sent; k may be nil.
func (k *console) usable() bool {
	if k == nil {
		return false
	}
	select {
	case <-k.gone:
		return false
	default:
		return k.ctx.Err() == nil
	}
}

// hangUp ends the program without waiting; k may be nil.
func (k *console) hangUp(why error) {
	if k != nil {
		k.cancel(why)
	}
}

// run has a command run. Each of its lines of at most maxLine bytes goes to take; more than c.total bytes of output are an error. An error means that
// it is not known how the command ended, and ends the console. A standard input that can be closed is closed when the command has ended.
func (k *console) run(ctx context.Context, c call, maxLine int, take func(line []byte)) (wire.Done, error) {
	k.last++
	id := k.last
	done := make(chan wire.Done, 1)
	out := &lines{max: maxLine, total: c.total, take: func(line []byte) {
		d, ok := wire.ParseDone(line)
		if !ok {
			take(line)
			return
		}
		// There is one; a machine that says it again, or of another command, is not listened to.
		if d.ID == id {
			select {
			case done <- d:
			default:
			}
		}
	}}
	k.listen(out)
	defer k.listen(nil)
	stdin := &input{r: c.stdin}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		var bad *wire.InputError
		// Any other error means that the program has ended, which says more.
		if err := wire.Send(k.in, id, c.args, stdin); errors.As(err, &bad) {
			k.hangUp(err)
		}
	}()
	d, err := k.ended(ctx, out, done)
	stdin.end()
	select {
	case <-sent:
	case <-k.gone:
		<-sent
	case <-ctx.Done():
		k.hangUp(context.Cause(ctx))
		<-k.gone
		<-sent
	}
	d.Stderr = clean(d.Stderr)
	return d, err
}

// ended waits for the end of a command: the agent's word, the end of the program, or ctx.
func (k *console) ended(ctx context.Context, out *lines, done <-chan wire.Done) (wire.Done, error) {
	select {
	case d := <-done:
		return d, nil
	case <-ctx.Done():
		k.hangUp(context.Cause(ctx))
		<-k.gone
		return wire.Done{}, context.Cause(ctx)
	case <-k.gone:
	}
	out.flush()
	select {
	case d := <-done:
		return d, nil
	default:
		return wire.Done{Exit: k.exit, Stderr: k.stderr.text()}, k.err
	}
}

// input is a command's standard input, which nobody wants any more when the command has ended.
type input struct {
	r    io.Reader
	over atomic.Bool
}

// Read implements io.Reader.
func (i *input) Read(p []byte) (int, error) {
	if i.over.Load() {
		return 0, io.EOF
	}
	n, err := i.r.Read(p)
	if err != nil && i.over.Load() {
		err = io.EOF
	}
	return n, err
}

func (i *input) end() {
	i.over.Store(true)
	if c, ok := i.r.(io.Closer); ok {
		_ = c.Close()
	}
}
