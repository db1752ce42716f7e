package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/windowsmachine/operator/test/bed"
	"github.com/windowsmachine/operator/test/hostsim"
	"github.com/windowsmachine/operator/test/payload"
)

// Options of Run.
type Options struct {
	// Quick is a short run with fewer machines.
	Quick bool
	// Only runs the scenarios whose name begins so; "" runs all.
	Only string
	// Operator and Agent are the programs, Local is the agent's as it builds for this system.
	Operator, Agent, Local string
	// Measure is the program of test/wine/measure; "" leaves out what the agent costs as it goes to Windows.
	Measure string
	// Logf gets progress.
	Logf func(format string, args ...any)
}

// scenario is a group of machines that goes through the phases together.
type scenario struct {
	name  string
	hosts int
	rtt   time.Duration
	scale float64
	// given is a profile that brings its CNI configuration: one plan, and no network that drops the link.
	given bool
	// stub puts a few bytes on machines in the agent's place. They know it by its digest, and run the real one.
	stub bool
	// batch is how many hosts are made at a time, 0 for all. No more are made after budget: what there is by then is measured.
	batch  int
	budget time.Duration
	// phases after the first configuration.
	phases []phase
}

// phase is one thing that is measured.
type phase string

const (
	phaseFirst   phase = "first"
	phaseAgain   phase = "again"
	phaseRestart phase = "restart"
	phaseChanged phase = "changed"
)

// Scales of the stand-in payload: real sizes; about 20 MB sent to a machine, the agent included; hardly anything.
const (
	scaleReal  = 1
	scaleCrowd = 0.13
	scaleIdle  = 0.002
)

func scenarios(quick bool) []scenario {
	all := []phase{phaseAgain, phaseRestart, phaseChanged}
	if quick {
		return []scenario{
			{name: "real", hosts: 1, rtt: 5 * time.Millisecond, scale: scaleReal, phases: all},
			{name: "crowd", hosts: 5, rtt: 5 * time.Millisecond, scale: 0.05},
			idle(20),
		}
	}
	var out []scenario
	for _, hosts := range []int{1, 10} {
		for _, rtt := range []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond} {
			out = append(out, scenario{name: "real", hosts: hosts, rtt: rtt, scale: scaleReal, phases: all})
		}
	}
	out = append(out,
		scenario{name: "crowd", hosts: 100, rtt: 5 * time.Millisecond, scale: scaleCrowd},
		scenario{name: "given", hosts: 1, rtt: 5 * time.Millisecond, scale: scaleReal, given: true})
	return append(out, idle(1000))
}

// idle configures many machines as cheaply as can be, and then starts the operator anew: it looks at each of them once.
func idle(hosts int) scenario {
	return scenario{
		name: "idle", hosts: hosts, scale: scaleIdle, given: true, stub: true, phases: []phase{phaseRestart}, batch: 100, budget: 6 * time.Minute,
	}
}

// run is one run of the benchmark.
type run struct {
	Options
	began   time.Time
	dir     string
	bed     *bed.Bed
	watch   *watcher
	tracer  *tracer
	changed map[float64]string
	result  Result
}

// Run measures everything and returns what was measured; on an error it is what was measured until then.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	r := &run{Options: o, began: time.Now(), tracer: &tracer{}, changed: map[float64]string{}}
	r.result = Result{Date: time.Now().UTC().Format(time.RFC3339), Machine: thisMachine(), Quick: o.Quick}
	var err error
	if r.result.Agent, err = program(ctx, o.Agent, o.Local); err != nil {
		return r.result, err
	}
	r.windowsProgram(ctx)
	err = r.all(ctx)
	r.result.Machine.LoadAfter = loadAverage()
	r.result.Seconds = time.Since(r.began).Seconds()
	r.result.Targets = targets(r.result.Rows, r.result.Reactions)
	return r.result, err
}

// windowsProgram measures the agent as it goes to Windows. Where that cannot be done the rest still counts, and the result says what is left out.
func (r *run) windowsProgram(ctx context.Context) {
	if r.Measure == "" {
		r.result.Agent.LeftOut = "no program for that was given (--measure)"
		return
	}
	r.say("starting wmcb.exe on a machine of Wine")
	w, err := underWine(ctx, r.Measure, r.Agent, os.Geteuid())
	if err != nil {
		r.result.Agent.LeftOut = err.Error()
		r.say("left out: %v", err)
	}
	r.result.Agent.Wine = w
}

func (r *run) all(ctx context.Context) (err error) {
	if r.dir, err = os.MkdirTemp("", "windowsmachine-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	r.bed, err = bed.Start(ctx, bed.Options{
		Operator: r.Operator, Agent: r.Agent, Scale: scaleIdle, PodCIDR: "10.128.0.0/9", MachineAPI: true, Dir: r.dir, Logf: r.Logf,
		Machine: func(name string, o *hostsim.Options) { o.Trace = r.tracer.of(name) },
	})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := r.bed.Close(); err == nil {
			err = cerr
		}
	}()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if r.watch, err = watch(watching, r.bed.RESTConfig(), r.bed.Client.Scheme()); err != nil {
		return fmt.Errorf("watching the cluster: %w", err)
	}
	return r.measure(ctx)
}

func (r *run) measure(ctx context.Context) error {
	if err := r.bed.ApplyProfile(ctx); err != nil {
		return err
	}
	if r.wanted("reactions") {
		if err := r.reactions(ctx); err != nil {
			return fmt.Errorf("reactions: %w", err)
		}
	}
	for _, s := range scenarios(r.Quick) {
		if !r.wanted(s.name) {
			continue
		}
		if err := r.scenario(ctx, s); err != nil {
			return fmt.Errorf("%s, %d hosts, %s: %w\nthe operator's log: %s", s.name, s.hosts, s.rtt, err, r.lastWords())
		}
	}
	return nil
}

func (r *run) wanted(name string) bool { return r.Only == "" || r.Only == name }

func (r *run) say(format string, args ...any) {
	r.Logf("%6.1fs  %s", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// payloads returns the stores of that scale: the usual one, and one in which kubelet.exe has another version.
func (r *run) payloads(scale float64, both bool) (usual, changed string, err error) {
	began := time.Now()
	s, err := payload.Cached(scale)
	if err != nil {
		return "", "", err
	}
	if !both {
		return s.Dir(), "", nil
	}
	if r.changed[scale] == "" {
		dir := filepath.Join(r.dir, fmt.Sprintf("payload-%v", scale))
		if err := variant(s, dir, changedBlob); err != nil {
			return "", "", fmt.Errorf("making a changed payload: %w", err)
		}
		r.changed[scale] = dir
		r.say("payload of scale %v is ready after %.1f s", scale, time.Since(began).Seconds())
	}
	return s.Dir(), r.changed[scale], nil
}

// lastWords are the end of the operator's log.
func (r *run) lastWords() string {
	b, err := os.ReadFile(r.bed.OperatorLog())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}
