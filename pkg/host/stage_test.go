package host

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/transport"
)

// receiver is the agent's side of `wmcb receive`.
type receiver struct {
	mu   sync.Mutex
	have map[string]string
	// offers are what was offered, run by run; claims are whose those were.
	offers [][]string
	claims []plan.Claim
	// stored are what was stored, run by run.
	stored [][]string
	// noise is printed before each answer.
	noise string
}

func (r *receiver) run(_ context.Context, c transport.Command) (int, error) {
	in := bufio.NewReader(c.Stdin)
	offer, err := payload.ReadOffer(in)
	if err != nil {
		return 0, err
	}
	need := payload.Need{Need: []string{}}
	r.mu.Lock()
	var offered []string
	for _, b := range offer.Blobs {
		offered = append(offered, b.SHA256)
		if _, ok := r.have[b.SHA256]; !ok {
			need.Need = append(need.Need, b.SHA256)
		}
	}
	r.offers = append(r.offers, offered)
	r.claims = append(r.claims, plan.Claim{Host: offer.Host, Order: offer.Order})
	r.stored = append(r.stored, nil)
	r.mu.Unlock()
	if err := r.answer(c.Stdout, need); err != nil {
		return 0, err
	}
	if err := payload.ReadFrames(in, payload.DefaultLimits(), r.put); err != nil {
		return 1, r.answer(c.Stdout, payload.Result{Code: "ReceiveFailed", Detail: err.Error()})
	}
	return 0, r.answer(c.Stdout, payload.Result{Stored: need.Need})
}

func (r *receiver) answer(w io.Writer, message any) error {
	if _, err := io.WriteString(w, r.noise); err != nil {
		return err
	}
	return payload.WriteMessage(w, message)
}

func (r *receiver) put(b payload.Incoming, in io.Reader) error {
	data, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.have == nil {
		r.have = map[string]string{}
	}
	r.have[b.Digest] += string(data)
	last := len(r.stored) - 1
	r.stored[last] = append(r.stored[last], b.Digest)
	return nil
}

// stageArgs are for staging these contents.
func stageArgs(contents ...string) Args {
	a := args()
	for _, c := range contents {
		a.Blobs = append(a.Blobs, digestOf(c))
	}
	return a
}

// TestStageThatComesFurther: a transfer that is cut again and again, and comes further each time, is tried as soon as after the first time; one that
// does not come further has to wait longer and longer.
func TestStageThatComesFurther(t *testing.T) {
	a, b, c := strings.Repeat("kubelet", 1000), strings.Repeat("containerd", 2000), strings.Repeat("ctr", 500)
	synctest.Test(t, func(t *testing.T) {
		s := store(t, a, b, c)
		r := &receiver{}
		moves := true
		m := &machine{}
		m.run = func(ctx context.Context, k transport.Command) (int, error) {
			in := bufio.NewReader(k.Stdin)
			offer, err := payload.ReadOffer(in)
			if err != nil {
				return 0, err
			}
			need := payload.Need{Need: []string{}}
			for _, blob := range offer.Blobs {
				if _, ok := r.have[blob.SHA256]; !ok {
					need.Need = append(need.Need, blob.SHA256)
				}
			}
			if err := r.answer(k.Stdout, need); err != nil {
				return 0, err
			}
			// One blob arrives, then the line is cut.
			_ = payload.ReadFrames(in, payload.DefaultLimits(), func(b payload.Incoming, in io.Reader) error {
				data, err := io.ReadAll(in)
				if err == nil && moves {
					r.have[b.Digest] = string(data)
				}
				return errors.Join(err, io.ErrUnexpectedEOF)
			})
			return 0, transport.ErrDisconnected
		}
		r.have = map[string]string{}
		m.put(agentPath(), agentText)
		h := newHarness(t, m, func(cfg *Config) { cfg.Store = s })
		for i, want := range []int{1, 1, 1} {
			if got := h.do(t, VerbStage, stageArgs(a, b, c)).Last[VerbStage]; !errors.Is(got.Err, transport.ErrDisconnected) || got.Failures != want {
				t.Errorf("transfer %d, which comes further: %v, %d failures in a row, want %d", i+1, got.Err, got.Failures, want)
			}
		}
		r.have, moves = map[string]string{}, false
		h.session.Disconnect()
		for i, want := range []int{2, 3, 4} {
			if got := h.do(t, VerbStage, stageArgs(a, b, c)).Last[VerbStage]; got.Failures != want {
				t.Errorf("transfer %d, which stays where it is: %d failures in a row, want %d", i+1, got.Failures, want)
			}
		}
	})
}

func TestStage(t *testing.T) {
	a, b, c := strings.Repeat("kubelet", 1000), strings.Repeat("containerd", 2000), "ctr"
	synctest.Test(t, func(t *testing.T) {
		s := store(t, a, b, c)
		r := &receiver{noise: "#< CLIXML\n{}\n{\"code\":\"\"}\n", have: map[string]string{digestOf(c): c}}
		m := &machine{run: r.run}
		m.put(agentPath(), agentText)
		h := newHarness(t, m, func(cfg *Config) { cfg.Store = s })
		claimed := stageArgs(a, b, c)
		claimed.Claim = plan.Claim{Host: "uid", Order: 7}
		got := h.do(t, VerbStage, claimed)
		if err := got.Last[VerbStage].Err; err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]plan.Claim{claimed.Claim}, r.claims); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([][]string{{digestOf(a), digestOf(b)}}, r.stored); d != "" {
			t.Error(d)
		}
		var size int64
		for _, text := range []string{a, b} {
			blob, _ := s.Blob(digestOf(text))
			size += blob.CompressedSize
		}
		if got.Sent != size || got.ToSend != size || got.Stats.Channels != 1 {
			t.Errorf("sent %d of %d bytes, should be %d; %d channels", got.Sent, got.ToSend, size, got.Stats.Channels)
		}
		// Nothing is sent twice.
		got = h.do(t, VerbStage, stageArgs(a, b, c))
		if err := got.Last[VerbStage].Err; err != nil || got.ToSend != 0 || len(r.stored[1]) != 0 {
			t.Errorf("%v, %d bytes to send", err, got.ToSend)
		}
		if d := cmp.Diff(agentPath()+" receive", m.lines[0]); d != "" {
			t.Error(d)
		}
		// Nothing to stage costs nothing.
		if got := h.do(t, VerbStage, args()); got.Last[VerbStage].Err != nil || got.Stats.Channels != 1 || len(m.lines) != 2 {
			t.Errorf("got %+v", got)
		}
	})
}

// A connection that is cut in the middle of the second blob keeps the first; the next try sends the rest.
func TestStageResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := strings.Repeat("first", 1000), strings.Repeat("second", 1000)
		s := store(t, a, b)
		r := &receiver{}
		m := &machine{}
		first, _ := s.Blob(digestOf(a))
		cutAt := first.CompressedSize + 80
		m.run = func(ctx context.Context, c transport.Command) (int, error) {
			if len(r.offers) == 0 {
				c.Stdin = &cutAfter{r: c.Stdin, m: m, left: cutAt}
				_, _ = r.run(ctx, c)
				return 0, transport.ErrDisconnected
			}
			return r.run(ctx, c)
		}
		m.put(agentPath(), agentText)
		h := newHarness(t, m, func(cfg *Config) { cfg.Store = s })
		got := h.do(t, VerbStage, stageArgs(a, b))
		if err := got.Last[VerbStage].Err; !errors.Is(err, transport.ErrDisconnected) || got.Connected {
			t.Errorf("got %v", err)
		}
		got = h.do(t, VerbStage, stageArgs(a, b))
		if err := got.Last[VerbStage].Err; err != nil {
			t.Error(err)
		}
		if d := cmp.Diff([][]string{{digestOf(a)}, {digestOf(b)}}, r.stored); d != "" {
			t.Error(d)
		}
	})
}

// cutAfter ends the connection after so many bytes behind the first line.
type cutAfter struct {
	r    io.Reader
	m    *machine
	left int64
	line bool
}

// Read implements io.Reader.
func (c *cutAfter) Read(p []byte) (int, error) {
	if !c.line {
		n, err := c.r.Read(p[:1])
		c.line = n == 1 && p[0] == '\n'
		return n, err
	}
	if c.left == 0 {
		c.m.cut()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

func TestStageRefusals(t *testing.T) {
	const blob = "blob"
	needs := `{"need":["` + digestOf(blob) + `"]}`
	for _, tc := range []struct {
		name string
		run  func(context.Context, transport.Command) (int, error)
		code string
		err  error
	}{
		{"at once", says(1, `{"code":"DiskFull","detail":"12 bytes free"}`), "DiskFull", nil},
		{"after the need", says(1, needs, `{"code":"DiskFull","detail":"12 bytes free"}`), "DiskFull", nil},
		{"busy", says(5, `{"code":"Busy"}`), "Busy", nil},
		{"busy without a word behind the need", says(5, needs), CodeAgentBusy, nil},
		{"no result", says(0, needs), CodeAgentFailed, nil},
		{"result with a bad exit code", says(1, needs, `{"stored":[]}`), CodeAgentFailed, nil},
		{"no answer", says(9009), CodeAgentSilent, nil},
		{"a code that is none", says(1, `{"code":"a b"}`), CodeAgentFailed, nil},
		{"needs what was not offered", func(ctx context.Context, c transport.Command) (int, error) {
			if _, err := io.WriteString(c.Stdout, `{"need":["`+digestOf("shadow")+`"]}`+"\n"); err != nil {
				return 0, err
			}
			// The operator closes the input with an error, which a transport returns.
			_, err := io.Copy(io.Discard, c.Stdin)
			return 0, err
		}, "", payload.ErrMessage},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := store(t, blob)
				m := &machine{run: tc.run}
				m.put(agentPath(), agentText)
				got := newHarness(t, m, func(cfg *Config) { cfg.Store = s }).do(t, VerbStage, stageArgs(blob))
				if tc.err != nil {
					if !errors.Is(got.Last[VerbStage].Err, tc.err) {
						t.Errorf("got %v", got.Last[VerbStage].Err)
					}
					return
				}
				checkRefusal(t, got.Last[VerbStage].Err, tc.code)
			})
		})
	}
}

// What was staged is known to be there, without asking for facts again; a snapshot from before is not changed.
func TestStageAddsToFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t, "one", "two")
		r := &receiver{}
		m := &machine{run: func(ctx context.Context, c transport.Command) (int, error) {
			if c.Args[0] == "facts" {
				return says(0, line(t, facts(func(f *plan.HostFacts) { f.HaveBlobs = []string{digestOf("one")} })))(ctx, c)
			}
			return r.run(ctx, c)
		}}
		h := newHarness(t, m, func(cfg *Config) { cfg.Store = s })
		before := h.do(t, VerbFacts, args())
		after := h.do(t, VerbStage, stageArgs("two"))
		if d := cmp.Diff([]string{digestOf("one"), digestOf("two")}, after.Facts.HaveBlobs); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]string{digestOf("one")}, before.Facts.HaveBlobs); d != "" {
			t.Error(d)
		}
	})
}

func TestStageOwnErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s, err := payload.Pack(dir, []payload.Source{{
			Name: "a.exe", Version: "v1", Licence: "MIT", Origin: "test",
			Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("blob")), nil },
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := &receiver{}
		m := &machine{run: func(ctx context.Context, c transport.Command) (int, error) {
			in := &noted{r: c.Stdin}
			c.Stdin = in
			exit, err := r.run(ctx, c)
			if in.err != nil {
				return 0, in.err
			}
			return exit, err
		}}
		m.put(agentPath(), agentText)
		h := newHarness(t, m, func(cfg *Config) { cfg.Store = s })
		if got := h.do(t, VerbStage, stageArgs("unknown")); !errors.Is(got.Last[VerbStage].Err, payload.ErrUnknownBlob) {
			t.Errorf("an unknown blob gave %v", got.Last[VerbStage].Err)
		}
		if got := h.do(t, VerbStage, stageArgs("blob", "blob")); !errors.Is(got.Last[VerbStage].Err, payload.ErrMessage) {
			t.Errorf("a blob twice gave %v", got.Last[VerbStage].Err)
		}
		if err := os.Remove(filepath.Join(dir, digestOf("blob")+".zst")); err != nil {
			t.Fatal(err)
		}
		if got := h.do(t, VerbStage, stageArgs("blob")); !errors.Is(got.Last[VerbStage].Err, os.ErrNotExist) {
			t.Errorf("a lost file gave %v", got.Last[VerbStage].Err)
		}
	})
}

// noted keeps the error of a reader, as the transport does that reports it.
type noted struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (n *noted) Read(p []byte) (int, error) {
	k, err := n.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		n.err = err
	}
	return k, err
}
