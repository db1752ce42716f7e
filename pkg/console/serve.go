package console

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/windowsmachine/operator/pkg/plan"
)

// Command is one command under way.
type Command struct {
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Serve runs the commands that come on in, one after the other, until in ends. run returns a command's exit code; its error ends Serve.
// An input that is not what the package describes ends it with ErrProtocol, one that is cut in the middle with io.ErrUnexpectedEOF.
func Serve(ctx context.Context, in io.Reader, out io.Writer, run func(context.Context, Command) (exit int, err error)) error {
	// Its size bounds a request's line.
	r := bufio.NewReaderSize(in, MaxRequest)
	for {
		request, err := readRequest(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := serveOne(ctx, r, out, request, run); err != nil {
			return err
		}
	}
}

func serveOne(ctx context.Context, r io.Reader, out io.Writer, request Request, run func(context.Context, Command) (int, error)) error {
	stdin := &input{r: r}
	var stderr head
	exit, err := run(ctx, Command{Args: request.Args, Stdin: stdin, Stdout: out, Stderr: &stderr})
	if err != nil {
		return err
	}
	line, err := json.Marshal(Done{APIVersion: DoneVersion, ID: request.ID, Exit: exit, Stderr: stderr.text()})
	if err != nil {
		return fmt.Errorf("encoding the end of a command: %w", err)
	}
	// The line break in front ends a line that the command may have left open.
	if _, err := out.Write(append(append([]byte("\n"), line...), '\n')); err != nil {
		return fmt.Errorf("saying that a command has ended: %w", err)
	}
	// The other side may be in the middle of sending what nobody wants any more; it stops when it reads the line above.
	if _, err := io.Copy(io.Discard, stdin); err != nil {
		return err
	}
	return nil
}

// readRequest reads the next request; io.EOF when there is none.
func readRequest(r *bufio.Reader) (Request, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return Request{}, fmt.Errorf("%w: a request has more than %d bytes", ErrProtocol, MaxRequest)
	case errors.Is(err, io.EOF) && len(line) > 0:
		return Request{}, fmt.Errorf("reading a request: %w", io.ErrUnexpectedEOF)
	case errors.Is(err, io.EOF):
		return Request{}, io.EOF
	case err != nil:
		return Request{}, fmt.Errorf("reading a request: %w", err)
	}
	return parseRequest(line)
}

// input is a command's standard input. It may be read from several goroutines: a command may leave one behind that waits for more, and what is
// left is thrown away beside it.
type input struct {
	mu   sync.Mutex
	r    io.Reader
	left uint32
	err  error
}

// Read implements io.Reader; io.EOF is the end that the other side has sent.
func (i *input) Read(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(p) == 0 || i.err != nil {
		return 0, i.err
	}
	if i.left == 0 {
		if i.err = i.next(); i.err != nil {
			return 0, i.err
		}
	}
	n, err := i.r.Read(p[:min(len(p), int(i.left))])
	i.left -= uint32(n)
	if err != nil {
		i.err = cut(err)
	}
	return n, i.err
}

// next reads the length of the next chunk.
func (i *input) next() error {
	var length [lengthSize]byte
	if _, err := io.ReadFull(i.r, length[:]); err != nil {
		return cut(err)
	}
	i.left = binary.BigEndian.Uint32(length[:])
	switch {
	case i.left == 0:
		return io.EOF
	case i.left > MaxChunk:
		return fmt.Errorf("%w: a chunk of %d bytes, at most %d", ErrProtocol, i.left, MaxChunk)
	}
	return nil
}

// cut says of an end in the middle what it is.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("reading a command's input: %w", err)
}

// head keeps the beginning of what is written to it.
type head struct{ kept []byte }

// Write implements io.Writer. It never fails: what is not kept is thrown away.
func (h *head) Write(p []byte) (int, error) {
	if room := plan.MaxDetail - len(h.kept); room > 0 {
		h.kept = append(h.kept, p[:min(len(p), room)]...)
	}
	return len(p), nil
}

// text is one line of printable ASCII.
func (h *head) text() string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, strings.Join(strings.Fields(string(h.kept)), " "))
}
