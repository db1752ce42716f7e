package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/plan"
)

// A kubelet whose ticket ended before it asked, or that lost its key after its certificate was approved, gets another ticket; nobody else
// does.
func TestTicketIsRenewed(t *testing.T) {
	inSync := plan.Report{Phase: plan.PhaseInSync, Total: 7, Seq: 3}
	crashing := plan.Report{Phase: plan.PhaseFailed, Step: plan.ServiceStep("kubelet"), Index: 7, Total: 7, Code: agent.CodeServiceExited, Seq: 3}
	tk := func(expiresIn time.Duration, approvedAgo ...time.Duration) func(*view) {
		return func(v *view) {
			s := &v1alpha1.TicketStatus{ServiceAccount: "a", ID: "1", Expires: metav1.NewTime(at().Add(expiresIn))}
			if len(approvedAgo) > 0 {
				when := metav1.NewTime(at().Add(-approvedAgo[0]))
				s.ApprovedCSR, s.ApprovedAt = "csr-1", &when
			}
			v.host.Status.Ticket = s
		}
	}
	booted := func(v *view) { v.host.Status.Ticket.ApprovedBoot = "b0" }
	away := func(v *view) { v.snap.Connected = false }
	busy := func(verb host.Verb) func(*view) { return func(v *view) { v.snap.Busy = verb } }
	for name, c := range map[string]struct {
		edits  []func(*view)
		report plan.Report
		renew  bool
		// again is when the next look is due at the latest, 0 for any time.
		again time.Duration
	}{
		"fresh":                     {[]func(*view){tk(29 * time.Minute)}, inSync, false, 10 * time.Minute},
		"ends within ten minutes":   {[]func(*view){tk(5 * time.Minute)}, inSync, false, 3 * time.Minute},
		"ends in 121 s":             {[]func(*view){tk(121 * time.Second)}, inSync, false, time.Second},
		"ends in 120 s":             {[]func(*view){tk(120 * time.Second)}, inSync, true, 0},
		"has ended":                 {[]func(*view){tk(-time.Hour)}, inSync, true, 0},
		"approved a moment ago":     {[]func(*view){tk(29*time.Minute, time.Second)}, inSync, false, 179 * time.Second},
		"approved, then it ended":   {[]func(*view){tk(-time.Second, 10*time.Second)}, inSync, false, 170 * time.Second},
		"approved 3 minutes ago":    {[]func(*view){tk(29*time.Minute, 3*time.Minute)}, inSync, true, 0},
		"approved, time not known":  {[]func(*view){tk(29 * time.Minute), func(v *view) { v.host.Status.Ticket.ApprovedCSR = "csr-1" }}, inSync, false, 0},
		"approved, then booted":     {[]func(*view){tk(29*time.Minute, 20*time.Second), booted}, inSync, true, 0},
		"approved, booted just now": {[]func(*view){tk(29*time.Minute, 19*time.Second), booted}, inSync, false, time.Second},
		"approved in this boot": {
			[]func(*view){tk(29*time.Minute, time.Minute), booted, func(v *view) { v.host.Status.Ticket.ApprovedBoot = "b1" }},
			inSync, false, 2 * time.Minute,
		},
		"approved, link is lost": {[]func(*view){tk(29*time.Minute, time.Second), away}, inSync, false, 179 * time.Second},
		"record was lost":        {nil, inSync, true, 0},
		"kubelet does not live":  {[]func(*view){tk(-time.Hour)}, crashing, true, 0},
		"kubelet dies, fresh":    {[]func(*view){tk(29 * time.Minute)}, crashing, false, 0},
		"agent is at work":       {[]func(*view){tk(-time.Hour)}, running(plan.StepFiles, 4, 7), false, 0},
		"verb under way":         {[]func(*view){tk(-time.Hour), busy(host.VerbFacts)}, inSync, false, 0},
		"handing over just failed": {[]func(*view){tk(-time.Hour), func(v *view) {
			v.snap.Last[host.VerbApply] = host.Outcome{Verb: host.VerbApply, Err: errOf("cut"), At: at(), Failures: 1}
		}}, inSync, false, 3 * time.Second},
		"node is there":  {[]func(*view){tk(-time.Hour), registered}, inSync, false, 0},
		"rejoins, fresh": {[]func(*view){registered, silentFor(time.Hour), tk(29 * time.Minute), recorded(inSync)}, inSync, false, 0},
		"rejoins, ended": {[]func(*view){registered, silentFor(time.Hour), tk(-time.Hour), recorded(inSync)}, inSync, true, 0},
		"paused":         {[]func(*view){tk(-time.Hour), func(v *view) { v.host.Spec.Paused = true }}, inSync, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			edits := append([]func(*view){connected, named, loaded, recorded(c.report)}, c.edits...)
			p := walk(aView(edits...))
			if renewed := p.verb == host.VerbApply && p.ticket; renewed != c.renew {
				t.Fatalf("verb %q with ticket %t, want a new ticket: %t (%s)", p.verb, p.ticket, c.renew, readyOf(p).Message)
			}
			if c.again != 0 && (p.again == 0 || p.again > c.again) {
				t.Errorf("looks again in %s, want at most %s", p.again, c.again)
			}
			if !c.renew {
				return
			}
			e := p.args.Envelope
			if e.Generation != p.host.Status.Plan.Generation || e.Plan.Digest() != p.host.Status.Plan.Digest || e.Adopt {
				t.Errorf("generation %d of plan %s, want the plan on record again", e.Generation, e.Plan.Digest()[:8])
			}
		})
	}
}

// A plan that has no place for a secret gets no ticket, whatever the record says.
func TestNoTicketWithoutAPlace(t *testing.T) {
	v := aView(connected, named, loaded, registered, recorded(plan.Report{Phase: plan.PhaseInSync, Total: 7, Seq: 3}))
	p := walk(v)
	if len(p.desired.plan.Secrets) != 0 {
		t.Fatal("the plan of a registered node has a place for a secret")
	}
	// The pass ends here as it would with a Node that vanished from the cache between two reads.
	p.node = nil
	p.isRegistered()
	if p.verb != "" || p.ticket {
		t.Errorf("verb %q, ticket %t", p.verb, p.ticket)
	}
}

// A machine that was pulled from the wall when its certificate had been approved says so only when it is asked: who waits for its node asks.
func TestLostMachineIsAskedWhatBecameOfIt(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*view)
		want host.Verb
	}{
		"approved":     {func(v *view) { v.host.Status.Ticket.ApprovedCSR = "csr-1" }, host.VerbFacts},
		"connected":    {func(v *view) { v.host.Status.Ticket.ApprovedCSR, v.snap.Connected = "csr-1", true }, ""},
		"not approved": {func(*view) {}, ""},
		"asked a moment before": {func(v *view) {
			v.host.Status.Ticket.ApprovedCSR = "csr-1"
			v.snap.Last[host.VerbFacts] = host.Outcome{Verb: host.VerbFacts, Err: errOf("cut"), At: at(), Failures: 1}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := aView(connected, named, loaded, recorded(plan.Report{Phase: plan.PhaseInSync, Total: 7, Seq: 3}), ticketed)
			now := metav1.NewTime(at())
			v.host.Status.Ticket.ApprovedAt, v.snap.Connected = &now, false
			c.edit(&v)
			if v.host.Status.Ticket.ApprovedCSR == "" {
				v.host.Status.Ticket.ApprovedAt = nil
			}
			if p := walk(v); p.verb != c.want {
				t.Errorf("started %q, want %q (%s)", p.verb, c.want, readyOf(p).Message)
			}
		})
	}
}
