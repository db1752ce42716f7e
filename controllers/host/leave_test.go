package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/plan"
)

// leave walks the line of a host that was deleted.
func leave(v view) *pass {
	now := metav1.NewTime(v.now)
	v.host.DeletionTimestamp = &now
	p := &pass{view: v}
	p.leave()
	return p
}

// Two WindowsHosts of one machine: the second is told to go, and going it must not take the first one's node away.
func TestDeletionSparesTheMachineOfAnotherHost(t *testing.T) {
	ofB := func(v *view) {
		v.host.Status.OS = &v1alpha1.OSStatus{Build: 20348}
		v.snap.Facts.Report.Host = "uid-b"
		v.snap.Report = &v.snap.Facts.Report
	}
	p := leave(aView(connected, ofB))
	if p.verb != "" || !p.finish {
		t.Errorf("verb %q, finish %t, want the object to go and the machine to stay", p.verb, p.finish)
	}
	// An operator that was restarted knows nothing of the machine and asks first.
	p = leave(aView(connected, ofB, func(v *view) { v.snap = host.Snapshot{} }))
	if p.verb != host.VerbFacts || p.finish {
		t.Errorf("verb %q, finish %t, want the machine asked whose it is", p.verb, p.finish)
	}
	if again := leave(aView(connected, ofB, func(v *view) { v.snap = host.Snapshot{Busy: host.VerbFacts} })); again.disconnect || again.verb != "" {
		t.Errorf("disconnect %t, verb %q while the machine is being asked", again.disconnect, again.verb)
	}
	// The other host took it over after that.
	lost := failed(host.VerbRemove, &host.Refusal{Code: agent.CodeHostMismatch, Detail: "uid-b"}, 1)
	p = leave(aView(connected, lost, func(v *view) { v.host.Status.OS = &v1alpha1.OSStatus{Build: 20348} }))
	if p.verb != "" || !p.finish {
		t.Errorf("verb %q, finish %t, want the object to go and the machine to stay", p.verb, p.finish)
	}
	// It took the machine over after the facts were gathered.
	taken := func(v *view) {
		v.snap.Report = &plan.Report{APIVersion: plan.ReportVersion, Host: string(v.host.UID), Phase: plan.PhaseInSync}
	}
	if own := leave(aView(connected, ofB, taken)); own.verb != host.VerbRemove || own.finish {
		t.Errorf("verb %q, finish %t, want its own machine cleaned", own.verb, own.finish)
	}
}

func TestDeletionOfAHostOnTheMachineOfAnother(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, object())
	w.machine.set(plan.Report{APIVersion: plan.ReportVersion, Phase: plan.PhaseInSync, Host: "uid-b", Digest: "d", Generation: 3, BootID: "b1"})
	if err := w.api.Create(t.Context(), object(func(h *v1alpha1.WindowsHost) {
		h.Name, h.UID, h.ResourceVersion = "win-b", "uid-b", ""
	})); err != nil {
		t.Fatal(err)
	}
	w.until("refused", func(h *v1alpha1.WindowsHost) bool {
		return reason(h, v1alpha1.ConditionInSync) == v1alpha1.ReasonPlanRefused
	})
	if err := w.api.Delete(t.Context(), w.host()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.pass()
	}
	if w.host() != nil {
		t.Errorf("the object stays: %+v", w.host().Status.Conditions)
	}
	if ran := w.machine.verbs(); len(w.machine.envelopes) != 0 || ran != "facts" {
		t.Errorf("ran %q on another host's machine", ran)
	}
}

// What the cluster lacks for new nodes has nothing to do with taking one away.
func TestDeletionNeedsNoClusterFacts(t *testing.T) {
	for name, edit := range map[string]func(*view){
		"not gathered yet": func(v *view) { v.cluster = nil },
		"ignition missing": func(v *view) {
			v.cluster = &facts.Discovered{Problems: []facts.Problem{{Reason: v1alpha1.ReasonIgnitionMissing, Message: "no ignition", Fatal: true}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for state, more := range map[string]func(*view){
				"known":   func(*view) {},
				"unknown": func(v *view) { v.snap = host.Snapshot{} },
			} {
				p := leave(aView(settled, edit, more))
				if p.verb == "" || p.deleting.reason != v1alpha1.ReasonCleaning {
					t.Errorf("%s: verb %q, %s: %s", state, p.verb, p.deleting.reason, p.deleting.message)
				}
			}
		})
	}
}

// A host that is deleted in the moment after its Node registered leaves no Node behind that nobody calls his own.
func TestDeletionTakesTheNodeThatJustRegistered(t *testing.T) {
	fresh := func(v *view) {
		v.host.Status.Node.UID = ""
		v.node.Annotations = nil
		v.node.CreationTimestamp, v.host.CreationTimestamp = metav1.NewTime(at()), metav1.NewTime(at().Add(-time.Minute))
	}
	approved := func(v *view) { v.host.Status.Ticket.ApprovedCSR = "csr-1" }
	gone := func(v *view) { v.snap.Last[host.VerbRemove] = host.Outcome{Verb: host.VerbRemove, At: at()} }
	for name, c := range map[string]struct {
		edits []func(*view)
		want  bool
	}{
		"ours":                        {nil, true},
		"registered a moment ago":     {[]func(*view){fresh, ticketed, approved}, true},
		"a ticket was issued since":   {[]func(*view){fresh, ticketed, func(v *view) { v.host.Status.Ticket.EarlierCSR = "csr-1" }}, true},
		"no certificate was approved": {[]func(*view){fresh, ticketed}, false},
		"another host's":              {[]func(*view){fresh, ticketed, approved, func(v *view) { v.node.Annotations = map[string]string{v1alpha1.HostUIDAnnotation: "uid-b"} }}, false},
		"older than the host": {[]func(*view){fresh, ticketed, approved, func(v *view) {
			v.node.CreationTimestamp = metav1.NewTime(at().Add(-time.Hour))
		}}, false},
		"no Node": {[]func(*view){func(v *view) { v.node = nil }}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := leave(aView(append([]func(*view){settled, gone}, c.edits...)...))
			if !p.finish || p.dropNode != c.want {
				t.Errorf("finish %t, the Node goes: %t, want %t", p.finish, p.dropNode, c.want)
			}
			if c.want && p.host.Status.Ticket != nil && p.status().Ticket == nil {
				t.Error("the ticket's use is forgotten before the Node has gone, so that a second try would leave it")
			}
		})
	}
}
