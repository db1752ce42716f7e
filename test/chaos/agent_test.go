package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/pkg/plan"
)

const (
	// diskFullFor is how long a full disk stays full.
	diskFullFor = 45 * time.Second
	// offFor is how long a machine without power stays off.
	offFor = 10 * time.Second
	// readAhead is what the agent may have taken of the next blob when it dies.
	readAhead = 8 << 10
	// frameHead is more than a frame adds to its blob.
	frameHead = 256
)

// fault is a way to do harm at one change, or at one journal entry.
type fault struct {
	name string
	// at is the harm done at change n.
	at func(n int) harm
	// then is what becomes of the machine once it was hit; nil: it runs on.
	then func(context.Context, *lab) (boots int, err error)
	// fits reports whether there is such harm at a change.
	fits func(change) bool
}

func everywhere(change) bool { return true }
func isWrite(c change) bool  { return c.kind == fake.OpWrite }
func isEntry(c change) bool  { return c.entry != nil }

// isLoose is a change after which something may not be on the disk yet, or that other changes rest on. What is killed after any other change and
// then loses its power differs from one that is only killed by a boot.
func isLoose(c change) bool { return c.kind == fake.OpWrite || c.kind == fake.OpRename }

func takesRoom(c change) bool { return c.kind == fake.OpWrite || c.kind == fake.OpMkdir }

// once does harm at change n only.
func once(v func(fake.Op) fake.Verdict) func(int) harm {
	return func(n int) harm {
		return func(now int, op fake.Op, _ *plan.Entry) (fake.Verdict, bool) {
			if now != n {
				return fake.Verdict{}, false
			}
			return v(op), true
		}
	}
}

func after(fake.Op) fake.Verdict { return fake.Verdict{KillAfter: true} }
func halfway(o fake.Op) fake.Verdict {
	return fake.Verdict{KillBefore: true, Keep: max(1, len(o.Data)/2)}
}

func grows(k fake.OpKind) bool {
	return k == fake.OpWrite || k == fake.OpCreate || k == fake.OpAppend || k == fake.OpMkdir
}

// full refuses whatever takes room from change n on, for a while.
func full(n int) harm {
	var since time.Time
	return func(now int, op fake.Op, _ *plan.Entry) (fake.Verdict, bool) {
		if now < n || !grows(op.Kind) {
			return fake.Verdict{}, false
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) > diskFullFor {
			return fake.Verdict{}, false
		}
		return fake.Verdict{Err: system.ErrDiskFull}, true
	}
}

func pull(tear fake.Tear) func(context.Context, *lab) (int, error) {
	return func(ctx context.Context, l *lab) (int, error) {
		l.m.PowerCut(tear)
		if err := pause(ctx, offFor); err != nil {
			return 0, err
		}
		return 1, l.m.PowerOn(ctx)
	}
}

// restart is an orderly reboot that nobody of us asked for. Where we had just begun one it is none.
func restart(ctx context.Context, l *lab) (int, error) {
	err := l.m.Reboot(ctx)
	if errors.Is(err, fake.ErrPoweredOff) {
		return 0, nil
	}
	return 1, err
}

func faults() []fault {
	return []fault{
		{name: "agent killed after a change to the disk", at: once(after), fits: everywhere},
		{name: "agent killed in the middle of a write", at: once(halfway), fits: isWrite},
		{name: "power cut in the middle of a write, zeros left", at: once(halfway), then: pull(fake.TearZeros), fits: isWrite},
		{name: "power cut after a change to the disk, nothing unsynced left", at: once(after), then: pull(fake.TearTruncate), fits: isLoose},
		{name: "disk full at a write, freed later", at: full, fits: takesRoom},
		{name: "machine rebooted at a journal entry", at: once(after), then: restart, fits: isEntry},
	}
}

// kind is what a row is counted as: a journal entry is a write of its own kind.
func (f fault) kind(place change) string {
	if place.entry == nil || f.then != nil {
		return f.name
	}
	if what, ok := strings.CutPrefix(f.name, "agent killed "); ok {
		return "agent killed at a journal entry: " + what
	}
	return f.name
}

// TestAgentCrashes: every fault at every place, one at a time.
func TestAgentCrashes(t *testing.T) {
	t.Parallel()
	store := labStore(t)
	var calm left
	var places []change
	inLab(t, store, func(t *testing.T, l *lab) {
		if err := l.configure(t.Context()); err != nil {
			t.Fatal(err)
		}
		var err error
		if calm, err = l.leftovers(); err != nil {
			t.Fatal(err)
		}
		places = l.watch.changes()
		if problems := l.check(1); problems != nil {
			t.Fatal(problems)
		}
	})
	t.Logf("%d changes to the disk", len(places))
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			began, missed := time.Now(), 0
			for i, place := range places {
				if !f.fits(place) {
					continue
				}
				if !crash(t, store, f, i+1, place, calm) {
					missed++
				}
			}
			t.Logf("%.1f s", time.Since(began).Seconds())
			// The order of what the service and a command do at the same time may differ, the number of changes hardly.
			if missed > len(places)/20 {
				t.Errorf("%d of %d places were not reached", missed, len(places))
			}
		})
	}
}

// crash is one row; it reports whether the fault was done.
func crash(t *testing.T, store *payload.Store, f fault, n int, place change, calm left) (hit bool) {
	t.Helper()
	var problems []string
	ready, twice := false, 0
	inLab(t, store, func(t *testing.T, l *lab) {
		l.watch.harm = f.at(n)
		ctx, over := context.WithCancel(t.Context())
		helped := make(chan struct{})
		var boots int
		var helpErr error
		go func() {
			defer close(helped)
			boots, helpErr = l.afterHit(ctx, f.then)
		}()
		err := l.configure(t.Context())
		hit, ready, twice = l.watch.wasHit(), err == nil, l.watch.twice()
		if !ready {
			problems = append(problems, err.Error())
		}
		if !hit {
			over()
		}
		<-helped
		if hit && helpErr != nil {
			problems = append(problems, helpErr.Error())
		}
		over()
		if hit && ready {
			problems = append(problems, l.check(1+boots)...)
			now, err := l.leftovers()
			if d := differ(calm, now); d != "" || err != nil {
				problems = append(problems, fmt.Sprintf("the machine differs from one where nothing went wrong (-want +got): %v\n%s", err, d))
			}
		}
	})
	// The bubble of a failed test ends all that follow, so problems are told outside.
	for _, p := range problems {
		t.Errorf("%s: change %d, %s %s: %s", f.name, n, place.kind, place.path, p)
	}
	if hit {
		matrix.row(f.kind(place), ready, twice)
	}
	return hit
}

// afterHit does what a fault has in store for the machine that it hit.
func (l *lab) afterHit(ctx context.Context, then func(context.Context, *lab) (int, error)) (boots int, err error) {
	select {
	case <-l.watch.hit:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if then == nil {
		return 0, nil
	}
	return then(ctx, l)
}

// check compares what was done with what may be done once. boots are those that others made, the first one included.
func (l *lab) check(boots int) (problems []string) {
	if n := l.watch.twice(); n > 0 {
		problems = append(problems, fmt.Sprintf("%d blobs were sent although they were there", n))
	}
	all, largest := l.payloadSize()
	if limit := all + 3*frameHead + int64(l.cuts)*(largest+frameHead+readAhead); l.sent > limit {
		problems = append(problems, fmt.Sprintf("%d bytes were sent over %d cuts, want at most %d", l.sent, l.cuts, limit))
	}
	total, err := l.boots()
	if err != nil {
		return append(problems, err.Error())
	}
	// A boot that others made after the feature was enabled is as good as ours.
	if n := total - boots; n != l.reboots || n > 1 || n == 0 && boots == 1 {
		problems = append(problems, fmt.Sprintf("the machine was booted %d times, %d of them by us and %d by others", total, l.reboots, boots))
	}
	return problems
}

// TestLateRequests: what an operator that has lost the lead still asks for, and what was under way on a connection that was given up, changes nothing,
// before and after a crash.
func TestLateRequests(t *testing.T) {
	t.Parallel()
	store := labStore(t)
	inLab(t, store, func(t *testing.T, l *lab) {
		ctx, cancel := context.WithTimeout(t.Context(), labPatience)
		defer cancel()
		if err := l.configure(ctx); err != nil {
			t.Fatal(err)
		}
		want, err := l.leftovers()
		if err != nil {
			t.Fatal(err)
		}
		plans := l.plans()
		older, late := plans[0], plans[1]
		older.Order, late.Order = l.order, l.order-1
		var offer bytes.Buffer
		if err := payload.WriteMessage(&offer, payload.Offer{Host: labHost, Order: l.order - 1}); err != nil {
			t.Fatal(err)
		}
		order := strconv.FormatInt(l.order-1, 10)
		for _, row := range []struct {
			name  string
			stdin []byte
			args  []string
			want  string
		}{
			{"older plan handed over", encoded(t, older), []string{"apply", "--json"}, agent.CodeGenerationOld},
			{"same plan handed over late", encoded(t, late), []string{"apply", "--json"}, agent.CodeOrderOld},
			{"blobs offered late", offer.Bytes(), []string{"receive"}, agent.CodeOrderOld},
			{"removed late", nil, []string{"remove", "--json", "--host", labHost, "--order", order}, agent.CodeOrderOld},
			{"removed by another host", nil, []string{"remove", "--json", "--host", "host-2", "--order", "9"}, agent.CodeHostMismatch},
		} {
			ready := true
			for range 2 {
				if got, err := l.refusal(ctx, row.stdin, row.args...); got != row.want || err != nil {
					ready = false
					t.Errorf("%s: answered with %q, %v, want %s", row.name, got, err, row.want)
				}
				if _, err := pull(fake.TearZeros)(ctx, l); err != nil {
					t.Error(err)
				}
			}
			if err := l.settle(ctx, plans[1]); err != nil {
				ready = false
				t.Errorf("%s: %v", row.name, err)
			}
			if err := pause(ctx, settled); err != nil {
				t.Fatal(err)
			}
			now, err := l.leftovers()
			if d := differ(want, now); d != "" || err != nil {
				ready = false
				t.Errorf("%s: the machine was changed (-want +got): %v\n%s", row.name, err, d)
			}
			matrix.row(row.name, ready, l.watch.twice())
		}
	})
}

func encoded(t *testing.T, e plan.Envelope) []byte {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// refusal runs the agent and returns the code of its last word.
func (l *lab) refusal(ctx context.Context, stdin []byte, args ...string) (code string, err error) {
	var out output
	p, err := l.m.StartProcess(agentExe, args, fake.Streams{Stdin: bytes.NewReader(stdin), Stdout: &out})
	if err != nil {
		return "", err
	}
	p.Wait()
	for line := range bytes.Lines(out.bytes()) {
		var v struct{ Code string }
		if err := json.Unmarshal(line, &v); err != nil {
			return "", fmt.Errorf("%q: %w", line, err)
		}
		code = v.Code
	}
	return code, ctx.Err()
}
