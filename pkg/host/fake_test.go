package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windowsmachine/operator/pkg/console/consoletest"
	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/transport"
)

const agentText = "MZ the agent"

func digestOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// machine is a transport in memory: one machine on which a program is a Go function. It models what a connection can do to a
// session: be refused, end, hang. It does not prove anything about SSH; ssh_test.go runs over the real one.
type machine struct {
	// dialErr refuses connections.
	dialErr error
	// run is called for each program, and for each command of the agent.
	run func(ctx context.Context, c transport.Command) (int, error)
	// removeErr is called for each RemoveAll.
	removeErr func() error

	// serving counts the runs of `wmcb serve` under way.
	serving atomic.Int32

	mu    sync.Mutex
	files map[string]string
	conns []*machineConn
	// lines are the command lines, without those of `wmcb serve` that ran.
	lines []string
	puts  int
}

type machineConn struct {
	m    *machine
	done chan struct{}

	mu       sync.Mutex
	closed   bool
	err      error
	channels int
}

func (m *machine) Dial(ctx context.Context, t transport.Target) (transport.Conn, error) {
	if m.dialErr != nil {
		return nil, m.dialErr
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := t.Admit(ctx); err != nil {
		return nil, errors.Join(transport.ErrUnreachable, err)
	}
	if err := t.Verify(transport.HostKey{Algorithm: "ssh-ed25519", Fingerprint: "SHA256:key-of-" + t.Address}); err != nil {
		return nil, errors.Join(transport.ErrHostKey, err)
	}
	c := &machineConn{m: m, done: make(chan struct{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns = append(m.conns, c)
	return c, nil
}

// open is the number of open connections, dialed that of all so far.
func (m *machine) open() (open, dialed int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		if !ended(c) {
			open++
		}
	}
	return open, len(m.conns)
}

// cut ends the newest connection.
func (m *machine) cut() {
	m.mu.Lock()
	c := m.conns[len(m.conns)-1]
	m.mu.Unlock()
	c.end(transport.ErrDisconnected)
}

func (m *machine) put(path, data string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files == nil {
		m.files = map[string]string{}
	}
	m.files[path] = data
}

func (m *machine) file(path string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.files[path]
	return data, ok
}

func (c *machineConn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed, c.err = true, err
		close(c.done)
	}
}

func (c *machineConn) channel() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return transport.ErrDisconnected
	}
	c.channels++
	return nil
}

// Run implements transport.Conn.
func (c *machineConn) Run(ctx context.Context, cmd transport.Command) (int, error) {
	if err := c.channel(); err != nil {
		return 0, err
	}
	serve := consoletest.IsServe(cmd)
	c.m.mu.Lock()
	_, installed := c.m.files[cmd.Path]
	if !serve || !installed {
		c.m.lines = append(c.m.lines, strings.Join(append([]string{cmd.Path}, cmd.Args...), " "))
	}
	c.m.mu.Unlock()
	if strings.HasSuffix(cmd.Path, plan.AgentName) && !installed {
		// cmd.exe's exit code for a program that is not there, after a message in the machine's language.
		_, _ = io.WriteString(cmd.Stderr, "Der Befehl ist entweder falsch geschrieben oder\r\nkonnte nicht gefunden werden.\r\n")
		return 1, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-c.done:
			cancel(transport.ErrDisconnected)
		case <-ctx.Done():
		}
	}()
	if serve {
		return c.serve(ctx, cmd)
	}
	return c.m.run(ctx, cmd)
}

// serve is `wmcb serve`, where each command is a call of run.
func (c *machineConn) serve(ctx context.Context, cmd transport.Command) (int, error) {
	c.m.serving.Add(1)
	defer c.m.serving.Add(-1)
	return consoletest.Serve(ctx, cmd, func(ctx context.Context, k transport.Command) (int, error) {
		c.m.mu.Lock()
		c.m.lines = append(c.m.lines, strings.Join(append([]string{k.Path}, k.Args...), " "))
		c.m.mu.Unlock()
		return c.m.run(ctx, k)
	})
}

// Put implements transport.Conn.
func (c *machineConn) Put(ctx context.Context, path string, size int64, open func() (io.ReadCloser, error)) (bool, error) {
	if err := c.channel(); err != nil {
		return false, err
	}
	if old, ok := c.m.file(path); ok && int64(len(old)) == size {
		return false, nil
	}
	r, err := open()
	if err != nil {
		return false, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return false, err
	}
	c.m.put(path, string(data))
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.puts++
	return true, nil
}

// RemoveAll implements transport.Conn.
func (c *machineConn) RemoveAll(_ context.Context, path string) error {
	if err := c.channel(); err != nil {
		return err
	}
	if c.m.removeErr != nil {
		if err := c.m.removeErr(); err != nil {
			return err
		}
	}
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	for p := range c.m.files {
		if p == path || strings.HasPrefix(p, path+`\`) {
			delete(c.m.files, p)
		}
	}
	return nil
}

// Done implements transport.Conn.
func (c *machineConn) Done() <-chan struct{} { return c.done }

// Err implements transport.Conn.
func (c *machineConn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Stats implements transport.Conn.
func (c *machineConn) Stats() transport.Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return transport.Stats{Channels: c.channels}
}

// Close implements transport.Conn.
func (c *machineConn) Close() error {
	c.end(nil)
	return nil
}

// harness is a pool with one session.
type harness struct {
	pool    *Pool
	session *Session
	notes   chan string
}

// newHarness makes a pool over d with defaults that change may replace. The pool ends with the test at the latest.
func newHarness(t testing.TB, d transport.Dialer, change func(*Config)) *harness {
	t.Helper()
	h := &harness{notes: make(chan string, 10_000)}
	cfg := Config{
		Dialer: d,
		Agent: AgentBinary{Digest: digestOf(agentText), Size: int64(len(agentText)), Open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(agentText)), nil
		}},
		Notify: func(key string) { h.notes <- key },
	}
	if change != nil {
		change(&cfg)
	}
	h.pool = NewPool(cfg)
	h.session = h.pool.Session("winhost-1")
	t.Cleanup(h.pool.Close)
	return h
}

// do starts a verb and returns the snapshot when it has ended.
func (h *harness) do(t testing.TB, v Verb, a Args) Snapshot {
	t.Helper()
	if !h.session.Start(v, a) {
		t.Fatalf("%s was not started", v)
	}
	return h.wait()
}

// wait returns the snapshot when no verb is under way.
func (h *harness) wait() Snapshot {
	for {
		if s := h.session.Snapshot(); s.Busy == "" {
			return s
		}
		<-h.notes
	}
}

// args are Args with defaults.
func args() Args {
	return Args{Target: transport.Target{
		Address: "192.0.2.10", Port: 22, User: "Administrator", PrivateKeys: [][]byte{[]byte("key")},
		Verify: func(transport.HostKey) error { return nil },
	}}
}

// says is a program that prints lines and exits.
func says(exit int, lines ...string) func(context.Context, transport.Command) (int, error) {
	return func(_ context.Context, c transport.Command) (int, error) {
		for _, l := range lines {
			if _, err := io.WriteString(c.Stdout, l+"\r\n"); err != nil {
				return 0, err
			}
		}
		return exit, nil
	}
}

func line(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// report is a Report with defaults.
func report(change func(*plan.Report)) plan.Report {
	r := plan.Report{
		APIVersion: plan.ReportVersion, AgentVersion: "v0.1.0", Host: "uid", Generation: 1, Digest: digestOf("plan"),
		Phase: plan.PhaseRunning, Step: plan.StepFiles, Index: 2, Total: 5, BootID: "boot-1", Seq: 4,
		Time: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
	}
	if change != nil {
		change(&r)
	}
	return r
}

// facts are HostFacts with defaults.
func facts(change func(*plan.HostFacts)) plan.HostFacts {
	f := plan.HostFacts{
		APIVersion: plan.FactsVersion, AgentVersion: "v0.1.0", AgentDigest: digestOf(agentText), Hostname: "WIN-1", Build: 20348,
		Elevated: true, BootID: "boot-1", Report: plan.Report{APIVersion: plan.ReportVersion, Phase: plan.PhaseIdle},
	}
	if change != nil {
		change(&f)
	}
	return f
}

// agentPath is where the harness's agent goes.
func agentPath() string { return plan.AgentPath(digestOf(agentText)) }

// store is a payload of small blobs.
func store(t testing.TB, contents ...string) *payload.Store {
	t.Helper()
	var sources []payload.Source
	for i, c := range contents {
		sources = append(sources, payload.Source{
			Name: string(rune('a'+i)) + ".exe", Version: "v1", Licence: "MIT", Origin: "test",
			Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(c)), nil },
		})
	}
	s, err := payload.Pack(t.TempDir(), sources)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
