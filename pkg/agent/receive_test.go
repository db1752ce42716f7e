package agent

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/pkg/plan"
)

// sender is the operator's side of the receive protocol.
type sender struct {
	store *payload.Store
	offer payload.Offer
}

func newSender(t *testing.T, contents ...string) *sender {
	t.Helper()
	var sources []payload.Source
	s := &sender{}
	for i, c := range contents {
		sources = append(sources, payload.Source{
			Name: fmt.Sprintf("blob-%d.exe", i), Version: "v1", Licence: "Apache-2.0", Origin: "https://example.test/",
			Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(c)), nil },
		})
		s.offer.Blobs = append(s.offer.Blobs, payload.OfferedBlob{SHA256: disk.Sum([]byte(c)), Size: int64(len(c))})
	}
	var err error
	if s.store, err = payload.Pack(t.TempDir(), sources); err != nil {
		t.Fatal(err)
	}
	return s
}

// stream returns what the sender writes when the digests are needed.
func (s *sender) stream(t *testing.T, digests []string) []byte {
	t.Helper()
	return s.answer(t, payload.Need{Need: digests})
}

// answer returns what the sender writes when that is needed.
func (s *sender) answer(t *testing.T, need payload.Need) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := payload.WriteMessage(&b, s.offer); err != nil {
		t.Fatal(err)
	}
	if err := payload.WriteFrames(&b, s.store, need, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (s *sender) digests() []string {
	var out []string
	for _, b := range s.offer.Blobs {
		out = append(out, b.SHA256)
	}
	return out
}

// answers reads the lines of a receive.
func answers(t *testing.T, b []byte) (payload.Need, payload.Result) {
	t.Helper()
	var need payload.Need
	var res payload.Result
	sc := bufio.NewScanner(bytes.NewReader(b))
	for sc.Scan() {
		n, r, ok := payload.ParseAnswer(sc.Bytes())
		switch {
		case !ok:
			t.Fatalf("line %q", sc.Bytes())
		case n != nil:
			need = *n
		default:
			res = *r
		}
	}
	return need, res
}

func (r *rig) receive(in []byte) (payload.Need, payload.Result, error) {
	r.t.Helper()
	return r.receiveFrom(bytes.NewReader(in))
}

func (r *rig) receiveFrom(in io.Reader) (payload.Need, payload.Result, error) {
	r.t.Helper()
	var out bytes.Buffer
	err := r.a.Receive(r.t.Context(), in, &out)
	need, res := answers(r.t, out.Bytes())
	return need, res, err
}

func TestReceive(t *testing.T) {
	s := newSender(t, "MZ kubelet", "MZ containerd", strings.Repeat("x", 300<<10))
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		need, res, err := r.receive(s.stream(t, s.digests()))
		r.must(err)
		if !slices.Equal(need.Need, s.digests()) || !slices.Equal(res.Stored, s.digests()) || res.Code != "" {
			t.Errorf("need %v, result %+v", need, res)
		}
		// Offered again, nothing is needed, and nothing but the offer is read.
		var offer bytes.Buffer
		r.must(payload.WriteMessage(&offer, s.offer))
		need, res, err = r.receive(offer.Bytes())
		r.must(err)
		if len(need.Need) > 0 || len(res.Stored) > 0 || need.Need == nil || res.Stored == nil {
			t.Errorf("need %v, result %+v", need, res)
		}
	})
}

// TestReceiveResumes: a stream that is cut at any place keeps the blobs that arrived whole and needs only the rest afterwards; nothing
// half written counts or stays.
func TestReceiveResumes(t *testing.T) {
	s := newSender(t, "MZ kubelet", "MZ containerd", strings.Repeat("x", 1000))
	whole := s.stream(t, s.digests())
	start := bytes.IndexByte(whole, '\n') + 1
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		for cut := start; cut < len(whole); cut += 7 {
			r.must(disk.RemoveAll(t.Context(), r.a.sys.Files, plan.AgentRoot))
			_, res, err := r.receive(whole[:cut])
			r.wants(err, io.ErrUnexpectedEOF)
			if res.Code != CodeTransferInvalid {
				t.Fatalf("cut at %d: result %+v", cut, res)
			}
			rest := s.digests()[len(res.Stored):]
			need, res, err := r.receive(s.stream(t, rest))
			r.must(err)
			if !slices.Equal(need.Need, rest) || !slices.Equal(res.Stored, rest) {
				t.Fatalf("cut at %d: need %v, result %+v", cut, need, res)
			}
			names, err := r.a.blobNames()
			r.must(err)
			if len(names) != 3 || slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, partSuffix) }) {
				t.Fatalf("cut at %d: blobs %v", cut, names)
			}
		}
	})
}

// noise is content that cannot be compressed.
func noise(t *testing.T, size int) string {
	t.Helper()
	b := make([]byte, size)
	if _, err := rand.NewChaCha8([32]byte{3}).Read(b); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestReceiveGoesOn: what has arrived of a blob when the stream is cut is not sent again, however often it is cut.
func TestReceiveGoesOn(t *testing.T) {
	const size = 2 << 20
	s := newSender(t, noise(t, size))
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		need, had, sent := payload.Need{Need: s.digests()}, int64(0), 0
		for cuts := 0; ; cuts++ {
			// Each connection carries a third of the blob.
			in := s.answer(t, need)
			whole := len(in) <= size/3
			in = in[:min(len(in), size/3)]
			sent += len(in)
			// Whether the stream ends or breaks makes no difference.
			how := io.EOF
			if cuts%2 == 1 && !whole {
				how = net.ErrClosed
			}
			said, res, err := r.receiveFrom(io.MultiReader(bytes.NewReader(in), iotest.ErrReader(how)))
			if cuts > 0 && !cmp.Equal(said, need) {
				t.Fatalf("the agent needs %v, has %v", said, need)
			}
			if err == nil {
				if res.Code != "" || !slices.Equal(res.Stored, s.digests()) || cuts < 3 {
					t.Errorf("after %d cuts: %+v", cuts, res)
				}
				break
			}
			r.wants(err, io.ErrUnexpectedEOF)
			parts, err := r.a.parts(s.offer)
			r.must(err)
			now := parts[s.digests()[0]]
			if now < had+100<<10 {
				t.Fatalf("cut %d: %d bytes are there, %d before", cuts, now, had)
			}
			had, need.Have = now, parts
		}
		// A block of zstd that was under way is lost with each cut.
		if sent > size+5*(200<<10) {
			t.Errorf("%d bytes were sent for %d", sent, size)
		}
		names, err := r.a.blobNames()
		if err != nil || !slices.Equal(names, s.digests()) {
			t.Errorf("blobs %v, %v", names, err)
		}
	})
}

// TestReceiveSpoiledPart: a beginning that is not the blob's, as a loss of power leaves it, costs one transfer and does not stay.
func TestReceiveSpoiledPart(t *testing.T) {
	s := newSender(t, noise(t, 300<<10))
	d := s.digests()[0]
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.must(r.a.secureRoot(t.Context()))
		r.write(disk.Join(blobDir(), d+partSuffix), strings.Repeat("\x00", 1000))
		need := payload.Need{Need: s.digests(), Have: map[string]int64{d: 1000}}
		said, res, err := r.receive(s.answer(t, need))
		if err == nil || res.Code != CodeBlobCorrupt || !cmp.Equal(said, need) {
			t.Errorf("%v, %+v, need %v", err, res, said)
		}
		said, res, err = r.receive(s.stream(t, s.digests()))
		if err != nil || !slices.Equal(res.Stored, s.digests()) || said.Have != nil {
			t.Errorf("%v, %+v, need %v", err, res, said)
		}
	})
}

// TestReceiveOnlyWhatWasAsked: a blob that was not needed, or a rest that begins elsewhere, is refused.
func TestReceiveOnlyWhatWasAsked(t *testing.T) {
	s := newSender(t, noise(t, 300<<10), "MZ kubelet")
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		for name, need := range map[string]payload.Need{
			"a beginning that is not there": {Need: s.digests(), Have: map[string]int64{s.digests()[0]: 1000}},
		} {
			_, res, err := r.receive(s.answer(t, need))
			if !errors.Is(err, errNotAsked) || res.Code != CodeTransferInvalid {
				t.Errorf("%s: %v, %+v", name, err, res)
			}
		}
		offer, _, _ := bytes.Cut(s.stream(t, nil), []byte("\n"))
		other := newSender(t, "MZ something else")
		_, frames, _ := bytes.Cut(other.stream(t, other.digests()), []byte("\n"))
		in := slices.Concat(offer, []byte("\n"), frames)
		if _, res, err := r.receive(in); !errors.Is(err, errNotAsked) || res.Code != CodeTransferInvalid {
			t.Errorf("a blob that was not offered: %v, %+v", err, res)
		}
	})
}

// TestReceiveKilled: what a killed receive left half written is gone after the next.
func TestReceiveKilled(t *testing.T) {
	s := newSender(t, strings.Repeat("x", 1000))
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.must(r.a.secureRoot(t.Context()))
		r.write(disk.Join(blobDir(), s.digests()[0]+partSuffix), "half")
		_, _, err := r.receive(s.stream(t, s.digests()))
		r.must(err)
		names, err := r.a.blobNames()
		r.must(err)
		if !slices.Equal(names, s.digests()) {
			t.Errorf("blobs %v", names)
		}
	})
}

func TestReceiveRefuses(t *testing.T) {
	s := newSender(t, "MZ kubelet")
	good := s.stream(t, s.digests())
	// Offered and sent under another digest, in hexadecimal and as bytes.
	raw, err := hex.DecodeString(s.digests()[0])
	if err != nil {
		t.Fatal(err)
	}
	other := sha256.Sum256([]byte("MZ another"))
	flipped := bytes.Replace(bytes.Replace(good, []byte(s.digests()[0]), []byte(hex.EncodeToString(other[:])), 1), raw, other[:], 1)
	for _, tc := range []struct {
		name string
		in   []byte
		code string
	}{
		{"no offer", nil, CodeTransferInvalid},
		{"offer that is no JSON", []byte("hello\n"), CodeTransferInvalid},
		{"offer without an end", []byte(`{"blobs":[`), CodeTransferInvalid},
		{"offer over its limit", append(bytes.Repeat([]byte(" "), payload.MaxMessage+2), '\n'), CodeTransferInvalid},
		{"no frames", good[:bytes.IndexByte(good, '\n')+1], CodeTransferInvalid},
		{"other bytes than the digest says", flipped, CodeBlobCorrupt},
		{"something behind the end", append(bytes.Clone(good), 'x'), CodeTransferInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
				_, res, err := r.receive(tc.in)
				if err == nil || res.Code != tc.code || res.Detail == "" {
					t.Errorf("result %+v, error %v, want code %s", res, err, tc.code)
				}
			})
		})
	}
}

func TestReceiveNoRoom(t *testing.T) {
	s := newSender(t, strings.Repeat("x", 100<<10))
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.must(r.a.secureRoot(t.Context()))
		r.m.FillDisk(50 << 10)
		need, res, err := r.receive(s.stream(t, s.digests()))
		r.wants(err, system.ErrDiskFull)
		if res.Code != CodeDiskFull || !strings.Contains(res.Detail, "102400 bytes are needed") || need.Need != nil {
			t.Errorf("need %v, result %+v", need, res)
		}
	})
}

// TestCollect: the blobs of the plan in sync, of the one before and of the last offer stay; older ones go.
func TestCollect(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		tool := func(content string) plan.Plan {
			return plan.Plan{Files: []plan.File{{Path: `C:\k\tool.exe`, Access: plan.AccessPublic, Blob: r.blob(content)}}}
		}
		r.applied(envelope(1, tool("one"), nil), plan.PhaseInSync)
		r.applied(envelope(2, tool("two"), nil), plan.PhaseInSync)
		offered := r.blob("offered")
		b, err := json.Marshal(staged{APIVersion: stagedVersion, Blobs: []string{offered}})
		r.must(err)
		f, err := r.a.sys.Files.Create(rooted(stagedFile), plan.AccessSecret)
		r.must(err)
		_, err = f.Write(b)
		r.must(errors.Join(err, f.Close()))
		r.applied(envelope(3, tool("three"), nil), plan.PhaseInSync)
		names, err := r.a.blobNames()
		r.must(err)
		want := []string{disk.Sum([]byte("two")), disk.Sum([]byte("three")), offered}
		slices.Sort(want)
		if !slices.Equal(names, want) {
			t.Errorf("blobs %v, want %v", names, want)
		}
		have, err := r.a.verified(t.Context(), append(want, disk.Sum([]byte("one"))))
		if err != nil || !slices.Equal(have, want) {
			t.Errorf("verified %v, %v", have, err)
		}
		r.write(step.BlobPath(plan.AgentRoot, offered), "spoiled")
		if have, err := r.a.verified(t.Context(), []string{offered}); err != nil || len(have) > 0 {
			t.Errorf("a spoiled blob counts: %v, %v", have, err)
		}
	})
}
