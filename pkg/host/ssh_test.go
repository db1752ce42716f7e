package host

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/console/consoletest"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/transport"
	"github.com/windowsmachine/operator/pkg/transport/ssh"
	"github.com/windowsmachine/operator/pkg/transport/ssh/sshtest"
)

// sshMachine is a machine behind the real transport.
func sshMachine(t testing.TB, run func(context.Context, transport.Command) (int, error)) *sshtest.Server {
	t.Helper()
	return sshtest.New(t, sshtest.Options{MaxSessions: 10, Exec: func(e *sshtest.Exec) int {
		path, rest, _ := strings.Cut(e.Line, " ")
		command := transport.Command{Path: path, Args: strings.Fields(rest), Stdin: e.Stdin, Stdout: e.Stdout, Stderr: e.Stderr}
		exit, err := consoletest.Serve(context.Background(), command, run)
		if err != nil {
			return sshtest.NoStatus
		}
		return exit
	}})
}

// A first configure costs two channels and no shell, whatever the size of the payload.
func TestFirstConfigureBudget(t *testing.T) {
	a, b := strings.Repeat("kubelet.exe ", 200_000), strings.Repeat("containerd.exe ", 100_000)
	r := &receiver{}
	s := sshMachine(t, func(ctx context.Context, c transport.Command) (int, error) {
		switch c.Args[0] {
		case "facts":
			return says(0, line(t, facts(nil)))(ctx, c)
		case "receive":
			return r.run(ctx, c)
		case "apply":
			if _, err := io.Copy(io.Discard, c.Stdin); err != nil {
				return 0, err
			}
			return says(0, line(t, report(func(r *plan.Report) { r.Phase = plan.PhaseInSync })))(ctx, c)
		}
		return 2, nil
	})
	payloads := store(t, a, b)
	before := runtime.NumGoroutine()
	h := newHarness(t, &ssh.Dialer{}, func(c *Config) { c.Store = payloads })
	args := stageArgs(a, b)
	args.Target = s.Target()
	args.Envelope = plan.Envelope{APIVersion: plan.EnvelopeVersion, Host: "uid", Generation: 1, Plan: plan.Empty()}
	for i, step := range []struct {
		verb     Verb
		channels int
	}{{VerbConnect, 0}, {VerbFacts, 2}, {VerbStage, 2}, {VerbApply, 2}, {VerbApply, 2}} {
		got := h.do(t, step.verb, args)
		if err := got.Last[step.verb].Err; err != nil || got.Stats.Channels != step.channels {
			t.Fatalf("step %d, %s: %v, %d channels", i, step.verb, err, got.Stats.Channels)
		}
	}
	got := h.session.Snapshot()
	if got.Sent != got.ToSend || got.Sent == 0 || got.Stats.Sent < got.Sent {
		t.Errorf("got %+v", got)
	}
	if d := cmp.Diff(map[string]string{digestOf(a): a, digestOf(b): b}, r.have); d != "" {
		t.Error("the blobs differ")
	}
	if data, ok := s.Files.Read("/C:/Windows/wmcb/" + digestOf(agentText)[:16] + "/wmcb.exe"); !ok || string(data) != agentText {
		t.Errorf("the agent is %q", data)
	}
	if d := cmp.Diff([]string{agentPath() + " serve"}, s.Lines()); d != "" {
		t.Error(d)
	}
	if s.Accepted() != 1 {
		t.Errorf("%d connections", s.Accepted())
	}
	h.pool.Close()
	eventually(t, func() bool { return s.Open() == 0 && runtime.NumGoroutine() <= before })
}

// Sixty passes over hosts that work, hang and refuse leave no connection and no goroutine.
func TestW43PoolLeavesNothing(t *testing.T) {
	s := sshMachine(t, func(ctx context.Context, c transport.Command) (int, error) {
		if c.Args[0] == "status" {
			// An agent that does not end is killed with its channel.
			for {
				if _, err := io.WriteString(c.Stdout, "\n"); err != nil {
					return 0, err
				}
			}
		}
		return says(0, line(t, facts(nil)))(ctx, c)
	})
	before := runtime.NumGoroutine()
	h := newHarness(t, &ssh.Dialer{}, nil)
	a := args()
	a.Target = s.Target()
	refused := a
	refused.Target.Verify = func(transport.HostKey) error { return errors.New("no") }
	for i := range 60 {
		switch i % 4 {
		case 0:
			h.do(t, VerbFacts, a)
		case 1:
			h.session.Start(VerbFollow, a)
			h.session.Disconnect()
			h.wait()
		case 2:
			h.do(t, VerbConnect, refused)
			h.session.Disconnect()
		case 3:
			h.session.Start(VerbFacts, a)
			h.pool.Forget("winhost-1")
			h.session = h.pool.Session("winhost-1")
		}
		if open := s.Open(); open > 5 {
			t.Fatalf("%d connections after pass %d", open, i)
		}
	}
	h.pool.Close()
	eventually(t, func() bool { return s.Open() == 0 })
	eventually(t, func() bool { return runtime.NumGoroutine() <= before })
}

// eventually yields until ok, and gives up after a while.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("something is left:\n%s", buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}
