package console

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/plan"
)

const (
	// RequestVersion is the apiVersion of a Request.
	RequestVersion = "request.windowsmachine.dev/v1"
	// DoneVersion is the apiVersion of a Done.
	DoneVersion = "done.windowsmachine.dev/v1"
	// MaxRequest bounds the line of a Request, in bytes.
	MaxRequest = 4 << 10
	// MaxChunk bounds a chunk of input, in bytes: with its length it fills one packet of an SSH channel (RFC 4253 6.1: 32768 bytes).
	MaxChunk = 32<<10 - lengthSize

	lengthSize = 4
)

// ErrProtocol: what came is not what this package describes.
var ErrProtocol = fmt.Errorf("not a command for wmcb serve: %w", plan.ErrMalformed)

// Request asks for a command.
type Request struct {
	APIVersion string `json:"apiVersion"`
	// ID is repeated by the Done of the command.
	ID   int64    `json:"id"`
	Args []string `json:"args"`
}

// Done is the end of a command.
type Done struct {
	APIVersion string `json:"apiVersion"`
	// ID is that of the Request.
	ID int64 `json:"id"`
	// Exit is its exit code.
	Exit int `json:"exit"`
	// Stderr is the beginning of what it said on standard error, at most plan.MaxDetail bytes of printable ASCII in one line.
	Stderr string `json:"stderr,omitempty"`
}

// Send asks for a command under a number of the caller's and gives it stdin, nil for an empty input. An error wraps *InputError when it was stdin that failed; then the
// command must not take what it got for all.
func Send(w io.Writer, id int64, args []string, stdin io.Reader) error {
	line, err := json.Marshal(Request{APIVersion: RequestVersion, ID: id, Args: args})
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	if len(line) >= MaxRequest {
		return fmt.Errorf("%w: %d bytes of arguments are too long", ErrProtocol, len(line))
	}
	// What is short travels in one piece.
	buf := make([]byte, lengthSize+MaxChunk)
	pending := append(line, '\n')
	for stdin != nil {
		n, err := readChunk(stdin, buf[lengthSize:])
		if n > 0 {
			binary.BigEndian.PutUint32(buf, uint32(n))
			pending = append(pending, buf[:lengthSize+n]...)
			if _, err := w.Write(pending); err != nil {
				return fmt.Errorf("sending a command: %w", err)
			}
			pending = pending[:0]
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return &InputError{Err: err}
		}
	}
	if _, err := w.Write(append(pending, make([]byte, lengthSize)...)); err != nil {
		return fmt.Errorf("sending a command: %w", err)
	}
	return nil
}

// readChunk reads what is there, up to the whole buffer: it does not wait for more than one byte, since the other side may answer to what
// came so far.
func readChunk(r io.Reader, buf []byte) (int, error) {
	for {
		n, err := r.Read(buf)
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// InputError is a standard input that could not be read.
type InputError struct{ Err error }

// Error implements error.
func (e *InputError) Error() string { return "reading standard input: " + e.Err.Error() }

// Unwrap returns the reader's error.
func (e *InputError) Unwrap() error { return e.Err }

// ParseDone reads a line of the program's output; ok is false for every other line. Its texts are as the machine sent them.
func ParseDone(line []byte) (d Done, ok bool) {
	if !bytes.Contains(line[:min(len(line), 2*len(DoneVersion))], []byte(DoneVersion)) {
		return Done{}, false
	}
	if err := json.Unmarshal(line, &d); err != nil || d.APIVersion != DoneVersion {
		return Done{}, false
	}
	return d, true
}

// parseRequest reads the line of a request.
func parseRequest(line []byte) (Request, error) {
	var r Request
	if err := json.Unmarshal(line, &r); err != nil {
		return Request{}, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	switch {
	case r.APIVersion != RequestVersion:
		return Request{}, fmt.Errorf("%w: apiVersion %.64q, want %s", ErrProtocol, r.APIVersion, RequestVersion)
	case len(r.Args) == 0 || len(r.Args) > plan.MaxItems:
		return Request{}, fmt.Errorf("%w: %d arguments", ErrProtocol, len(r.Args))
	case !slices.Contains(commands(), r.Args[0]):
		return Request{}, fmt.Errorf("%w: %.64q is none of %s", ErrProtocol, r.Args[0], strings.Join(commands(), ", "))
	}
	return r, nil
}

// commands are those that the operator has a use for.
func commands() []string { return []string{"facts", "receive", "apply", "status", "remove", "version"} }
