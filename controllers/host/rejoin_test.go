package host

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/plan"
)

// settled is a Ready node whose machine is in sync.
func settled(v *view) {
	for _, edit := range []func(*view){connected, named, registered, loaded, recorded(plan.Report{Phase: plan.PhaseInSync, Total: 7, Seq: 3})} {
		edit(v)
	}
	v.host.Status.Plan.Applied, v.host.Status.Plan.Seq = v.host.Status.Plan.Digest, 3
	v.snap.Facts.Report = *v.snap.Report
}

func silentFor(d time.Duration) func(*view) {
	return func(v *view) {
		v.node.Status.Conditions[0] = corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(v.snap.FactsAt.Add(-d)),
		}
	}
}

func reinstalled(v *view) {
	v.snap.Facts.Report = plan.Report{APIVersion: plan.ReportVersion, Phase: plan.PhaseIdle, BootID: "b1"}
	v.snap.Report = &v.snap.Facts.Report
}

func TestMachineOfANodeJoinsAnew(t *testing.T) {
	ticketed := func(v *view) { v.host.Status.Ticket = &v1alpha1.TicketStatus{ID: "1"} }
	for name, c := range map[string]struct {
		edits []func(*view)
		want  bool
	}{
		"all is well":                        {nil, false},
		"silent for a minute":                {[]func(*view){silentFor(time.Minute)}, false},
		"silent for long, and we reach it":   {[]func(*view){silentFor(6 * time.Minute)}, true},
		"silent since we last saw it":        {[]func(*view){silentFor(-time.Minute)}, false},
		"silent, its ticket is out":          {[]func(*view){silentFor(time.Minute), ticketed}, true},
		"the first ticket is out":            {[]func(*view){ticketed}, false},
		"reinstalled":                        {[]func(*view){reinstalled}, true},
		"reinstalled and long silent":        {[]func(*view){reinstalled, silentFor(time.Hour)}, true},
		"reinstalled, never was in sync":     {[]func(*view){reinstalled, func(v *view) { v.host.Status.Plan.Applied = "" }}, false},
		"another host's machine by its word": {[]func(*view){func(v *view) { v.snap.Report.Host = "uid-b" }}, true},
		"facts are from before our plan":     {[]func(*view){func(v *view) { v.snap.Facts.Report = plan.Report{Phase: plan.PhaseIdle} }}, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := aView(settled)
			for _, edit := range c.edits {
				edit(&v)
			}
			p := walk(v)
			if got := p.nodeFacts().Rejoin; got != c.want {
				t.Errorf("rejoin = %t, want %t", got, c.want)
			}
			if c.want && p.revoke {
				t.Error("the ticket is revoked while the machine needs it")
			}
		})
	}
}

func TestReinstalledMachineGetsATicket(t *testing.T) {
	p := walk(aView(settled, reinstalled, loaded))
	if p.verb != host.VerbApply || !p.ticket || len(p.args.Envelope.Plan.Secrets) != 1 {
		t.Errorf("verb %q, ticket %t: %s", p.verb, p.ticket, readyOf(p).Message)
	}
}

func TestDeletedNodeTakesNothingOffTheMachine(t *testing.T) {
	p := walk(aView(settled, func(v *view) { v.node = nil }))
	if p.verb != "" || p.ticket || p.revoke {
		t.Errorf("verb %q, ticket %t, revoke %t, want nothing started", p.verb, p.ticket, p.revoke)
	}
	if got := readyOf(p); got.Reason != v1alpha1.ReasonWaitingForNode {
		t.Errorf("Ready is %s: %s", got.Reason, got.Message)
	}
	again := walk(aView(settled, reinstalled, loaded, func(v *view) { v.node = nil }))
	if again.verb != host.VerbApply || len(again.args.Envelope.Plan.Services) == 0 {
		t.Errorf("a reinstalled machine without a Node: verb %q, plan with %d services, want it configured", again.verb, len(again.args.Envelope.Plan.Services))
	}
}

func TestMovedAddressIsTheSpecsWord(t *testing.T) {
	moved := func(v *view) {
		v.host.Spec.Address = "192.0.2.77"
		v.snap.Facts.Addresses[0].Prefix = "192.0.2.77/24"
	}
	if p := walk(aView(connected, named, moved)); p.managementIP != "192.0.2.77" || p.nodeName != "win-a" {
		t.Errorf("node %s at %s, want win-a at the new address", p.nodeName, p.managementIP)
	}
	lies := func(v *view) { v.snap.Facts.Addresses[0].Prefix = "192.0.2.66/24" }
	if p := walk(aView(connected, named, lies)); p.managementIP == "192.0.2.66" {
		t.Error("the machine's own word moved the address")
	}
}

func TestOtherAgentInTheServiceIsReplaced(t *testing.T) {
	older := func(v *view) { v.snap.Facts.AgentDigest, v.snap.Facts.ServiceAgent = "new", "old" }
	gone := func(v *view) { v.snap.Facts.AgentDigest, v.snap.Facts.ServiceAgent = "new", "" }
	askedSince := func(v *view) { v.snap.FactsAt = at() }
	applied := func(at time.Time) func(*view) {
		return func(v *view) { v.snap.Last[host.VerbApply] = host.Outcome{Verb: host.VerbApply, At: at} }
	}
	for name, c := range map[string]struct {
		edits []func(*view)
		want  host.Verb
	}{
		"the same":                     {[]func(*view){func(v *view) { v.snap.Facts.AgentDigest, v.snap.Facts.ServiceAgent = "new", "new" }}, ""},
		"none when it was asked":       {[]func(*view){gone, applied(at())}, ""},
		"lost with the power":          {[]func(*view){gone, applied(at().Add(-time.Hour))}, host.VerbApply},
		"gone, to a new operator":      {[]func(*view){gone}, host.VerbApply},
		"gone again at once":           {[]func(*view){gone, applied(at().Add(-time.Second)), askedSince}, ""},
		"another":                      {[]func(*view){older, applied(at().Add(-time.Hour))}, host.VerbApply},
		"replaced since the last look": {[]func(*view){older, applied(at())}, host.VerbFacts},
	} {
		t.Run(name, func(t *testing.T) {
			p := walk(aView(append([]func(*view){settled}, c.edits...)...))
			if p.verb != c.want {
				t.Errorf("started %q, want %q", p.verb, c.want)
			}
			if got := readyOf(p); got.Reason != v1alpha1.ReasonNodeReady {
				t.Errorf("Ready is %s: %s", got.Reason, got.Message)
			}
		})
	}
}

// An operator that has just taken over, with a newer plan on record than the machine has, has not asked the machine yet: the Node runs, and the host is
// not Ready.
func TestNewPlanIsNotReadyBeforeTheMachineWasAsked(t *testing.T) {
	asking := func(v *view) {
		v.snap = host.Snapshot{Connected: true, HostKey: v.snap.HostKey, Busy: host.VerbFacts}
		v.host.Status.OS = &v1alpha1.OSStatus{Build: 20348}
	}
	for name, c := range map[string]struct {
		edit func(*view)
		want string
	}{
		"in place":    {func(*view) {}, v1alpha1.ReasonNodeReady},
		"not applied": {func(v *view) { v.host.Status.Plan.Applied = "older" }, v1alpha1.ReasonConnecting},
	} {
		t.Run(name, func(t *testing.T) {
			if got := readyOf(walk(aView(settled, asking, c.edit))); got.Reason != c.want {
				t.Errorf("Ready is %s %s: %s, want %s", got.Status, got.Reason, got.Message, c.want)
			}
		})
	}
}
