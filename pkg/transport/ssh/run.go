package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/transport"
)

// The buffers of a program's streams, in bytes. A program may run as long as the connection, and there may be a thousand of those: io.Copy's own are
// 32 KiB each. Input is what has to be fast.
const (
	inputBuffer  = 16 << 10
	outputBuffer = 4 << 10
	errorBuffer  = 1 << 10
)

var (
	errNoStatus = errors.New("the program ended without an exit status")
	errRefused  = errors.New("the host refused the request")
)

// Run implements transport.Conn. A Stdin that fails, and a Stdout or Stderr that refuses a write, end the program, and Run
// returns their error.
//
// Run does not wait for a Stdin that is blocked in Read after the program has ended; its owner must close it.
func (c *conn) Run(ctx context.Context, cmd transport.Command) (int, error) {
	line, err := commandLine(cmd)
	if err != nil {
		return 0, err
	}
	exit := 0
	err = c.onChannel(ctx, func(ch channel) error {
		if err := c.request(ch, "exec", line); err != nil {
			return err
		}
		exit, err = c.converse(ch, cmd)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("running %s: %w", cmd.Path, err)
	}
	return exit, nil
}

// request asks for a program or a subsystem on the channel.
func (c *conn) request(ch channel, kind, value string) error {
	ok, err := ch.SendRequest(kind, true, ssh.Marshal(struct{ Value string }{value}))
	if err != nil {
		return c.lost(err)
	}
	if !ok {
		return fmt.Errorf("%w: %w", transport.ErrBusy, errRefused)
	}
	return nil
}

// converse carries the streams until the channel is closed and returns the exit status.
func (c *conn) converse(ch channel, cmd transport.Command) (int, error) {
	var f failure
	// fail keeps the first error and ends the program.
	fail := func(err error) {
		if err != nil && f.set(err) {
			_ = ch.Close()
		}
	}
	go func() { fail(feed(ch, cmd.Stdin)) }()
	var streams sync.WaitGroup
	streams.Go(func() { fail(drain(cmd.Stdout, ch, outputBuffer)) })
	streams.Go(func() { fail(drain(cmd.Stderr, ch.Stderr(), errorBuffer)) })
	exit, known := exitStatus(ch.requests)
	streams.Wait()
	switch err := f.get(); {
	case err != nil:
		return 0, err
	case !known:
		return 0, c.lost(errNoStatus)
	}
	return exit, nil
}

// feed sends standard input and its end. An input that cannot be read is an error; a program that does not want it is none.
func feed(ch channel, stdin io.Reader) error {
	if stdin != nil {
		in := &notedReader{r: stdin}
		// The copy's other errors mean that the program has ended.
		_, _ = io.CopyBuffer(ch, in, make([]byte, inputBuffer))
		if in.err != nil {
			return fmt.Errorf("reading standard input: %w", in.err)
		}
	}
	_ = ch.CloseWrite()
	return nil
}

// drain copies output to w up to its end. Only w can fail: an output that ends with the connection shows in the exit status.
func drain(w io.Writer, r io.Reader, buffer int) error {
	if w == nil {
		w = io.Discard
	}
	out := &notedWriter{w: w}
	_, _ = io.CopyBuffer(out, r, make([]byte, buffer))
	return out.err
}

// exitStatus reads the channel's requests up to its end. known is false when there was no exit status, as when the machine
// went down.
func exitStatus(requests <-chan *ssh.Request) (exit int, known bool) {
	for r := range requests {
		if r.Type == "exit-status" {
			var status struct{ Code uint32 }
			if err := ssh.Unmarshal(r.Payload, &status); err == nil {
				exit, known = int(status.Code), true
			}
		}
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
	}
	return exit, known
}

// failure keeps the first error.
type failure struct {
	mu  sync.Mutex
	err error
}

func (f *failure) set(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return false
	}
	f.err = err
	return true
}

func (f *failure) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// notedReader remembers the reader's own error, to tell it from the other side's.
type notedReader struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (n *notedReader) Read(p []byte) (int, error) {
	k, err := n.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		n.err = err
	}
	return k, err
}

// notedWriter remembers the writer's own error, to tell it from the other side's.
type notedWriter struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (n *notedWriter) Write(p []byte) (int, error) {
	k, err := n.w.Write(p)
	if err != nil {
		n.err = err
	}
	return k, err
}
