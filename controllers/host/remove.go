package host

import (
	"fmt"
	"strings"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
)

// leave walks the line of a host that is being deleted: its machine is brought back to what it was, then the ticket, the Node and
// the finalizer go. A Machine's virtual machine is destroyed by its provider, so nothing is cleaned there and nothing blocks.
func (p *pass) leave() {
	p.deleting = yes(v1alpha1.ReasonCleaning, "the machine is being brought back to what it was")
	if p.nothingToClean() || p.snap.Last[host.VerbRemove].Err == nil && !p.snap.Last[host.VerbRemove].At.IsZero() {
		p.finish = true
		return
	}
	for _, phase := range []func(*pass) bool{(*pass).notPaused, (*pass).haveProfile, (*pass).haveCredentials, (*pass).trust} {
		if !phase(p) {
			p.cannotClean()
			return
		}
	}
	if p.snap.Busy == host.VerbRemove {
		p.step = "remove"
		return
	}
	if c := p.failure(host.VerbRemove, cond{}); c != (cond{}) {
		p.reachable = c
		p.cannotClean()
	}
	p.start(host.VerbRemove)
}

func (p *pass) nothingToClean() bool {
	h := p.host
	return h.Spec.MachineRef != nil || h.Namespace != p.namespace ||
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
