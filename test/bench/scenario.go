package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/test/bed"
	"github.com/windowsmachine/operator/test/hostsim"
)

// machine is one of a scenario.
type machine struct {
	*hostsim.Host
	name string
}

// group is a scenario under way.
type group struct {
	*run
	scenario
	usual, changed string
	machines       []machine
	// blobs are what the machines' files hold, each kept once.
	blobs   *fake.Blobs
	profile *v1alpha1.WindowsNodeProfile
	meter   meter
	// idle is what a start with nothing to do has used.
	idle usage
}

// patience bounds one phase.
func (s scenario) patience() time.Duration {
	return 2*time.Minute + s.budget + time.Duration(s.hosts)*100*time.Millisecond
}

func (r *run) scenario(ctx context.Context, s scenario) (err error) {
	g := &group{run: r, scenario: s, blobs: fake.NewBlobs()}
	if g.usual, g.changed, err = r.payloads(s.scale, len(s.phases) > 1); err != nil {
		return err
	}
	r.tracer.forget()
	defer func() { err = errors.Join(err, g.clear(context.WithoutCancel(ctx))) }()
	if g.profile, err = r.makeProfile(ctx, s); err != nil {
		return err
	}
	if err := g.startOperator(ctx, g.usual); err != nil {
		return err
	}
	if g.idle, err = g.meter.settle(ctx); err != nil {
		return err
	}
	if g.machines, err = g.makeMachines(g.batchSize()); err != nil {
		return err
	}
	if err := g.measure(ctx, phaseFirst, g.idle, g.first); err != nil {
		return err
	}
	for _, p := range s.phases {
		if err := g.phase(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) phase(ctx context.Context, p phase) error {
	switch p {
	case phaseAgain:
		before, err := g.meter.settle(ctx)
		if err != nil {
			return err
		}
		return g.measure(ctx, p, before, g.again)
	case phaseRestart:
		return g.measure(ctx, p, g.idle, func(ctx context.Context) (time.Duration, error) { return g.restart(ctx, g.usual, g.asked) })
	case phaseChanged:
		digests := g.watch.digests()
		return g.measure(ctx, p, g.idle, func(ctx context.Context) (time.Duration, error) {
			return g.restart(ctx, g.changed, func(ctx context.Context) (time.Time, error) {
				err := g.untilNew(ctx, digests)
				return time.Now(), err
			})
		})
	}
	return fmt.Errorf("%w: %s", errPhase, p)
}

var errPhase = errors.New("unknown phase")

// measure runs one phase and adds its row; before is what the operator had used that the phase does not count.
func (g *group) measure(ctx context.Context, p phase, before usage, do func(context.Context) (time.Duration, error)) error {
	ctx, cancel := context.WithTimeout(ctx, g.patience())
	defer cancel()
	stats := g.stats()
	if p != phaseRestart && p != phaseChanged {
		if err := g.meter.resetPeak(); err != nil {
			return err
		}
	}
	wall, err := do(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	after, err := g.meter.settle(ctx)
	if err != nil {
		return err
	}
	row := rowOf(stats, g.stats())
	row.Scenario, row.Phase, row.Hosts, row.RTT = g.name, string(p), g.hosts, float64(g.rtt)/float64(time.Millisecond)
	row.Wall, row.CPU = wall.Seconds(), max(0, (after.cpu-before.cpu).Seconds())
	row.BaseMB, row.PeakMB, row.Writes = mega(g.idle.rss), mega(after.peak), max(0, after.writes-before.writes)
	if row.Changed, err = g.sizeOf(p); err != nil {
		return err
	}
	row.compare()
	g.result.Rows = append(g.result.Rows, row)
	g.say("%s", row.line())
	return nil
}

func mega(bytes int64) float64 { return float64(bytes) / 1e6 }

// rowOf counts what the machines saw: the most of one machine where it is a machine's, the sum where it is everybody's.
func rowOf(before, after []hostsim.Stats) Row {
	var r Row
	for i, a := range after {
		var b hostsim.Stats
		if i < len(before) {
			b = before[i]
		}
		r.Channels = max(r.Channels, a.Sessions-b.Sessions)
		r.Turns = max(r.Turns, a.Turns-b.Turns)
		r.SFTP = max(r.SFTP, a.SFTPRequests-b.SFTPRequests)
		r.Connections = max(r.Connections, a.Connections-b.Connections)
		r.BytesPerHost = max(r.BytesPerHost, a.Received-b.Received)
		r.Bytes += a.Received - b.Received
		for _, c := range a.Commands[len(b.Commands):] {
			if strings.Contains(strings.ToLower(c), "powershell") {
				r.PowerShell++
			}
		}
	}
	return r
}

func (g *group) stats() []hostsim.Stats {
	var out []hostsim.Stats
	for _, m := range g.machines {
		out = append(out, m.Stats())
	}
	return out
}

// batchSize is how many machines are made next.
func (g *group) batchSize() int {
	left := g.hosts - len(g.machines)
	if g.batch > 0 {
		return min(g.batch, left)
	}
	return left
}

func (g *group) makeMachines(n int) ([]machine, error) {
	var made []machine
	for i := range n {
		name := fmt.Sprintf("%c%d-%d-%d", g.name[0], g.hosts, g.rtt.Milliseconds(), len(g.machines)+i)
		h, err := g.bed.NewHost(name, func(o *hostsim.Options) {
			o.Machine.Blobs = g.blobs
			if g.stub {
				o.Agents[hostsim.Agent([]byte(stubAgent))] = "bench"
			}
			o.Trace = g.tracer.of(name)
		})
		if err != nil {
			return made, err
		}
		h.SetKnobs(hostsim.Knobs{Latency: g.rtt / 2})
		made = append(made, machine{h, name})
	}
	return made, nil
}

// makeProfile makes a profile of the scenario's own.
func (r *run) makeProfile(ctx context.Context, s scenario) (*v1alpha1.WindowsNodeProfile, error) {
	port, err := r.bed.Port()
	if err != nil {
		return nil, err
	}
	p := &v1alpha1.WindowsNodeProfile{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d-%d", s.name, s.hosts, s.rtt.Milliseconds())},
		Spec: v1alpha1.WindowsNodeProfileSpec{
			Connection: v1alpha1.ConnectionSpec{Port: int32(port)},
			Trust:      v1alpha1.TrustSpec{HostKeyPolicy: v1alpha1.HostKeyStrict},
			Network:    v1alpha1.NetworkSpec{Mode: v1alpha1.NetworkL2Bridge},
		},
	}
	if s.given {
		p.Spec.Network = v1alpha1.NetworkSpec{Mode: v1alpha1.NetworkCustom, CNIConfig: `{"cniVersion":"1.0.0","name":"own","type":"host-local"}`}
	}
	return p, r.bed.Client.Create(ctx, p)
}

// start starts the operator without leader election, whose writes are no host's.
func (r *run) start(ctx context.Context, store string, flags ...string) (meter, error) {
	metrics, err := freePort()
	if err != nil {
		return meter{}, err
	}
	flags = append([]string{"--leader-elect=false", "--payload", store, "--metrics-bind-address", metrics}, flags...)
	err = r.bed.StartOperator(ctx, flags...)
	return meter{pid: r.bed.OperatorPID(), metrics: metrics}, err
}

// stubAgent stands for the agent.
const stubAgent = "stands for the agent\n"

func (g *group) startOperator(ctx context.Context, store string) (err error) {
	var flags []string
	if g.stub {
		file := filepath.Join(g.dir, "stub.exe")
		if err := os.WriteFile(file, []byte(stubAgent), 0o600); err != nil {
			return err
		}
		flags = []string{"--agent", file}
	}
	g.meter, err = g.start(ctx, store, flags...)
	return err
}

// first has all machines configured, batch after batch.
func (g *group) first(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	batch := g.machines
	for {
		if err := g.join(ctx, batch); err != nil {
			return 0, err
		}
		size := g.batchSize()
		if size == 0 || time.Since(began) > g.budget {
			g.hosts = len(g.machines)
			return time.Since(began), nil
		}
		g.say("%-6s %4d hosts are Ready", g.name, len(g.machines))
		var err error
		batch, err = g.makeMachines(size)
		g.machines = append(g.machines, batch...)
		if err != nil {
			return 0, err
		}
	}
}

// join makes the hosts of machines and waits until all are Ready.
func (g *group) join(ctx context.Context, machines []machine) error {
	var work errgroup.Group
	work.SetLimit(16)
	for _, m := range machines {
		work.Go(func() error {
			ip, _ := m.Addr()
			return g.bed.Client.Create(ctx, &v1alpha1.WindowsHost{
				ObjectMeta: metav1.ObjectMeta{Namespace: bed.Namespace, Name: m.name},
				Spec: v1alpha1.WindowsHostSpec{
					Address: ip, HostKeys: []string{m.HostKey()}, ProfileRef: v1alpha1.ProfileReference{Name: g.profile.Name},
				},
			})
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	return g.watch.until(ctx, len(g.machines), func(_ string, s state) bool { return s.profile == g.profile.Name && s.inSync() })
}

// again changes a setting: the plan is another, the payload is not, and the agent verifies every file.
func (g *group) again(ctx context.Context) (time.Duration, error) {
	digests := g.watch.digests()
	began := time.Now()
	before := g.profile.DeepCopy()
	g.profile.Spec.Kubelet.Verbosity = ptr.To(int32(5))
	if err := g.bed.Client.Patch(ctx, g.profile, client.MergeFrom(before)); err != nil {
		return 0, err
	}
	err := g.untilNew(ctx, digests)
	return time.Since(began), err
}

// untilNew waits until all hosts have another plan than they had.
func (g *group) untilNew(ctx context.Context, digests map[string]string) error {
	return g.watch.until(ctx, g.hosts, func(name string, s state) bool {
		return s.profile == g.profile.Name && s.inSync() && s.digest != digests[name]
	})
}

// restart starts the operator anew. The time counts from the first connection: how long a process takes to start is no matter of machines.
func (g *group) restart(ctx context.Context, store string, until func(context.Context) (time.Time, error)) (time.Duration, error) {
	if err := g.bed.StopOperator(); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := g.startOperator(ctx, store); err != nil {
		return 0, err
	}
	ended, err := until(ctx)
	if err != nil {
		return 0, err
	}
	first := ended
	for _, moments := range g.tracer.since(began) {
		for _, m := range moments {
			if m.At.Before(first) {
				first = m.At
			}
		}
	}
	return ended.Sub(first), nil
}

// asked waits until every machine has been asked for its facts since the call, and returns when the last one answered.
func (g *group) asked(ctx context.Context) (last time.Time, err error) {
	began := time.Now()
	err = every(ctx, 100*time.Millisecond, func() (bool, error) {
		seen := g.tracer.since(began)
		for _, m := range g.machines {
			at, ok := ended(seen[m.name], "facts")
			if !ok {
				return false, nil
			}
			if at.After(last) {
				last = at
			}
		}
		return true, nil
	})
	return last, err
}

// ended is when a subcommand of the agent ended first.
func ended(moments []hostsim.Moment, command string) (time.Time, bool) {
	for _, m := range moments {
		if m.Kind == hostsim.MomentEnd && subcommand(m.Command) == command {
			return m.At, true
		}
	}
	return time.Time{}, false
}

// sizeOf is what of the payload an upgrade must send to a machine.
func (g *group) sizeOf(p phase) (int64, error) {
	if p != phaseChanged {
		return 0, nil
	}
	s, err := payload.OpenStore(g.changed)
	if err != nil {
		return 0, err
	}
	b, _ := s.Lookup(changedBlob)
	return b.CompressedSize, nil
}

// clear takes everything away without cleaning the machines.
func (g *group) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	errs := []error{g.bed.StopOperator()}
	var work errgroup.Group
	work.SetLimit(16)
	for _, m := range g.machines {
		work.Go(func() error {
			return errors.Join(g.bed.Delete(ctx, "", m.name), release(ctx, g.bed.Client, m.name))
		})
	}
	return errors.Join(append(errs, work.Wait())...)
}

// release deletes a host and its Node.
func release(ctx context.Context, c client.Client, name string) error {
	h := &v1alpha1.WindowsHost{ObjectMeta: metav1.ObjectMeta{Namespace: bed.Namespace, Name: name}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	return errors.Join(
		client.IgnoreNotFound(c.Patch(ctx, h, patch)),
		client.IgnoreNotFound(c.Delete(ctx, h)),
		client.IgnoreNotFound(c.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})))
}
