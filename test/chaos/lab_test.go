package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/hostsim"
)

const (
	agentExe = `C:\Windows\wmcb\0123456789abcdef\wmcb.exe`
	labIP    = "192.0.2.10"
	labHost  = "host-1"
	// labPatience bounds a row, by the machine's clock.
	labPatience = time.Hour
	// settled is longer than the pause after which the agent looks once more at what it did.
	settled = 2 * time.Minute
)

var errStuck = errors.New("the machine did not get there")

// lab is a machine in the time of a synctest bubble and the stand-in for its operator.
type lab struct {
	m     *fake.Machine
	store *payload.Store
	watch *watcher
	// reboots counts those that the operator made, sent the bytes of frames that the machine took.
	reboots int
	sent    int64
	cuts    int
	// order is that of the newest request.
	order int64
}

// claim is that of the next request.
func (l *lab) claim() plan.Claim {
	l.order++
	return plan.Claim{Host: labHost, Order: l.order}
}

// inLab runs f with a new machine.
func inLab(t *testing.T, store *payload.Store, f func(*testing.T, *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := fake.New(fake.Options{
			Defender: true,
			Programs: map[string]fake.Program{
				"wmcb.exe": hostsim.AgentProgram("v1.0.0"), "kubelet.exe": serve, "containerd.exe": serve,
			},
			Dial: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				return near, far.Close()
			},
		})
		defer m.Close()
		if err := m.WriteFile(agentExe, []byte("MZ wmcb")); err != nil {
			t.Fatal(err)
		}
		l := &lab{m: m, store: store, watch: newWatcher(agentExe)}
		m.Intercept(l.watch.judge)
		f(t, l)
	})
}

// serve is a service that runs until it is stopped.
func serve(ctx context.Context, p *fake.Process) int {
	s, ok := p.Service()
	if !ok {
		return 1
	}
	s.Running()
	select {
	case <-s.Stopping():
	case <-ctx.Done():
	}
	return 0
}

// labStore packs what the plans need.
func labStore(t *testing.T) *payload.Store {
	t.Helper()
	var sources []payload.Source
	for i, name := range []string{"containerd.exe", "kubelet.exe", "win-bridge.exe"} {
		// Random bytes do not shrink: what is sent is as large as what is stored.
		seed := [32]byte{byte(i)}
		data := make([]byte, 8<<10)
		if _, err := rand.NewChaCha8(seed).Read(data); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, payload.Source{
			Name: name, Version: "v1", Licence: "Apache-2.0", Origin: "test",
			Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
		})
	}
	s, err := payload.Pack(t.TempDir(), sources)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plans are the two of a first configure: the second comes when the node is registered.
func (l *lab) plans() [2]plan.Envelope {
	blob := func(name string) string {
		b, _ := l.store.Lookup(name)
		return b.SHA256
	}
	public := plan.AccessPublic
	first := plan.Plan{
		APIVersion: plan.APIVersion, Requires: []string{plan.CapabilityBase, plan.CapabilityNetwork},
		Secrets:  []plan.Secret{{Name: "bootstrap-kubeconfig", Path: `C:\k\bootstrap-kubeconfig`}},
		Env:      []plan.EnvVar{{Name: "NO_PROXY", Value: ".svc"}},
		Features: []plan.Feature{{Name: "Containers"}},
		Directories: []plan.Directory{
			{Path: `C:\k`, Access: public}, {Path: `C:\k\cni`, Access: public}, {Path: `C:\var\lib\kubelet`, Access: plan.AccessSecret, Purge: true},
		},
		Defender: []plan.DefenderExclusion{{Process: `C:\k\kubelet.exe`}},
		Files: []plan.File{
			{Path: `C:\k\containerd.exe`, Access: public, Blob: blob("containerd.exe")},
			{Path: `C:\k\kubelet.exe`, Access: public, Blob: blob("kubelet.exe")},
			{Path: `C:\k\cni\win-bridge.exe`, Access: public, Blob: blob("win-bridge.exe")},
			{Path: `C:\k\kubelet.conf`, Access: public, Inline: []byte(`{"kind":"KubeletConfiguration"}`)},
		},
		Firewall: []plan.FirewallRule{{Name: "kubelet", Protocol: "TCP", Port: 10250}},
		Services: []plan.Service{
			{Name: "containerd", Exe: `C:\k\containerd.exe`, Recovery: &plan.Recovery{RestartDelaySeconds: []int{1}, ResetSeconds: 600}},
			{
				Name: "kubelet", Exe: `C:\k\kubelet.exe`, Args: []string{`--config=C:\k\kubelet.conf`, "--node-ip=${managementIP}"},
				DependsOn: []string{"containerd"}, Watch: []string{`C:\k\kubelet.conf`},
			},
		},
	}
	second := first
	second.Secrets = nil
	second.Files = append(slices.Clone(first.Files), plan.File{Path: `C:\k\cni\10-cni.conf`, Access: public, Inline: []byte("{}")})
	second.Networks = []plan.Network{{
		Name: "l2bridge", Type: plan.NetworkL2Bridge, ManagementIP: labIP, Prefix: "10.244.3.0/24", Gateway: "10.244.3.1", Reach: "192.0.2.1:6443",
	}}
	return [2]plan.Envelope{
		{APIVersion: plan.EnvelopeVersion, Host: labHost, Generation: 1, Plan: first, Secrets: map[string][]byte{"bootstrap-kubeconfig": []byte("ticket")}},
		{APIVersion: plan.EnvelopeVersion, Host: labHost, Generation: 2, Plan: second},
	}
}

// configure does what the operator does until the machine is in sync with both plans and has looked at itself once more.
func (l *lab) configure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, labPatience)
	defer cancel()
	for _, e := range l.plans() {
		if err := l.settle(ctx, e); err != nil {
			return fmt.Errorf("plan %d: %w", e.Generation, err)
		}
	}
	if err := pause(ctx, settled); err != nil {
		return err
	}
	// What the fault hit late is put right by the agent alone.
	return l.settle(ctx, l.plans()[1])
}

func pause(ctx context.Context, d time.Duration) error { return fake.RealClock{}.Sleep(ctx, d) }

// settle makes passes until the machine is in sync with e.
func (l *lab) settle(ctx context.Context, e plan.Envelope) error {
	var last string
	for {
		done, err := l.pass(ctx, e)
		if err != nil {
			last = err.Error()
		}
		if done {
			return nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return fmt.Errorf("%w: %s", errStuck, last)
		}
	}
}

// pass is one reconcile: it goes as far as it can.
func (l *lab) pass(ctx context.Context, e plan.Envelope) (done bool, err error) {
	r, err := l.wmcb(ctx, nil, "status", "--follow", "--json")
	if err != nil {
		return false, err
	}
	if r == nil || r.Digest != e.Plan.Digest() || r.Generation != e.Generation || orphaned(r) {
		if err := l.receive(ctx, l.claim(), e.Plan.Blobs()); err != nil {
			return false, err
		}
		e.Order = l.claim().Order
		body, err := json.Marshal(e)
		if err != nil {
			return false, err
		}
		if r, err = l.wmcb(ctx, bytes.NewReader(body), "apply", "--json"); err != nil || r == nil {
			return false, err
		}
	}
	if r.Digest != e.Plan.Digest() || r.Generation != e.Generation {
		return false, fmt.Errorf("the agent speaks of generation %d", r.Generation)
	}
	if r.Phase == plan.PhaseRebootNeeded {
		// Another boot may be under way; then ours is none.
		err := l.m.Reboot(ctx)
		if err == nil {
			l.reboots++
		}
		return false, err
	}
	return r.Phase == plan.PhaseInSync, fmt.Errorf("%s %s: %s", r.Phase, r.Code, r.Detail)
}

// orphaned is what controllers/host calls so: a plan is stored and no service carries it out.
func orphaned(r *plan.Report) bool {
	return r.Phase == plan.PhaseFailed && r.Code == agent.CodeAgentStopped
}

// wmcb runs the agent and returns its last report, nil when it gave none.
func (l *lab) wmcb(ctx context.Context, stdin io.Reader, args ...string) (*plan.Report, error) {
	var out output
	p, err := l.m.StartProcess(agentExe, args, fake.Streams{Stdin: stdin, Stdout: &out})
	if err != nil {
		return nil, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
		return nil, ctx.Err()
	}
	var last *plan.Report
	for line := range bytes.Lines(out.bytes()) {
		var r plan.Report
		if json.Unmarshal(line, &r) == nil && r.APIVersion == plan.ReportVersion {
			last = &r
		}
	}
	return last, nil
}

// output is what a process says. One that was killed may still be at it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.b.Bytes())
}

// receive offers blobs and sends those that the machine lacks.
func (l *lab) receive(ctx context.Context, c plan.Claim, digests []string) error {
	in, feed := io.Pipe()
	answers, out := io.Pipe()
	var stderr output
	p, err := l.m.StartProcess(agentExe, []string{"receive"}, fake.Streams{Stdin: in, Stdout: out, Stderr: &stderr})
	if err != nil {
		return err
	}
	need := make(chan *payload.Need, 1)
	var talk sync.WaitGroup
	talk.Go(func() { listen(answers, need) })
	var sent error
	talk.Go(func() { sent = feed.CloseWithError(l.send(c, digests, feed, need)) })
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
	}
	// Nothing of a connection outlives it.
	_ = in.CloseWithError(io.ErrClosedPipe)
	_ = out.CloseWithError(io.ErrClosedPipe)
	talk.Wait()
	if exit := p.Wait(); exit != 0 {
		l.cuts++
		return errors.Join(fmt.Errorf("receive ended with %d: %s", exit, stderr.bytes()), sent)
	}
	return ctx.Err()
}

// listen reads what receive answers to its end; need gets what it needs, and is closed.
func listen(answers io.Reader, need chan<- *payload.Need) {
	defer close(need)
	lines := bufio.NewReader(answers)
	for {
		line, err := payload.ReadLine(lines, payload.MaxMessage)
		if err != nil {
			return
		}
		if n, _, ok := payload.ParseAnswer(line); ok && n != nil {
			need <- n
		}
	}
}

func (l *lab) send(c plan.Claim, digests []string, w io.Writer, need <-chan *payload.Need) error {
	offer := payload.Offer{Host: c.Host, Order: c.Order}
	for _, d := range digests {
		b, _ := l.store.Blob(d)
		offer.Blobs = append(offer.Blobs, payload.OfferedBlob{SHA256: b.SHA256, Size: b.Size})
	}
	if err := payload.WriteMessage(w, offer); err != nil {
		return err
	}
	n := <-need
	if n == nil {
		return io.ErrUnexpectedEOF
	}
	if len(n.Need) == 0 {
		return nil
	}
	return payload.WriteFrames(&counted{w: w, n: &l.sent}, l.store, *n, nil)
}

type counted struct {
	w io.Writer
	n *int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	*c.n += int64(n)
	return n, err
}

// left is what a row leaves behind, without what tells when it happened.
type left struct {
	Tree fake.Tree
	// Own are the agent's own files that hold counters, without these.
	Own map[string]string
}

// leftovers takes the machine's lasting state apart. The journal is for people and differs; of plan.json, staged.json and state.json the counts of
// acceptances and the orders differ. The reserve is made again when the service starts next.
func (l *lab) leftovers() (left, error) {
	out := left{Tree: l.m.Dump(), Own: map[string]string{}}
	for _, name := range []string{"journal.jsonl", "journal.1.jsonl", "reserve"} {
		delete(out.Tree.Files, plan.AgentRoot+`\`+name)
	}
	for _, name := range []string{"plan.json", "staged.json", "state.json"} {
		path := plan.AgentRoot + `\` + name
		delete(out.Tree.Files, path)
		b, err := l.m.ReadFile(path)
		if err != nil {
			return out, err
		}
		var v map[string]any
		if err := json.Unmarshal(b, &v); err != nil {
			return out, fmt.Errorf("%s: %w", path, err)
		}
		delete(v, "accept")
		delete(v, "order")
		delete(v, "join")
		delete(v, "joined")
		text, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			return out, err
		}
		out.Own[name] = string(text)
	}
	return out, nil
}

func differ(want, got left) string { return cmp.Diff(want, got, cmpopts.EquateEmpty()) }

// boots is how often the machine was started.
func (l *lab) boots() (int, error) {
	id, err := l.m.System().Machine.BootID()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(id[strings.LastIndexByte(id, '-')+1:])
}

// payloadSize is what the plans' blobs take on the wire, and the largest of them.
func (l *lab) payloadSize() (all, largest int64) {
	for _, d := range l.plans()[0].Plan.Blobs() {
		b, _ := l.store.Blob(d)
		all += b.CompressedSize
		largest = max(largest, b.CompressedSize)
	}
	return all, largest
}
