package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/test/hostsim"
)

// Reaction is how long the operator took from seeing an event to answering it, over all machines of the run. Both are seen from outside: by
// watches, and at the machines.
type Reaction struct {
	Name string  `json:"name"`
	N    int     `json:"n"`
	P50  float64 `json:"p50_ms"`
	P95  float64 `json:"p95_ms"`
	Max  float64 `json:"max_ms"`
}

// distribution sums up.
func distribution(name string, all []time.Duration) Reaction {
	r := Reaction{Name: name, N: len(all)}
	if len(all) == 0 {
		return r
	}
	slices.Sort(all)
	at := func(percent int) float64 {
		// The smallest value that so many percent do not exceed.
		return float64(all[max(0, (len(all)*percent+99)/100-1)]) / float64(time.Millisecond)
	}
	r.P50, r.P95, r.Max = at(50), at(95), at(100)
	return r
}

// reactions has a MachineSet grow and times each step.
func (r *run) reactions(ctx context.Context) (err error) {
	replicas := 10
	if r.Quick {
		replicas = 5
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	store, _, err := r.payloads(scaleIdle, false)
	if err != nil {
		return err
	}
	m, err := r.start(ctx, store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.bed.StopOperator()) }()
	if _, err := m.settle(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := r.bed.ApplyMachineSet(ctx, replicas); err != nil {
		return err
	}
	if err := r.watch.until(ctx, replicas, func(_ string, s state) bool {
		return s.profile == v1alpha1.DefaultProfile && s.inSync()
	}); err != nil {
		return err
	}
	r.result.Reactions = r.timings(began)
	for _, x := range r.result.Reactions {
		r.say("%-55s p50 %4.0f ms, p95 %4.0f ms, max %4.0f ms (%d)", x.Name, x.P50, x.P95, x.Max, x.N)
	}
	if err := r.bed.ApplyMachineSet(ctx, 0); err != nil {
		return err
	}
	return every(ctx, 100*time.Millisecond, func() (bool, error) { return r.bed.Hosts() == 0 && len(r.watch.digests()) == 0, nil })
}

// timings pairs events and reactions by machine, or by request for certificates.
func (r *run) timings(began time.Time) []Reaction {
	seen := func(s sight) map[string]time.Time { return r.watch.times(s, began) }
	moments := r.tracer.since(began)
	provisioned, hosts, node, podCIDR := seen(sawProvisioned), seen(sawHost), seen(sawNode), seen(sawPodCIDR)
	connected := firsts(moments, func(m hostsim.Moment) bool { return m.Kind == hostsim.MomentConnect })
	second := applies(moments, hostsim.MomentStart, 1)
	return []Reaction{
		between("Machine Provisioned -> WindowsHost made", provisioned, hosts),
		between("WindowsHost made -> connection to the machine", hosts, connected),
		distribution("agent has answered -> next command, on one connection", gaps(moments)),
		between("CSR made -> approved", seen(sawCSR), seen(sawApproved)),
		between("Node made -> marked and labelled", node, seen(sawAdopted)),
		between("pod CIDR and first plan applied -> second plan sent", later(podCIDR, applies(moments, hostsim.MomentEnd, 0)), second),
		between("Node Ready and second plan applied -> WindowsHost Ready", later(seen(sawNodeReady), lastWatch(moments)), seen(sawReady)),
	}
}

// between is how long it took from each event to its reaction; one that came before counts as at once.
func between(name string, from, to map[string]time.Time) Reaction {
	var all []time.Duration
	for key, a := range from {
		if b, ok := to[key]; ok {
			all = append(all, max(0, b.Sub(a)))
		}
	}
	return distribution(name, all)
}

// later is the later one of two events.
func later(a, b map[string]time.Time) map[string]time.Time {
	out := map[string]time.Time{}
	for key, t := range a {
		u, ok := b[key]
		switch {
		case !ok:
		case u.After(t):
			out[key] = u
		default:
			out[key] = t
		}
	}
	return out
}

// firsts is the first moment of each machine for which is holds.
func firsts(moments map[string][]hostsim.Moment, is func(hostsim.Moment) bool) map[string]time.Time {
	out := map[string]time.Time{}
	for name, all := range moments {
		if i := slices.IndexFunc(all, is); i >= 0 {
			out[name] = all[i].At
		}
	}
	return out
}

// applies is when each machine's n-th apply began or ended.
func applies(moments map[string][]hostsim.Moment, kind hostsim.MomentKind, n int) map[string]time.Time {
	out := map[string]time.Time{}
	for name, all := range moments {
		left := n
		for _, m := range all {
			if m.Kind != kind || subcommand(m.Command) != "apply" {
				continue
			}
			if left == 0 {
				out[name] = m.At
				break
			}
			left--
		}
	}
	return out
}

// lastWatch is when the last command of each machine that tells how a run goes ended.
func lastWatch(moments map[string][]hostsim.Moment) map[string]time.Time {
	out := map[string]time.Time{}
	for name, all := range moments {
		for _, m := range all {
			if c := subcommand(m.Command); m.Kind == hostsim.MomentEnd && (c == "apply" || c == "status" || c == "facts") {
				out[name] = m.At
			}
		}
	}
	return out
}

// gaps are the times from the end of a command to the start of the next up to the first apply: from there on a machine waits for its node.
func gaps(moments map[string][]hostsim.Moment) []time.Duration {
	var out []time.Duration
	for _, all := range moments {
		out = append(out, gapsOf(all)...)
	}
	return out
}

func gapsOf(all []hostsim.Moment) (out []time.Duration) {
	var end time.Time
	for _, m := range all {
		switch m.Kind {
		case hostsim.MomentEnd:
			end = m.At
		case hostsim.MomentStart:
			if !end.IsZero() {
				out = append(out, m.At.Sub(end))
			}
			if subcommand(m.Command) == "apply" {
				return out
			}
		}
	}
	return out
}
