package host

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/plan"
)

func TestNextOrder(t *testing.T) {
	now := at().UnixMilli()
	for name, c := range map[string]struct{ last, want int64 }{
		"the first":                   {0, now},
		"the next":                    {now - 5000, now},
		"in the same millisecond":     {now, now + 1},
		"the clock went back":         {now + 60_000, now + 60_001},
		"restored from an old backup": {now - 3_600_000, now},
	} {
		if got := nextOrder(c.last, at()); got != c.want {
			t.Errorf("%s: %d after %d, want %d", name, got, c.last, c.want)
		}
	}
}

// What changes the machine has a place of its own among all that was asked of it; what only looks costs no write of the status.
func TestOnlyChangesTakeAnOrder(t *testing.T) {
	for _, v := range []host.Verb{"", host.VerbConnect, host.VerbFacts, host.VerbFollow, host.VerbReboot, host.VerbStage, host.VerbApply, host.VerbRemove} {
		p := &pass{view: aView(connected)}
		p.verb = v
		s := v1alpha1.WindowsHostStatus{Order: 7}
		p.claim(&s)
		if !changes(v) {
			if s.Order != 7 || p.args.Envelope.Order != 0 || p.args.Claim != (plan.Claim{}) {
				t.Errorf("%q: order %d, claim %+v", v, s.Order, p.args.Claim)
			}
			continue
		}
		want := plan.Claim{Host: "uid-a", Order: at().UnixMilli()}
		if s.Order != want.Order || p.args.Envelope.Order != want.Order || p.args.Claim != want {
			t.Errorf("%q: order %d on record, envelope %d, claim %+v", v, s.Order, p.args.Envelope.Order, p.args.Claim)
		}
	}
}

// Each hand-over of the same plan has a higher order than the one before, whatever the clock says, and that is on record before the machine hears of it.
func TestOrderIsOnRecordBeforeTheEnvelopeIsSent(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, object())
	var recorded []int64
	w.machine.onApply = func(plan.Envelope) { recorded = append(recorded, w.host().Status.Order) }
	w.until("handed over", handedOver)
	w.clock.SetTime(at().Add(joinPatience - time.Hour))
	when := metav1.NewTime(at().Add(-2 * time.Hour))
	w.stand(func(h *v1alpha1.WindowsHost) {
		h.Status.Ticket.ApprovedCSR, h.Status.Ticket.ApprovedAt = "csr-1", &when
	})
	w.pass()
	var sent []int64
	for _, e := range w.machine.envelopes {
		sent = append(sent, e.Order)
	}
	if first := at().UnixMilli(); !slices.Equal(sent, recorded) || !slices.Equal(sent, []int64{first, first + 1}) {
		t.Errorf("orders %d sent, %d on record, want %d and the next", sent, recorded, first)
	}
	if a, b := w.machine.envelopes[0], w.machine.envelopes[1]; a.Generation != b.Generation || a.Plan.Digest() != b.Plan.Digest() {
		t.Error("it was another plan")
	}
	ran := w.machine.verbs()
	w.pass()
	if got := w.host().Status.Order; got != sent[1] || w.machine.verbs() != ran {
		t.Errorf("order %d after a pass that had nothing to do, ran %q", got, w.machine.verbs())
	}
}

// operator is another one over the same cluster and machine.
func (w *world) operator() *world {
	w.t.Helper()
	b, r := *w, *w.r
	b.notes = make(chan string, cap(w.notes))
	b.pool = host.NewPool(host.Config{
		Dialer: w.machine, Now: w.clock.Now, Notify: func(k string) { b.notes <- k }, Agent: agentBinary(),
	})
	w.t.Cleanup(b.pool.Close)
	r.Pool = b.pool
	b.r = &r
	return &b
}

// TestLateHandOver: a hand-over hangs on its connection, another operator takes over and hands the same plan over. When the first one comes to its end,
// the machine can tell that it is late.
func TestLateHandOver(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, object())
	held, arrived := make(chan struct{}), make(chan plan.Envelope, 8)
	w.machine.onApply = func(e plan.Envelope) {
		arrived <- e
		if len(e.Secrets) > 0 && len(arrived) == 1 {
			<-held
		}
	}
	w.until("named", func(h *v1alpha1.WindowsHost) bool { return h.Status.Node != nil })
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object())}
	for w.pool.Session(sessionKey(object())).Snapshot().Busy != host.VerbApply {
		if _, err := w.r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	b := w.operator()
	b.until("handed over by the other one", handedOver)
	close(held)
	w.idle(object())
	first, second := <-arrived, <-arrived
	if first.Generation != second.Generation || first.Plan.Digest() != second.Plan.Digest() || first.Host != second.Host {
		t.Fatalf("generation %d and %d", first.Generation, second.Generation)
	}
	if first.Order == 0 || first.Order >= second.Order {
		t.Errorf("order %d is not before %d", first.Order, second.Order)
	}
	// The first one, when it wakes up, rests on what is on record and not on what it remembers.
	if got := w.host().Status.Order; got != second.Order {
		t.Errorf("order %d on record, want %d", got, second.Order)
	}
}

// A refusal for its order says what it may be.
func TestOrderRefused(t *testing.T) {
	late := &host.Refusal{Code: agent.CodeOrderOld, Detail: "a later request was carried out before: order 8, offered 7"}
	for v, edits := range map[host.Verb][]func(*view){
		host.VerbApply: {connected, named, loaded, failed(host.VerbApply, late, 1)},
		host.VerbStage: {connected, named, failed(host.VerbStage, late, 1)},
	} {
		p := walk(aView(edits...))
		if c := readyOf(p); p.verb != v || !strings.Contains(c.Message, "asked again") {
			t.Errorf("after a refused %s: verb %q, %s", v, p.verb, c.Message)
		}
	}
}
