package host

import (
	"errors"
	"fmt"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/transport"
)

// leave walks the line of a host that is being deleted: its machine is brought back to what it was, then the ticket, the Node and
// the finalizer go. A Machine's virtual machine is destroyed by its provider, so nothing is cleaned there and nothing blocks.
func (p *pass) leave() {
	p.deleting = yes(v1alpha1.ReasonCleaning, "the machine is being brought back to what it was")
	if p.nothingToClean() || p.snap.Last[host.VerbRemove].Err == nil && !p.snap.Last[host.VerbRemove].At.IsZero() {
		p.end()
		return
	}
	for _, phase := range []func(*pass) bool{(*pass).notPaused, (*pass).profileExists, (*pass).haveCredentials, (*pass).trust} {
		if !phase(p) {
			p.cannotClean()
			return
		}
	}
	switch {
	case p.snap.Busy == host.VerbRemove:
		p.step = "remove"
	case p.snap.Busy != "" && !p.asksFirst():
		// What is under way may take long and is for nothing now; its end brings the next pass.
		p.disconnect = true
	default:
		p.clean()
	}
}

// end lets the object go. A Node that registered a moment ago, before we could put the host's UID on it, goes as well: it would keep its name from
// whatever comes after.
func (p *pass) end() {
	p.finish, p.dropNode = true, p.ours() || p.mayAdopt()
}

// asksFirst reports whether the first question to the machine is under way.
func (p *pass) asksFirst() bool { return p.snap.Facts == nil && p.snap.Busy == host.VerbFacts }

// clean has the machine brought back, if it is this host's.
func (p *pass) clean() {
	switch {
	case p.snap.Facts == nil:
		// Only the machine knows whose it is. An operator that was restarted has forgotten.
		p.attempt(host.VerbFacts)
	case p.ofAnother() || p.takenOver():
		p.deleting = yes(v1alpha1.ReasonCleaning, "the machine is configured by another WindowsHost; nothing is taken off it")
		p.finish, p.dropNode = true, p.ours()
	default:
		p.attempt(host.VerbRemove)
	}
}

// takenOver reports whether the machine refused to be cleaned since it has become another WindowsHost's after it was asked.
func (p *pass) takenOver() bool {
	var refusal *host.Refusal
	return errors.As(p.snap.Last[host.VerbRemove].Err, &refusal) && refusal.Code == agent.CodeHostMismatch
}

// attempt starts a verb of the cleaning, and shows how its last try failed.
func (p *pass) attempt(v host.Verb) {
	if c := p.failure(v, cond{}); c != (cond{}) {
		p.reachable = c
		p.cleaningStopped(p.snap.Last[v], c)
	}
	p.start(v)
}

// cleaningStopped tells an expected end of the connection from one that needs a person: taking a network away drops the machine's
// link, so one lost connection is part of cleaning.
func (p *pass) cleaningStopped(last host.Outcome, why cond) {
	dropped := errors.Is(last.Err, transport.ErrDisconnected) || errors.Is(last.Err, transport.ErrUnreachable)
	if dropped && last.Failures < 2 {
		p.deleting = yes(v1alpha1.ReasonCleaning, "the machine is being brought back to what it was, which may drop its link; "+why.message)
		return
	}
	p.cannotClean()
}

func (p *pass) nothingToClean() bool {
	h := p.host
	return h.Spec.MachineRef != nil ||
		h.Annotations[v1alpha1.SkipCleaningAnnotation] == "true" ||
		// The agent is put on the machine together with asking what it is.
		h.Status.OS == nil && h.Status.Plan == nil
}

// cannotClean says why, and how to go on without.
func (p *pass) cannotClean() {
	why, _ := p.unmet()
	p.deleting = yes(v1alpha1.ReasonCleaningFailed, strings.Join([]string{
		"the machine cannot be cleaned: " + why.message,
		fmt.Sprintf("if it is gone or shall stay as it is: kubectl annotate -n %s winhost %s %s=true", p.host.Namespace, p.host.Name, v1alpha1.SkipCleaningAnnotation),
	}, "; "))
	p.lookAgain(factsRecheck)
}
