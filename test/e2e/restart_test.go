package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/hostsim"
	standin "github.com/windowsmachine/operator/test/payload"
)

const (
	// stopLimit is how long a graceful stop may take.
	stopLimit = 10 * time.Second
	// slowLine makes sending the payload last some seconds.
	slowLine = 1 << 20
	// overhead is what SSH, the agent's file and envelopes may add to the payload's bytes, besides a twentieth.
	overhead = 64 << 10
)

// TestOperatorRestart: an operator that is stopped or killed while it works goes on where it was; nodes do not notice. No other
// test uses the bed meanwhile.
func TestOperatorRestart(t *testing.T) {
	t.Parallel()
	defer run.rough.reserve()()
	r := newRig(t, run.rough)
	veteran := r.machine("veteran")
	r.join(hostOf(veteran))
	node := r.node(r.untilReady(veteran.name))

	stopped := r.machine("stopped")
	r.interruptStaging(stopped, func() {
		began := time.Now()
		if err := r.bed.StopOperator(); err != nil {
			t.Fatal(err)
		}
		r.took("graceful stop", began)
		if d := time.Since(began); d > stopLimit {
			t.Errorf("the operator took %s to stop", d)
		}
		r.untilClosed(stopped)
		r.untilClosed(veteran)
	})

	killed := r.machine("killed")
	r.join(hostOf(killed))
	r.until("the agent works", func() (bool, string) {
		b, err := r.bed.File(killed.name, journalFile)
		return err == nil && len(b) > 0, fmt.Sprint(err)
	})
	if err := r.bed.KillOperator(); err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	r.untilClosed(killed)
	// The agent goes on by itself, and the veteran's kubelet goes on with its lease.
	r.until("the agent finishes without the operator", func() (bool, string) {
		entries := r.journal(killed)
		last := entries[len(entries)-1]
		return last.Code == agent.CodeRunDone, last.Code + " " + last.Step
	})
	r.untilRenewed(node.Name, at)
	r.startOperator()
	r.untilReady(killed.name)
	r.took("killed and Ready", at)
	if n := countReceive(killed.Stats()); n != 1 {
		t.Errorf("the payload was sent %d times", n)
	}

	now := r.node(r.untilReady(veteran.name))
	if !nodeReady(now) || now.UID != node.UID || readySince(now) != readySince(node) {
		t.Errorf("Node %s did not stay Ready: since %s, was since %s", now.Name, readySince(now), readySince(node))
	}
	if n := countReceive(veteran.Stats()); n != 1 {
		t.Errorf("the payload was sent to the Ready node %d times", n)
	}
}

func (r *rig) startOperator() {
	r.t.Helper()
	if err := r.bed.StartOperator(r.ctx, "--debug"); err != nil {
		r.t.Fatal(err)
	}
}

// interruptStaging ends the operator while it sends the payload, starts it again, and checks that what had arrived whole is not sent twice.
func (r *rig) interruptStaging(m *machine, end func()) {
	r.t.Helper()
	m.SetKnobs(hostsim.Knobs{Bandwidth: slowLine})
	r.join(hostOf(m))
	r.until("some of the payload has arrived", func() (bool, string) {
		have := r.blobs(m)
		return len(have) >= 2, fmt.Sprintf("%v, %d bytes", have, m.Stats().Received)
	})
	end()
	have, before := r.blobs(m), m.Stats().Received
	began := time.Now()
	r.startOperator()
	r.untilReady(m.name)
	r.took("started again to Ready", began)

	sizes, want, kept := r.sizes(), int64(0), int64(0)
	for _, d := range r.planBlobs(m) {
		if slices.Contains(have, d) {
			kept += sizes[d]
		} else {
			want += sizes[d]
		}
	}
	sent := m.Stats().Received - before
	limit := want + want/20 + overhead
	r.t.Logf("%d blobs of %d bytes had arrived; %d bytes were missing, %d were sent", len(have), kept, want, sent)
	if want == 0 || kept < overhead {
		r.t.Errorf("the operator was not ended in the middle: %d bytes had arrived, %d were missing", kept, want)
	}
	if sent > limit {
		r.t.Errorf("%d bytes were sent, want at most %d", sent, limit)
	}
}

var wholeBlob = regexp.MustCompile(`[0-9a-f]{64}$`)

// blobs are the digests of those that are on the machine.
func (r *rig) blobs(m *machine) []string {
	r.t.Helper()
	dir := step.BlobPath(plan.AgentRoot, "x")
	infos, err := m.Machine().System().Files.ReadDir(dir[:len(dir)-2])
	if err != nil {
		if errors.Is(err, system.ErrNotExist) {
			return nil
		}
		r.t.Fatal(err)
	}
	var out []string
	for _, i := range infos {
		if d := wholeBlob.FindString(i.Path); d != "" {
			out = append(out, d)
		}
	}
	return out
}

// planBlobs are the digests that the machine's plan needs.
func (r *rig) planBlobs(m *machine) []string {
	r.t.Helper()
	var accepted struct{ Plan json.RawMessage }
	if err := json.Unmarshal(r.file(m, planFile), &accepted); err != nil {
		r.t.Fatal(err)
	}
	p, err := plan.Parse(accepted.Plan)
	if err != nil {
		r.t.Fatal(err)
	}
	return p.Blobs()
}

// sizes are those on the wire, by digest.
func (r *rig) sizes() map[string]int64 {
	r.t.Helper()
	store, err := standin.Cached(largeScale)
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]int64{}
	for _, b := range store.Manifest().Blobs {
		out[b.SHA256] = b.CompressedSize
	}
	return out
}

// untilRenewed waits until the node's lease was renewed after that time.
func (r *rig) untilRenewed(node string, after time.Time) {
	r.t.Helper()
	r.until("the lease of "+node+" is renewed", func() (bool, string) {
		l := &coordinationv1.Lease{}
		err := r.bed.Client.Get(r.ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node}, l)
		if err != nil || l.Spec.RenewTime == nil {
			return false, fmt.Sprint(err)
		}
		return l.Spec.RenewTime.After(after), "renewed at " + l.Spec.RenewTime.String()
	})
}

func readySince(n *corev1.Node) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
