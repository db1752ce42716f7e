package ssh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/sftp"

	"github.com/windowsmachine/operator/pkg/transport"
	"github.com/windowsmachine/operator/pkg/transport/ssh/sshtest"
)

const program = `C:\a.exe`

// echo copies standard input to both outputs.
func echo(e *sshtest.Exec) int {
	data, err := io.ReadAll(e.Stdin)
	if err != nil {
		return 99
	}
	_, _ = e.Stdout.Write(data)
	_, _ = e.Stderr.Write([]byte("noise"))
	return 7
}

func TestRun(t *testing.T) {
	s := sshtest.New(t, sshtest.Options{Exec: echo})
	c := dial(t, s)
	in := bytes.Repeat([]byte("plan"), 1<<18)
	var out, errs bytes.Buffer
	exit, err := c.Run(t.Context(), transport.Command{
		Path: program, Args: []string{"apply", "--json"}, Stdin: bytes.NewReader(in), Stdout: &out, Stderr: &errs,
	})
	if err != nil || exit != 7 || !bytes.Equal(out.Bytes(), in) || errs.String() != "noise" {
		t.Errorf("exit %d, %v, %d bytes, %q", exit, err, out.Len(), errs.String())
	}
	if exit, err = c.Run(t.Context(), transport.Command{Path: program}); err != nil || exit != 7 {
		t.Errorf("without streams: exit %d, %v", exit, err)
	}
	if d := cmp.Diff([]string{program + " apply --json", program}, s.Lines()); d != "" {
		t.Error(d)
	}
	if st := c.Stats(); st.Channels != 2 || st.Sent < 1<<20 || st.Received < 1<<20 {
		t.Errorf("stats %+v", st)
	}
	if _, err := c.Run(t.Context(), transport.Command{Path: "sc"}); !errors.Is(err, transport.ErrCommand) {
		t.Errorf("a bad command gave %v", err)
	}
}

func TestRunExitStatus(t *testing.T) {
	for _, tc := range []struct {
		name string
		exec func(*sshtest.Exec) int
		exit int
		want error
	}{
		{"done", func(*sshtest.Exec) int { return 0 }, 0, nil},
		{"failed", func(*sshtest.Exec) int { return 1060 }, 1060, nil},
		// STATUS_ACCESS_VIOLATION, as a program that crashed exits with.
		{"crashed", func(*sshtest.Exec) int { return 0xC0000005 }, 0xC0000005, nil},
		{"no status", func(*sshtest.Exec) int { return sshtest.NoStatus }, 0, transport.ErrDisconnected},
		{"cut", func(e *sshtest.Exec) int { e.Cut(); return 0 }, 0, transport.ErrDisconnected},
		{"cut in the middle", func(e *sshtest.Exec) int { _, _ = e.Stdout.Write([]byte("{")); e.Cut(); return 0 }, 0, transport.ErrDisconnected},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := dial(t, sshtest.New(t, sshtest.Options{Exec: tc.exec}))
			exit, err := c.Run(t.Context(), transport.Command{Path: program})
			if exit != tc.exit || !errors.Is(err, tc.want) {
				t.Errorf("exit %d, %v", exit, err)
			}
		})
	}
}

// An input that fails, or an output that nobody wants, ends the program with its own error.
func TestRunStreams(t *testing.T) {
	own := errors.New("own error")
	for _, tc := range []struct {
		name string
		cmd  transport.Command
		want error
	}{
		{"stdin fails", transport.Command{Stdin: io.MultiReader(strings.NewReader("frames"), iotest.ErrReader(own))}, own},
		{"stdout refuses", transport.Command{Stdin: strings.NewReader("x"), Stdout: failingWriter{own}}, own},
		{"stderr refuses", transport.Command{Stdin: strings.NewReader("x"), Stderr: failingWriter{own}}, own},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := dial(t, sshtest.New(t, sshtest.Options{Exec: echo}))
			tc.cmd.Path = program
			if _, err := c.Run(t.Context(), tc.cmd); !errors.Is(err, tc.want) {
				t.Errorf("got %v", err)
			}
			if _, err := c.Run(t.Context(), transport.Command{Path: program}); err != nil {
				t.Errorf("the connection is of no more use: %v", err)
			}
		})
	}
	t.Run("stdin is not wanted", func(t *testing.T) {
		c := dial(t, sshtest.New(t, sshtest.Options{Exec: func(*sshtest.Exec) int { return 5 }}))
		// An endless input, which only the end of the program ends.
		exit, err := c.Run(t.Context(), transport.Command{Path: program, Stdin: endless{}})
		if exit != 5 || err != nil {
			t.Errorf("exit %d, %v", exit, err)
		}
	})
}

type failingWriter struct{ err error }

// Write implements io.Writer.
func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }

type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestRunContext(t *testing.T) {
	for _, tc := range []struct {
		name string
		// hang is what the server does once the program runs.
		hang  func(*sshtest.Server)
		alive bool
	}{
		{"the host closes the channel", func(*sshtest.Server) {}, true},
		{"the host is silent", func(s *sshtest.Server) { s.Freeze() }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			started := make(chan struct{})
			s := sshtest.New(t, sshtest.Options{Exec: func(e *sshtest.Exec) int {
				if e.Line != program+" hang" {
					return 0
				}
				close(started)
				_, _ = io.Copy(io.Discard, e.Stdin)
				return sshtest.NoStatus
			}})
			c, err := (&Dialer{Grace: 50 * time.Millisecond}).Dial(t.Context(), s.Target())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			cause := errors.New("deadline of the verb")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-started
				tc.hang(s)
				cancel(cause)
			}()
			in, feed := io.Pipe()
			defer feed.Close()
			if _, err := c.Run(ctx, transport.Command{Path: program, Args: []string{"hang"}, Stdin: in}); !errors.Is(err, cause) {
				t.Errorf("got %v", err)
			}
			_, err = c.Run(t.Context(), transport.Command{Path: program})
			if (err == nil) != tc.alive {
				t.Errorf("afterwards: %v", err)
			}
			if !tc.alive {
				<-c.Done()
				if err := c.Err(); !errors.Is(err, transport.ErrDisconnected) || !errors.Is(err, errSilent) {
					t.Errorf("the connection ended with %v", err)
				}
			}
		})
	}
}

func TestMaxSessions(t *testing.T) {
	release := make(chan struct{})
	started := make(chan struct{})
	s := sshtest.New(t, sshtest.Options{MaxSessions: 1, Exec: func(*sshtest.Exec) int {
		close(started)
		<-release
		return 0
	}})
	c := dial(t, s)
	first := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), transport.Command{Path: program})
		first <- err
	}()
	<-started
	if _, err := c.Run(t.Context(), transport.Command{Path: program}); !errors.Is(err, transport.ErrBusy) {
		t.Errorf("one session too many gave %v", err)
	}
	if _, err := c.Put(t.Context(), program, 1, bytesOf("x")); !errors.Is(err, transport.ErrBusy) {
		t.Errorf("one session too many gave %v", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if st := c.Stats(); st.Channels != 1 {
		t.Errorf("%d channels", st.Channels)
	}
}

func bytesOf(s string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
}

func TestPut(t *testing.T) {
	s := sshtest.New(t, sshtest.Options{})
	c := dial(t, s)
	const path, remote = `C:\Windows\wmcb\0123456789abcdef\wmcb.exe`, "/C:/Windows/wmcb/0123456789abcdef/wmcb.exe"
	data := strings.Repeat("MZ agent ", 200_000)
	sent, err := c.Put(t.Context(), path, int64(len(data)), bytesOf(data))
	if err != nil || !sent {
		t.Fatal(sent, err)
	}
	if got, ok := s.Files.Read(remote); !ok || string(got) != data {
		t.Errorf("the file has %d bytes", len(got))
	}
	if s.Files.Exists(remote + partSuffix) {
		t.Error("the temporary file is left")
	}
	for _, p := range s.Files.Paths() {
		if !strings.HasPrefix(p, "/C:") || strings.Contains(p, `\`) {
			t.Errorf("asked for %q", p)
		}
	}
	never := func() (io.ReadCloser, error) { return nil, errors.New("must not be opened") }
	if sent, err := c.Put(t.Context(), path, int64(len(data)), never); err != nil || sent {
		t.Errorf("a file that is there: sent %v, %v", sent, err)
	}
	if sent, err := c.Put(t.Context(), path, 3, bytesOf("new")); err != nil || !sent {
		t.Errorf("another size: sent %v, %v", sent, err)
	}
	if got, _ := s.Files.Read(remote); string(got) != "new" {
		t.Errorf("the file holds %.20q", got)
	}
	if st := c.Stats(); st.Channels != 3 {
		t.Errorf("%d channels for three files", st.Channels)
	}
}

func TestPutErrors(t *testing.T) {
	own := errors.New("own error")
	const remote = "/C:/k/a.exe"
	for _, tc := range []struct {
		name string
		fail func(method, path string) error
		path string
		size int64
		open func() (io.ReadCloser, error)
		want error
	}{
		{"bad path", nil, `C:\..\a`, 1, bytesOf("x"), ErrPath},
		{"cannot open", nil, `C:\k\a.exe`, 1, func() (io.ReadCloser, error) { return nil, own }, own},
		{"cannot read", nil, `C:\k\a.exe`, 1, func() (io.ReadCloser, error) { return io.NopCloser(iotest.ErrReader(own)), nil }, own},
		{"less than said", nil, `C:\k\a.exe`, 5, bytesOf("abc"), ErrShort},
		{"more than said", nil, `C:\k\a.exe`, 5, bytesOf("abcdefgh"), ErrShort},
		{"no right", func(m, _ string) error {
			if m == "Put" {
				return sftp.ErrSSHFxPermissionDenied
			}
			return nil
		}, `C:\k\a.exe`, 1, bytesOf("x"), fs.ErrPermission},
		{"no drive", func(m, path string) error {
			if m == "Mkdir" && path == "/D:" {
				return os.ErrNotExist
			}
			return nil
		}, `D:\k\a.exe`, 1, bytesOf("x"), fs.ErrNotExist},
		{"target in use", func(m, _ string) error {
			if m == "PosixRename" || m == "Rename" {
				return sftp.ErrSSHFxPermissionDenied
			}
			return nil
		}, `C:\k\a.exe`, 1, bytesOf("x"), fs.ErrPermission},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := sshtest.New(t, sshtest.Options{})
			s.Files.Fail(tc.fail)
			c := dial(t, s)
			if sent, err := c.Put(t.Context(), tc.path, tc.size, tc.open); !errors.Is(err, tc.want) || sent {
				t.Errorf("sent %v, %v", sent, err)
			}
			for _, p := range []string{remote, remote + partSuffix} {
				if s.Files.Exists(p) {
					t.Errorf("%s is left", p)
				}
			}
		})
	}
}

func TestPutCut(t *testing.T) {
	s := sshtest.New(t, sshtest.Options{})
	c := dial(t, s)
	r := io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), cutReader{s}, strings.NewReader("tail"))
	_, err := c.Put(t.Context(), `C:\k\a.exe`, 1<<20+4, func() (io.ReadCloser, error) { return io.NopCloser(r), nil })
	if !errors.Is(err, transport.ErrDisconnected) {
		t.Errorf("got %v", err)
	}
	if s.Files.Exists("/C:/k/a.exe") {
		t.Error("half a file is in place")
	}
	<-c.Done()
	if err := c.Err(); !errors.Is(err, transport.ErrDisconnected) {
		t.Errorf("the connection ended with %v", err)
	}
}

type cutReader struct{ s *sshtest.Server }

// Read implements io.Reader.
func (c cutReader) Read([]byte) (int, error) {
	c.s.Cut()
	return 0, io.EOF
}

func TestPutContext(t *testing.T) {
	s := sshtest.New(t, sshtest.Options{})
	c, err := (&Dialer{Grace: 50 * time.Millisecond}).Dial(t.Context(), s.Target())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	_, err = c.Put(ctx, `C:\k\a.exe`, 1<<30, func() (io.ReadCloser, error) {
		s.Freeze()
		cancel()
		return io.NopCloser(endless{}), nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// renamer records what replace does, as a server without the extension would see it.
type renamer struct {
	posix   bool
	missing bool
	calls   []string
}

func (r *renamer) HasExtension(string) (string, bool) { return "1", r.posix }
func (r *renamer) PosixRename(from, to string) error {
	r.calls = append(r.calls, "posix "+from+" "+to)
	return nil
}

func (r *renamer) Rename(from, to string) error {
	r.calls = append(r.calls, "rename "+from+" "+to)
	return nil
}

func (r *renamer) Remove(path string) error {
	r.calls = append(r.calls, "remove "+path)
	if r.missing {
		return os.ErrNotExist
	}
	return nil
}

func TestReplace(t *testing.T) {
	for _, tc := range []struct {
		name string
		r    renamer
		want []string
	}{
		{"extension", renamer{posix: true}, []string{"posix a b"}},
		{"no extension", renamer{}, []string{"remove b", "rename a b"}},
		{"no extension and no old file", renamer{missing: true}, []string{"remove b", "rename a b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := replace(&tc.r, "a", "b"); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, tc.r.calls); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRemoveAll(t *testing.T) {
	s := sshtest.New(t, sshtest.Options{})
	c := dial(t, s)
	for _, p := range []string{`C:\Windows\wmcb\1\wmcb.exe`, `C:\Windows\wmcb\2\wmcb.exe`, `C:\Windows\other.exe`} {
		if _, err := c.Put(t.Context(), p, 1, bytesOf("x")); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := c.RemoveAll(t.Context(), `C:\Windows\wmcb`); err != nil {
			t.Fatal(err)
		}
	}
	if s.Files.Exists("/C:/Windows/wmcb") || !s.Files.Exists("/C:/Windows/other.exe") {
		t.Error("the wrong files are gone")
	}
	if err := c.RemoveAll(t.Context(), `C:\Windows\..`); !errors.Is(err, ErrPath) {
		t.Errorf("a bad path gave %v", err)
	}
	s.Files.Fail(func(m, _ string) error {
		if m == "Remove" {
			return sftp.ErrSSHFxPermissionDenied
		}
		return nil
	})
	if err := c.RemoveAll(t.Context(), `C:\Windows\other.exe`); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file in use gave %v", err)
	}
}

// endlessFolder lists the same file for ever.
type endlessFolder struct{ info fs.FileInfo }

// ListAt implements sftp.ListerAt.
func (e endlessFolder) ListAt(out []os.FileInfo, _ int64) (int, error) {
	for i := range out {
		out[i] = e.info
	}
	return len(out), nil
}

// A machine that lists a folder without end is cut off at maxReplies, and the connection serves on.
func TestRemoveAllOfAnEndlessFolder(t *testing.T) {
	s := sshtest.New(t, sshtest.Options{})
	c := dial(t, s)
	if _, err := c.Put(t.Context(), `C:\Windows\wmcb\wmcb.exe`, 1, bytesOf("x")); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), strings.Repeat("x", 200))
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	s.Files.List(endlessFolder{info})
	before := c.Stats().Received
	if err := c.RemoveAll(t.Context(), `C:\Windows\wmcb`); !errors.Is(err, ErrFlood) || errors.Is(err, transport.ErrDisconnected) {
		t.Errorf("got %v", err)
	}
	// What is under way in the channel's window comes on top.
	if n := c.Stats().Received - before; n < maxReplies || n > 2*maxReplies {
		t.Errorf("%d bytes were taken", n)
	}
	if exit, err := c.Run(t.Context(), transport.Command{Path: program}); exit != 0 || err != nil {
		t.Errorf("the connection is of no more use: %d, %v", exit, err)
	}
}

func TestReplies(t *testing.T) {
	for size, want := range map[int64]error{9: nil, 10: ErrFlood, 11: ErrFlood} {
		r := &replies{r: strings.NewReader(strings.Repeat("x", int(size))), left: 10}
		got, err := io.ReadAll(r)
		if !errors.Is(err, want) || int64(len(got)) != min(size, 10) || r.flood.Load() != (want != nil) {
			t.Errorf("%d bytes: %d, %v", size, len(got), err)
		}
	}
}

func TestSilence(t *testing.T) {
	var s silence
	for i, step := range []struct {
		received int64
		lost     bool
	}{{10, false}, {10, false}, {10, false}, {11, false}, {11, false}, {11, false}, {11, true}} {
		if got := s.tick(step.received); got != step.lost {
			t.Fatalf("tick %d: lost %v", i, got)
		}
	}
}

func TestKeepalive(t *testing.T) {
	s := sshtest.New(t, sshtest.Options{})
	ticks := make(chan time.Time)
	stopped := make(chan struct{})
	d := &Dialer{ticks: func(period time.Duration) (<-chan time.Time, func()) {
		if period != 15*time.Second {
			t.Errorf("asks every %s", period)
		}
		return ticks, func() { close(stopped) }
	}}
	c, err := d.Dial(t.Context(), s.Target())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// An idle connection lives for more than three periods, since the machine answers.
	for range 2 * maxMissed {
		before := c.Stats().Received
		ticks <- time.Time{}
		eventually(t, "questions without an answer", func() bool { return c.Stats().Received > before })
	}
	s.Freeze()
	periods := 0
	for alive := true; alive; {
		select {
		case ticks <- time.Time{}:
			periods++
		case <-c.Done():
			alive = false
		}
	}
	// One answer may still have been on its way.
	if periods < maxMissed || periods > maxMissed+2 {
		t.Errorf("given up after %d periods", periods)
	}
	if err := c.Err(); !errors.Is(err, transport.ErrDisconnected) || !errors.Is(err, errSilent) {
		t.Errorf("a silent machine gave %v", err)
	}
	<-stopped
}

func TestLostError(t *testing.T) {
	own := errors.New("own error")
	for _, tc := range []struct{ cause, err, want error }{
		{errClosed, io.EOF, nil},
		{errSilent, io.EOF, errSilent},
		{nil, own, own},
		{nil, nil, transport.ErrDisconnected},
	} {
		got := lostError(tc.cause, tc.err)
		if !errors.Is(got, tc.want) || (got != nil && !errors.Is(got, transport.ErrDisconnected)) {
			t.Errorf("%v and %v give %v", tc.cause, tc.err, got)
		}
	}
}

// Whatever goes wrong, no connection and no goroutine is left.
func TestW43NothingLeaks(t *testing.T) {
	s := sshtest.New(t, sshtest.Options{NoSFTP: true, MaxSessions: 10, Exec: func(e *sshtest.Exec) int {
		_, _ = io.Copy(io.Discard, e.Stdin)
		return 0
	}})
	before := runtime.NumGoroutine()
	wrong := s.Target()
	wrong.PrivateKeys = [][]byte{newKey(t)}
	untrusted := s.Target()
	untrusted.Verify = func(transport.HostKey) error { return errors.New("no") }
	for range 20 {
		for _, target := range []transport.Target{wrong, untrusted} {
			if _, err := (&Dialer{}).Dial(t.Context(), target); err == nil {
				t.Fatal("connected")
			}
		}
		c, err := (&Dialer{}).Dial(t.Context(), s.Target())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Put(t.Context(), program, 1, bytesOf("x")); !errors.Is(err, transport.ErrBusy) {
			t.Errorf("a refused subsystem gave %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		in, feed := io.Pipe()
		if _, err := c.Run(ctx, transport.Command{Path: program, Stdin: in}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a program that does not end gave %v", err)
		}
		feed.Close()
		cancel()
		closeConn(t, c)
	}
	eventually(t, "connections", func() bool { return s.Open() == 0 })
	eventually(t, "goroutines", func() bool { return runtime.NumGoroutine() <= before })
	if got := s.Accepted(); got != 60 {
		t.Errorf("%d connections for 60 calls", got)
	}
}

// eventually yields until ok, and gives up after a while.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s are left", what)
		}
		runtime.Gosched()
	}
}
