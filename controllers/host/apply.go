package host

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
)

// staged has the blobs sent that the machine lacks.
func (p *pass) staged() bool {
	if p.report() != nil {
		return true
	}
	missing := p.missing()
	if len(missing) == 0 {
		return true
	}
	percent := 0
	sending := p.snap.Busy == host.VerbStage
	if sending && p.snap.ToSend > 0 {
		percent = int(100 * p.snap.Sent / p.snap.ToSend)
	}
	p.step = fmt.Sprintf("stage-payload %d%%", percent)
	p.inSync = no(v1alpha1.ReasonStaging, fmt.Sprintf("sending %d files of the payload, %d%% done", len(missing), percent))
	if last, ok := p.snap.Last[host.VerbStage]; ok && last.Err != nil && !sending {
		p.inSync = p.stagingFailed(last)
	}
	p.start(host.VerbStage)
	p.args.Blobs = missing
	if sending {
		p.lookAgain(2 * time.Second)
	}
	return false
}

// missing are the blobs of the plan that the machine does not hold.
func (p *pass) missing() []string {
	return slices.DeleteFunc(p.desired.plan.Blobs(), func(d string) bool { return slices.Contains(p.snap.Facts.HaveBlobs, d) })
}

func (p *pass) stagingFailed(last host.Outcome) cond {
	p.failures = last.Failures
	var refusal *host.Refusal
	if errors.As(last.Err, &refusal) {
		return no(v1alpha1.ReasonStagingFailed, fmt.Sprintf("stage-payload failed: %s: %s; %s", refusal.Code, refusal.Detail, advice(refusal.Code)))
	}
	return no(v1alpha1.ReasonStagingFailed, fmt.Sprintf("stage-payload was cut: %v; what arrived is kept and sending goes on", last.Err))
}

// insync has the plan applied and watches it.
func (p *pass) insync() bool {
	r := p.report()
	if r == nil {
		return p.apply()
	}
	p.progress(r)
	switch r.Phase {
	case plan.PhaseInSync:
		p.renewAgent()
		p.applied = r.Digest
		p.inSync = yes(v1alpha1.ReasonInSync, "the machine equals plan "+r.Digest[:8])
		return true
	case plan.PhaseRebootNeeded:
		return p.reboot(r)
	case plan.PhaseFailed:
		return p.failed(r)
	}
	p.inSync = no(v1alpha1.ReasonApplying, fmt.Sprintf("step %s of plan %s", p.step, r.Digest[:8]))
	p.follow()
	return true
}

func (p *pass) apply() bool {
	p.inSync = no(v1alpha1.ReasonApplying, "handing over plan "+p.desired.digest[:8])
	if last, ok := p.snap.Last[host.VerbApply]; ok && last.Err != nil && p.snap.Busy == "" {
		p.inSync = p.applyFailed(last)
	}
	p.step = "hand-over-plan"
	if p.blobsLost() {
		p.startFacts()
		return true
	}
	p.startApply()
	return true
}

// blobsLost reports whether the agent refused the plan since a blob is no longer there, which the facts do not know yet.
func (p *pass) blobsLost() bool {
	last := p.snap.Last[host.VerbApply]
	var refusal *host.Refusal
	return errors.As(last.Err, &refusal) && (refusal.Code == agent.CodeBlobMissing || refusal.Code == agent.CodeBlobCorrupt) &&
		!p.snap.FactsAt.After(last.At)
}

func (p *pass) applyFailed(last host.Outcome) cond {
	p.failures = last.Failures
	var refusal *host.Refusal
	if errors.As(last.Err, &refusal) {
		return no(v1alpha1.ReasonPlanRefused, fmt.Sprintf("the agent refused the plan: %s: %s; %s", refusal.Code, refusal.Detail, advice(refusal.Code)))
	}
	return no(v1alpha1.ReasonApplying, fmt.Sprintf("handing over the plan was cut: %v; it is done again", last.Err))
}

// renewPause is how long after a hand-over that did not help another one is tried.
const renewPause = time.Minute

// renewAgent hands the same plan over once more when the service on the machine runs another agent than ours, which re-points it, and when there is no
// such service any more: a power cut takes what the service manager had written down shortly before, and nobody would see to the machine. The facts
// from before the last time do not know that it was done.
func (p *pass) renewAgent() {
	f, handed := p.snap.Facts, p.snap.Last[host.VerbApply].At
	if f.ServiceAgent == f.AgentDigest || p.desired.held {
		return
	}
	before := !p.snap.FactsAt.After(handed)
	switch since := p.now.Sub(handed); {
	case before && f.ServiceAgent == "":
		// There was none when the machine was asked, and it has been made since.
	case before:
		p.startFacts()
	case since < renewPause:
		p.lookAgain(renewPause - since)
	default:
		p.startApply()
	}
}

// startApply hands the plan over, with a ticket where the plan has a place for one, and with a token of kube-proxy where one is due.
func (p *pass) startApply() {
	p.start(host.VerbApply)
	if p.verb != host.VerbApply {
		return
	}
	p.args.Envelope = plan.Envelope{
		APIVersion: plan.EnvelopeVersion, Host: string(p.host.UID), Adopt: p.ofAnother(),
		Generation: p.desired.generation, Plan: p.desired.plan,
	}
	p.ticket = p.desired.plan.HasSecret(planner.BootstrapSecret)
	p.proxyToken = p.owesProxyToken()
}

// ofAnother reports whether the machine has the plan of another WindowsHost. A new one takes over what an earlier one of the same address
// left behind: the person who made the object, or the Machine controller, says with it that the machine is this cluster's.
func (p *pass) ofAnother() bool {
	was := p.reported().Host
	return was != "" && was != string(p.host.UID)
}

// follow reads what the agent reports while it works.
func (p *pass) follow() {
	if p.snap.Busy == "" {
		p.start(host.VerbFollow)
	}
}

// failed shows a step that failed. The agent tries again by itself; only a missing ticket and a missing agent need us.
func (p *pass) failed(r *plan.Report) bool {
	p.inSync = no(v1alpha1.ReasonStepFailed, fmt.Sprintf("step %s failed: %s: %s; %s", stepText(r), r.Code, r.Detail, advice(r.Code)))
	if r.Code == agent.CodeSecretMissing && !p.desired.held || p.orphaned(r) {
		p.startApply()
		return true
	}
	p.follow()
	p.refresh(factsRecheck)
	return true
}

// orphaned reports whether the machine has the plan and nobody there to carry it out: the hand-over was cut after the agent had stored the plan
// and before its service ran, or the service's file did not survive a power cut. Handing the plan over once more does the rest.
func (p *pass) orphaned(r *plan.Report) bool {
	return r.Code == agent.CodeAgentStopped && !p.desired.held
}

// reboot restarts the machine as long as it is no node; a node's reboot waits for a person.
func (p *pass) reboot(r *plan.Report) bool {
	if p.node != nil && p.ours() {
		p.inSync = no(v1alpha1.ReasonRebootNeeded, fmt.Sprintf(
			"step %s needs a reboot of a node that is registered: drain it (kubectl drain %s --ignore-daemonsets), restart the machine, and uncordon it", stepText(r), p.nodeName))
		p.refresh(factsRecheck)
		return true
	}
	p.inSync = no(v1alpha1.ReasonRebooting, fmt.Sprintf("step %s needs a reboot: the machine is being restarted and must come back with a new boot id", stepText(r)))
	last, ok := p.snap.Last[host.VerbReboot]
	const patience = 5 * time.Minute
	if ok && last.Err == nil && p.now.Sub(last.At) < patience {
		p.refresh(factsAfterBoot)
		return false
	}
	p.start(host.VerbReboot)
	return false
}
