package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/bed"
	"github.com/windowsmachine/operator/test/hostsim"
	standin "github.com/windowsmachine/operator/test/payload"
)

const (
	root = "../.."
	// scale of the payload: its largest blob is larger than what is on its way at any time.
	scale = 0.01
	// bridge is the profile of all rows: its second plan makes a network, which drops the link.
	bridge = "bridge"
	// linePatience bounds a row; nothing takes that long on an idle machine.
	linePatience = 4 * time.Minute
	glance       = 50 * time.Millisecond
	// inFlight is what may be on the simulated wire of a steady line when it is cut.
	inFlight = 128 << 10
	// steady is a line on which the agent keeps up with what arrives, in bytes a second: what the machine has received and the agent has not yet
	// read dies with the connection.
	steady = 256 << 10
	// cuts is how many machines have their first connection cut, each at another place.
	cuts = 20
	// overhead is what SSH, the agent's file, facts and envelopes add to the payload's bytes in one connection.
	overhead = 96 << 10
)

var errLate = errors.New("it took too long")

// line is the bed of a test.
type line struct {
	t   *testing.T
	ctx context.Context
	bed *bed.Bed
	// largest is the largest blob on the wire.
	largest int64
	sizes   map[string]int64
}

// startLine starts a control plane without an operator. Operators get env.
func startLine(t *testing.T, env ...string) *line {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "wmcb.exe")
	if err := os.WriteFile(file, []byte("stands for the agent"), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "windows-machine-operator")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-race", "-o", program, ".")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the operator: %v: %s", err, out)
	}
	b, err := bed.Start(t.Context(), bed.Options{Root: root, Agent: file, Operator: program, Scale: scale, PodCIDR: "10.244.0.0/16", Env: env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	l := &line{t: t, ctx: t.Context(), bed: b, sizes: map[string]int64{}}
	store, err := standin.Cached(scale)
	if err != nil {
		t.Fatal(err)
	}
	for _, blob := range store.Manifest().Blobs {
		l.sizes[blob.SHA256] = blob.CompressedSize
		l.largest = max(l.largest, blob.CompressedSize)
	}
	port, err := b.Port()
	if err != nil {
		t.Fatal(err)
	}
	p := &v1alpha1.WindowsNodeProfile{ObjectMeta: metav1.ObjectMeta{Name: bridge}}
	p.Spec.Connection.Port = int32(port)
	p.Spec.Trust.HostKeyPolicy = v1alpha1.HostKeyStrict
	p.Spec.Network.Mode = v1alpha1.NetworkL2Bridge
	if err := b.Client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return l
}

// with is the line as a subtest sees it.
func (l *line) with(t *testing.T) *line {
	c := *l
	c.t, c.ctx = t, t.Context()
	return &c
}

// operator starts one; it ends with the test, which fails when its log has a race or a panic.
func (l *line) operator(name string) *bed.Operator {
	l.t.Helper()
	o, err := l.another(name)
	if err != nil {
		l.t.Fatal(err)
	}
	return o
}

func (l *line) another(name string) (*bed.Operator, error) {
	o, err := l.bed.StartAnother(l.ctx, name, "--debug")
	if err != nil {
		return nil, err
	}
	l.t.Cleanup(func() {
		if dir := os.Getenv("CHAOS_LOGS"); dir != "" {
			b, _ := os.ReadFile(o.Log())
			_ = os.WriteFile(filepath.Join(dir, name+".log"), b, 0o600)
		}
		if err := o.Kill(); err != nil {
			l.t.Error(err)
		}
		log, err := os.ReadFile(o.Log())
		for _, bad := range []string{"DATA RACE", "panic"} {
			if i := bytes.Index(log, []byte(bad)); i >= 0 || err != nil {
				l.t.Errorf("the log of operator %s has: %s %v", name, log[max(0, i-200):min(len(log), i+3000)], err)
			}
		}
	})
	return o, nil
}

// leads waits until that operator has the lead.
func (l *line) leads(o *bed.Operator) {
	l.t.Helper()
	l.until("the operator leads", func() (bool, string) { return leading(o), "no lease yet" })
}

// leading reports whether the operator has, or had, the lead.
func leading(o *bed.Operator) bool {
	log, err := os.ReadFile(o.Log())
	return err == nil && bytes.Contains(log, []byte("Starting workers"))
}

func (l *line) until(what string, ok func() (bool, string)) {
	l.t.Helper()
	if err := poll(l.ctx, ok); err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
}

// poll looks until ok, for linePatience.
func poll(ctx context.Context, ok func() (bool, string)) error {
	ctx, cancel := context.WithTimeout(ctx, linePatience)
	defer cancel()
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for {
		done, saw := ok()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", errLate, saw)
		case <-tick.C:
		}
	}
}

// machine is one whose disk is watched.
type machine struct {
	*hostsim.Host
	l     *line
	name  string
	watch *watcher
	// began is when its WindowsHost was made.
	began time.Time
	// cuts are the connections that the row cut while the payload was sent.
	cuts int
}

// machine starts one; h may do harm.
func (l *line) machine(name string, h harm, edits ...func(*hostsim.Options)) *machine {
	l.t.Helper()
	host, err := l.bed.NewHost(name, edits...)
	if err != nil {
		l.t.Fatal(err)
	}
	m := &machine{Host: host, l: l, name: name, watch: newWatcher("")}
	m.watch.harm = h
	host.Machine().Intercept(m.watch.judge)
	return m
}

// join makes the WindowsHost of a machine.
func (m *machine) join() *machine {
	m.l.t.Helper()
	ip, _ := m.Addr()
	m.began = time.Now()
	h := &v1alpha1.WindowsHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: bed.Namespace, Name: m.name},
		Spec: v1alpha1.WindowsHostSpec{
			Address: ip, HostKeys: []string{m.HostKey()}, ProfileRef: v1alpha1.ProfileReference{Name: bridge},
		},
	}
	if err := m.l.bed.Client.Create(m.l.ctx, h); err != nil {
		m.l.t.Fatal(err)
	}
	return m
}

// at closes a channel at the first change that is like this.
func at(is func(op fake.Op, e *plan.Entry) bool) harm {
	return func(_ int, op fake.Op, e *plan.Entry) (fake.Verdict, bool) { return fake.Verdict{}, is(op, e) }
}

// begins is the journal entry that begins a step, or "" any entry of that code, of that generation.
func begins(code, step string, generation int64) func(fake.Op, *plan.Entry) bool {
	return func(_ fake.Op, e *plan.Entry) bool {
		return e != nil && e.Code == code && e.Step == step && e.Generation == generation
	}
}

// stores is the n-th blob that gets its name.
func stores(n int) func(fake.Op, *plan.Entry) bool {
	seen := 0
	return func(op fake.Op, _ *plan.Entry) bool {
		if isStored(op) {
			seen++
			return seen == n
		}
		return false
	}
}

// untilHit waits until the machine's moment has come.
func (m *machine) untilHit() {
	m.l.t.Helper()
	m.l.until(m.name+" gets to its moment", func() (bool, string) { return m.watch.wasHit(), m.state() })
}

func (m *machine) host() (*v1alpha1.WindowsHost, error) {
	h := &v1alpha1.WindowsHost{}
	return h, m.l.bed.Client.Get(m.l.ctx, client.ObjectKey{Namespace: bed.Namespace, Name: m.name}, h)
}

// state is the host in a line.
func (m *machine) state() string {
	h, err := m.host()
	if err != nil {
		return err.Error()
	}
	c := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return "no condition yet"
	}
	return fmt.Sprintf("step %q, Ready=%s %s: %s", h.Status.Step, c.Status, c.Reason, c.Message)
}

// isReady reports whether the operator is done with the host: in sync with the second plan, Node Ready, ticket gone.
func (m *machine) isReady() (bool, string) {
	h, err := m.host()
	if err != nil {
		return false, err.Error()
	}
	c := meta.FindStatusCondition(h.Status.Conditions, v1alpha1.ConditionReady)
	done := c != nil && c.Status == metav1.ConditionTrue && c.Reason == v1alpha1.ReasonNodeReady &&
		meta.IsStatusConditionTrue(h.Status.Conditions, v1alpha1.ConditionInSync) && h.Status.Ticket == nil && h.Status.Plan.Generation > 1
	if !done {
		return false, m.state()
	}
	n := &corev1.Node{}
	if err := m.l.bed.Client.Get(m.l.ctx, client.ObjectKey{Name: h.Status.Node.Name}, n); err != nil {
		return false, err.Error()
	}
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return ready, "its Node is not Ready"
}

// settled waits until the machine's node is Ready, and holds what was done against what may be done. boots are those that the fault made. It
// counts as an injection of that kind, unless that is "".
func (m *machine) settled(kind string, boots int) {
	m.l.t.Helper()
	err := poll(m.l.ctx, m.isReady)
	twice := m.watch.twice()
	if kind != "" {
		matrix.row(kind, err == nil, twice)
	}
	if err != nil {
		m.l.t.Errorf("%s: %v", m.name, err)
		m.explain()
		return
	}
	s := m.Stats()
	m.l.t.Logf("%s: Ready after %.1f s, %d connections, %d bytes sent", m.name, time.Since(m.began).Seconds(), s.Connections, s.Received)
	if twice > 0 {
		m.l.t.Errorf("%s: %d blobs were sent although they were there", m.name, twice)
	}
	var all int64
	for _, d := range m.blobs() {
		all += m.l.sizes[d]
	}
	// Each cut may have lost the blob that was under way.
	if limit := all + int64(s.Connections)*overhead + int64(m.cuts)*(m.l.largest+inFlight); s.Received > limit {
		m.l.t.Errorf("%s: %d bytes were sent in %d connections, %d of them cut, want at most %d", m.name, s.Received, s.Connections, m.cuts, limit)
	}
	if n := m.boots(); n != 1+boots {
		m.l.t.Errorf("%s: the machine was booted %d times, want %d", m.name, n, 1+boots)
	}
	if half := m.halfWritten(); len(half) > 0 {
		m.l.t.Errorf("%s: half-written files are left: %s", m.name, half)
	}
}

// blobs are those of the accepted plan.
func (m *machine) blobs() []string {
	m.l.t.Helper()
	p, _ := m.accepted()
	return p.Blobs()
}

// accepted is the plan that the machine has, and its generation.
func (m *machine) accepted() (plan.Plan, int64) {
	m.l.t.Helper()
	p, generation, err := m.plan()
	if err != nil {
		m.l.t.Fatal(err)
	}
	return p, generation
}

// halfWritten are the files that no undisturbed machine has.
func (m *machine) halfWritten() (left []string) {
	for path, f := range m.Machine().Dump().Files {
		own := strings.HasPrefix(path, plan.AgentRoot+`\`) || strings.HasPrefix(path, plan.AgentBin+`\`)
		temporary := slices.ContainsFunc([]string{".part", ".new", ".tmp", "~"}, func(s string) bool { return strings.HasSuffix(path, s) })
		folder := strings.HasPrefix(path, plan.AgentRoot+`\tmp\`) || strings.HasPrefix(path, plan.AgentRoot+`\old\`)
		if own && !f.Dir && (temporary || folder) {
			left = append(left, path)
		}
	}
	return left
}

func (m *machine) boots() (n int) {
	id, err := m.Machine().System().Machine.BootID()
	if err == nil {
		_, err = fmt.Sscanf(id[strings.LastIndexByte(id, '-')+1:], "%d", &n)
	}
	if err != nil {
		m.l.t.Error(err)
	}
	return n
}

// explain logs what there is to say about a machine.
func (m *machine) explain() {
	out, err := m.l.bed.Kubectl(m.l.ctx, "describe", "winhost", "-n", bed.Namespace, m.name)
	m.l.t.Logf("%s %v", out, err)
	b, err := m.Machine().ReadFile(journalFile)
	m.l.t.Logf("journal: %v\n%s", err, b[max(0, len(b)-3000):])
}

// entries is the machine's journal.
func (m *machine) entries() []plan.Entry {
	m.l.t.Helper()
	b, err := m.Machine().ReadFile(journalFile)
	if err != nil {
		m.l.t.Fatal(err)
	}
	return agent.ParseJournal(b)
}

// TestLine is the matrix on the whole line: first what goes wrong between a machine and a running operator, many machines side by side; then
// what goes wrong with operators and the API server.
func TestLine(t *testing.T) {
	t.Parallel()
	l := startLine(t)
	first := l.operator("first")
	l.leads(first)
	calm := l.machine("calm", nil).join()
	calm.settled("", 0)
	t.Run("connections and machines", func(t *testing.T) { l.with(t).troubles(calm) })
	t.Run("operators and API server", func(t *testing.T) { l.with(t).rule(first) })
}

// trouble is a row about a machine and its connection.
type trouble struct {
	name string
	run  func(*line)
}

// troubles runs every such row at the same time.
func (l *line) troubles(calm *machine) {
	total := calm.Stats().Received
	rows := []trouble{
		{"cut again and again", func(l *line) {
			m := l.machine("cut-often", nil)
			// Not as far as the largest blob: a transfer has to go on in the middle of one.
			after := l.largest/2 + overhead + inFlight
			m.SetKnobs(hostsim.Knobs{CutAfter: after, Bandwidth: steady})
			m.cuts = int(total/after) + 1
			m.join().settled("connection cut again and again", 0)
		}},
		{"slow line", func(l *line) {
			m := l.machine("slow", nil)
			m.SetKnobs(hostsim.Knobs{Latency: 50 * time.Millisecond, Bandwidth: 512 << 10})
			m.join().settled("slow line", 0)
		}},
		{"drips", func(l *line) {
			m := l.machine("drips", nil)
			m.SetKnobs(hostsim.Knobs{Drip: 50 * time.Microsecond})
			m.join().settled("sshd drips bytes", 0)
		}},
		{"hangs", (*line).hangs},
		{"feature", func(l *line) {
			m := l.machine("feature", nil, func(o *hostsim.Options) { o.ContainersMissing = true })
			m.join().settled("reboot that a feature needs", 1)
		}},
	}
	for i := range cuts {
		rows = append(rows, trouble{fmt.Sprintf("cut %d", i), func(l *line) { l.cut(i, total*int64(i+1)/(cuts+1)) }})
	}
	for _, e := range calm.entries() {
		if e.Code == agent.CodeStepStarted && (e.Generation == 1 || e.Step == plan.StepNetwork) {
			rows = append(rows, trouble{"pulled in " + e.Step, func(l *line) { l.down(e) }})
		}
	}
	for _, r := range rows {
		l.t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.run(l.with(t))
		})
	}
}

// cut cuts the first connection once the client has sent that many bytes.
func (l *line) cut(i int, after int64) {
	m := l.machine(fmt.Sprintf("cut-%d", i), nil)
	m.SetKnobs(hostsim.Knobs{CutAfter: after, Bandwidth: steady})
	m.cuts = 1
	m.join()
	l.until(m.name+" is connected to", func() (bool, string) { return m.Stats().Connections > 0, m.state() })
	m.SetKnobs(hostsim.Knobs{})
	m.settled("connection cut during the upload", 0)
}

// hangs has the connection fall silent while the agent works. Nobody closes it.
func (l *line) hangs() {
	m := l.machine("hangs", at(begins(agent.CodeStepStarted, plan.StepFiles, 1))).join()
	m.untilHit()
	m.SetKnobs(hostsim.Knobs{Hang: true})
	l.until("the operator gives the connection up", func() (bool, string) { return m.Stats().Connections > 1, m.state() })
	m.SetKnobs(hostsim.Knobs{})
	m.settled("sshd hangs without closing", 0)
}

// down pulls the machine from the wall in a step. The agent dies first, so that it is not steps further by the time that the power is gone.
func (l *line) down(in plan.Entry) {
	is, over := begins(in.Code, in.Step, in.Generation), false
	m := l.machine(fmt.Sprintf("pulled-%d-%d", in.Generation, in.Index), func(_ int, op fake.Op, e *plan.Entry) (fake.Verdict, bool) {
		if over || !is(op, e) {
			return fake.Verdict{}, false
		}
		over = true
		return fake.Verdict{KillAfter: true}, true
	}).join()
	m.untilHit()
	m.pull()
	m.settled("machine pulled from the wall in a step", 1)
}

func (m *machine) pull() {
	m.Machine().PowerCut(fake.TearZeros)
	if err := m.Machine().PowerOn(m.l.ctx); err != nil {
		m.l.t.Error(err)
	}
}
