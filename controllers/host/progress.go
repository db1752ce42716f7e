package host

import (
	"fmt"
	"strings"

	"github.com/windowsmachine/operator/pkg/plan"
)

// progress shows the agent's steps one after the other, each in a pass of its own, so that a watcher sees all go by.
func (p *pass) progress(newest *plan.Report) {
	var seen int64
	if s := p.host.Status.Plan; s != nil && s.Digest == p.desired.digest && s.Generation == p.desired.generation {
		seen = s.Seq
	}
	show := newest
	for i := range p.snap.Trail {
		t := &p.snap.Trail[i]
		if t.Digest == newest.Digest && t.Generation == newest.Generation && t.Seq > seen && t.Seq < newest.Seq {
			show, p.more = t, true
			break
		}
	}
	p.seq = show.Seq
	p.step = stepText(show)
	p.kubeletStarted = p.reached(newest, plan.ServiceStep("kubelet"))
	if p.more {
		p.lookAgain(afterStatus)
	}
}

// stepText is what the STEP column shows.
func stepText(r *plan.Report) string {
	switch {
	case r.Phase == plan.PhaseInSync && r.Total > 0:
		return fmt.Sprintf("%d/%d done", r.Total, r.Total)
	case r.Step == "":
		return strings.ToLower(string(r.Phase))
	}
	return fmt.Sprintf("%d/%d %s", r.Index, r.Total, r.Step)
}

// reached reports whether the run of the desired plan has come to the step.
func (p *pass) reached(newest *plan.Report, step string) bool {
	if newest.Phase == plan.PhaseInSync || newest.Step == step {
		return true
	}
	for i := range p.snap.Trail {
		if t := &p.snap.Trail[i]; t.Digest == newest.Digest && t.Generation == newest.Generation && t.Step == step {
			return true
		}
	}
	return false
}
