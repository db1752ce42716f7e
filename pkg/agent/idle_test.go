package agent

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

// TestReceiveSilentSender: the operator's node loses its power in the middle of an upload, and nothing closes the stream. The lock is free after
// idleLimit, what arrived whole is kept, and the next upload goes on there.
func TestReceiveSilentSender(t *testing.T) {
	s := newSender(t, "MZ kubelet", strings.Repeat("x", 1000))
	whole := s.stream(t, s.digests())
	for _, tc := range []struct{ cut, stored int }{{0, 0}, {5, 0}, {len(whole) - 10, 1}} {
		withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
			in, operator := io.Pipe()
			defer operator.Close()
			go func() { _, _ = operator.Write(whole[:tc.cut]) }()
			var out bytes.Buffer
			begin := time.Now()
			err := r.a.Receive(t.Context(), in, &out)
			r.wants(err, errCut)
			if took := time.Since(begin); took < idleLimit || took > idleLimit+time.Second {
				t.Errorf("cut at %d: gave up after %s", tc.cut, took)
			}
			_, res := answers(t, out.Bytes())
			if res.Code != CodeTransferInvalid || len(res.Stored) != tc.stored {
				t.Errorf("cut at %d: result %+v", tc.cut, res)
			}
			rest := s.digests()[len(res.Stored):]
			need, res, err := r.receive(s.stream(t, rest))
			r.must(err)
			if !slices.Equal(need.Need, rest) || !slices.Equal(res.Stored, rest) {
				t.Errorf("cut at %d: need %v, result %+v", tc.cut, need, res)
			}
		})
	}
}

// TestReceiveSlowSender: a sender that is slow but not silent takes as long as it takes.
func TestReceiveSlowSender(t *testing.T) {
	s := newSender(t, "MZ kubelet", strings.Repeat("x", 1000))
	whole := s.stream(t, s.digests())
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		in, operator := io.Pipe()
		go func() {
			for b := range slices.Chunk(whole, 20) {
				_ = fake.RealClock{}.Sleep(t.Context(), idleLimit-time.Second)
				_, _ = operator.Write(b)
			}
			_ = operator.Close()
		}()
		var out bytes.Buffer
		r.must(r.a.Receive(t.Context(), in, &out))
		if _, res := answers(t, out.Bytes()); !slices.Equal(res.Stored, s.digests()) {
			t.Errorf("result %+v", res)
		}
	})
}

// TestIdleReader gives all bytes in order, then the error, and counts only its own waiting.
func TestIdleReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := make([]byte, 3*pumpSize+17)
		for i := range want {
			want[i] = byte(i % 251)
		}
		broken := errors.New("broken")
		in := io.MultiReader(iotest.OneByteReader(bytes.NewReader(want[:10])), bytes.NewReader(want[10:]), iotest.ErrReader(broken))
		r := newIdleReader(t.Context(), fake.RealClock{}, in)
		var got []byte
		buf := make([]byte, 1000)
		var err error
		for err == nil {
			var n int
			n, err = r.Read(buf)
			got = append(got, buf[:n]...)
			// A disk that is slow is no silent sender.
			_ = fake.RealClock{}.Sleep(t.Context(), 2*idleLimit)
		}
		if !bytes.Equal(got, want) || !errors.Is(err, broken) {
			t.Errorf("%d bytes, want %d, or other ones; error %v", len(got), len(want), err)
		}
		if _, err := r.Read(buf); !errors.Is(err, broken) {
			t.Errorf("read again: %v", err)
		}
	})
}
