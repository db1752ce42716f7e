package console

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/plan"
)

// golden reads a conversation: one line a piece, ">" to the program and "<" from it; four bytes in hexadecimal before each chunk.
func golden(t *testing.T) (to, from string) {
	t.Helper()
	b, err := os.ReadFile("testdata/conversation.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		side, text, _ := strings.Cut(l, " ")
		text = strings.ReplaceAll(text, `\n`, "\n")
		if side == "<" {
			from += text
			continue
		}
		if length, rest, _ := strings.Cut(text, " "); len(length) == 8 {
			raw, err := hex.DecodeString(length)
			if err != nil {
				t.Fatal(err)
			}
			text = string(raw) + rest
		}
		to += text
	}
	return to, from
}

// TestGolden: the conversation of docs/formats.md, byte for byte, from both sides.
func TestGolden(t *testing.T) {
	to, from := golden(t)
	var sent bytes.Buffer
	if err := errors.Join(Send(&sent, 1, []string{"facts", "--json"}, strings.NewReader("{}")), Send(&sent, 2, []string{"status", "--json"}, nil)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(to, sent.String()); d != "" {
		t.Errorf("sent: -golden +got:\n%s", d)
	}
	var answered bytes.Buffer
	err := Serve(t.Context(), strings.NewReader(to), &answered, func(_ context.Context, c Command) (int, error) {
		if c.Args[0] == "status" {
			_, err := io.WriteString(c.Stderr, "access is\r\n denied\n")
			return 1, err
		}
		in, err := io.ReadAll(c.Stdin)
		if string(in) != "{}" || err != nil {
			t.Errorf("read %q, %v", in, err)
		}
		_, err = io.WriteString(c.Stdout, `{"apiVersion":"facts.windowsmachine.dev/v1"}`+"\n")
		return 0, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(from, answered.String()); d != "" {
		t.Errorf("answered: -golden +got:\n%s", d)
	}
	lines := strings.Split(from, "\n")
	for line, want := range map[string]*Done{
		lines[2]:                  {APIVersion: DoneVersion, ID: 1},
		lines[4]:                  {APIVersion: DoneVersion, ID: 2, Exit: 1, Stderr: "access is denied"},
		lines[0]:                  nil,
		`{"code":"Busy"}`:         nil,
		`{"apiVersion":"done.win`: nil,
		"":                        nil,
	} {
		got, ok := ParseDone([]byte(line))
		if ok != (want != nil) || ok && got != *want {
			t.Errorf("%q: %+v, %v", line, got, ok)
		}
	}
}

// TestInputOfAnySize: every byte arrives, in packets that an SSH channel carries whole.
func TestInputOfAnySize(t *testing.T) {
	for _, size := range []int{0, 1, MaxChunk - 1, MaxChunk, MaxChunk + 1, 3*MaxChunk + 7} {
		want := bytes.Repeat([]byte("windows"), size/7+1)[:size]
		wire := &writes{}
		if err := Send(wire, 7, []string{"receive"}, bytes.NewReader(want)); err != nil {
			t.Fatal(err)
		}
		for _, n := range wire.sizes[min(1, len(wire.sizes)):] {
			if n > MaxChunk+lengthSize {
				t.Errorf("%d bytes in one write", n)
			}
		}
		var got []byte
		if err := Serve(t.Context(), &wire.Buffer, io.Discard, func(_ context.Context, c Command) (exit int, err error) {
			got, err = io.ReadAll(c.Stdin)
			return 0, err
		}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes arrived as %d", size, len(got))
		}
	}
}

type writes struct {
	bytes.Buffer
	sizes []int
}

func (w *writes) Write(p []byte) (int, error) {
	w.sizes = append(w.sizes, len(p))
	return w.Buffer.Write(p)
}

// TestUnreadInput: what a command leaves unread is not taken for the next request, even when the command has left a reader behind.
func TestUnreadInput(t *testing.T) {
	var in bytes.Buffer
	big := strings.Repeat(`{"apiVersion":"request.windowsmachine.dev/v1","args":["remove"]}`+"\n", 5000)
	for range 3 {
		if err := Send(&in, 7, []string{"receive"}, strings.NewReader(big)); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	left := make(chan error, 3)
	if err := Serve(t.Context(), &in, io.Discard, func(_ context.Context, c Command) (int, error) {
		ran++
		if c.Args[0] != "receive" {
			t.Errorf("ran %q", c.Args)
		}
		go func() {
			_, err := io.Copy(io.Discard, c.Stdin)
			left <- err
		}()
		return 0, nil
	}); err != nil || ran != 3 {
		t.Errorf("%v after %d commands", err, ran)
	}
	for range 3 {
		if err := <-left; err != nil {
			t.Error(err)
		}
	}
}

func TestServeRefuses(t *testing.T) {
	request := func(args string) string {
		return `{"apiVersion":"request.windowsmachine.dev/v1","args":[` + args + `]}` + "\n"
	}
	for name, row := range map[string]struct {
		in  string
		err error
		ran int
	}{
		"nothing":           {"", nil, 0},
		"no JSON":           {"facts\n", ErrProtocol, 0},
		"another version":   {`{"apiVersion":"request.windowsmachine.dev/v2","args":["facts"]}` + "\n", ErrProtocol, 0},
		"no arguments":      {request(""), ErrProtocol, 0},
		"itself":            {request(`"serve"`), ErrProtocol, 0},
		"the service":       {request(`"service"`), ErrProtocol, 0},
		"a flag first":      {request(`"--json","facts"`), ErrProtocol, 0},
		"a line cut":        {strings.TrimSpace(request(`"facts"`)), io.ErrUnexpectedEOF, 0},
		"a line too long":   {request(`"facts","` + strings.Repeat("x", MaxRequest) + `"`), ErrProtocol, 0},
		"an input cut":      {request(`"facts"`) + "\x00\x00\x00\x05abc", io.ErrUnexpectedEOF, 1},
		"no end":            {request(`"facts"`), io.ErrUnexpectedEOF, 1},
		"a chunk too large": {request(`"facts"`) + "\x00\x00\x7f\xfdabc", ErrProtocol, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ran := 0
			err := Serve(t.Context(), strings.NewReader(row.in), io.Discard, func(context.Context, Command) (int, error) {
				ran++
				return 0, nil
			})
			if !errors.Is(err, row.err) || (err == nil) != (row.err == nil) || ran != row.ran {
				t.Errorf("%v, %d commands ran", err, ran)
			}
			if errors.Is(row.err, ErrProtocol) && !errors.Is(err, plan.ErrMalformed) {
				t.Errorf("%v is no usage error", err)
			}
		})
	}
}

// TestSendFails: an input that cannot be read is told apart from a program that is gone, and is not ended as if it were whole.
func TestSendFails(t *testing.T) {
	broken := errors.New("broken")
	var out bytes.Buffer
	err := Send(&out, 7, []string{"apply"}, io.MultiReader(strings.NewReader("half"), failing{broken}))
	var bad *InputError
	if !errors.As(err, &bad) || !errors.Is(err, broken) || bytes.HasSuffix(out.Bytes(), make([]byte, lengthSize)) {
		t.Errorf("%v, sent %q", err, out.Bytes())
	}
	if err := Send(failing{broken}, 7, []string{"apply"}, nil); !errors.Is(err, broken) || errors.As(err, &bad) {
		t.Errorf("a program that is gone: %v", err)
	}
	if err := Send(&out, 7, []string{strings.Repeat("x", MaxRequest)}, nil); !errors.Is(err, ErrProtocol) {
		t.Errorf("arguments that are too long: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

// FuzzServe: whatever comes, nothing but the operator's commands is run, and a command never reads past its input.
func FuzzServe(f *testing.F) {
	to, _ := os.ReadFile("testdata/conversation.txt")
	f.Add(to)
	var whole bytes.Buffer
	if err := errors.Join(Send(&whole, 7, []string{"facts", "--json"}, strings.NewReader("{}")), Send(&whole, 7, []string{"status"}, nil)); err != nil {
		f.Fatal(err)
	}
	f.Add(whole.Bytes())
	f.Fuzz(func(t *testing.T, in []byte) {
		read := 0
		_ = Serve(t.Context(), bytes.NewReader(in), io.Discard, func(_ context.Context, c Command) (int, error) {
			switch c.Args[0] {
			case "facts", "receive", "apply", "status", "remove", "version":
			default:
				t.Errorf("ran %q", c.Args)
			}
			n, _ := io.Copy(io.Discard, c.Stdin)
			read += int(n)
			return 0, nil
		})
		if read > len(in) {
			t.Errorf("%d bytes of %d were read", read, len(in))
		}
	})
}
