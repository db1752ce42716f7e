package host

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
)

// payloadIndex is the payload by file name.
type payloadIndex map[string]planner.Blob

func (x payloadIndex) digests() []string {
	out := make([]string, 0, len(x))
	for _, b := range x {
		out = append(out, b.SHA256)
	}
	return out
}

// wantedIP is the address that the node shall register with, as far as the spec says.
func (p *pass) wantedIP() string {
	if p.host.Spec.NodeIP != "" {
		return p.host.Spec.NodeIP
	}
	if ip, err := netip.ParseAddr(p.host.Spec.Address); err == nil {
		return ip.String()
	}
	return ""
}

func (p *pass) network() planner.Network {
	n := p.profile.Spec.Network
	return planner.Network{Mode: string(n.Mode), Name: n.Name, VSID: int(n.VSID), CNIConfig: []byte(n.CNIConfig)}
}

// preflighted looks at the machine's own facts, all at once, before anything is changed. A node that runs is not judged by it.
func (p *pass) preflighted() bool {
	fixed := p.host.Spec.NodeName
	if p.host.Status.Node != nil {
		fixed = p.host.Status.Node.Name
	}
	findings := planner.Preflight(planner.PreflightInput{
		Host: *p.snap.Facts, Now: p.snap.FactsAt, APIServer: p.cluster.Cluster.APIServer,
		NodeName: fixed, NodeNameOwner: p.taken, NodeIP: p.wantedIP(), CheckNodeIP: true,
		Network: p.network(), Payload: p.payload,
	})
	var bad, warnings []string
	for _, f := range findings {
		if f.Fatal {
			bad = append(bad, f.Message)
		} else {
			warnings = append(warnings, f.Message)
		}
	}
	if len(bad) > 0 {
		p.preflight = no(v1alpha1.ReasonPreflightFailed, strings.Join(bad, "; "))
		p.refresh(factsRecheck)
		return false
	}
	p.preflight = yes(v1alpha1.ReasonPreflightPassed, strings.Join(append([]string{"the machine can be a node"}, warnings...), "; "))
	return p.named(fixed)
}

// named settles the node's name and address; both are frozen before a ticket is issued.
func (p *pass) named(fixed string) bool {
	if n := p.host.Status.Node; n != nil && n.ManagementIP != "" {
		p.nodeName, p.managementIP = n.Name, n.ManagementIP
		return true
	}
	name, err := fixed, error(nil)
	if name == "" {
		name, err = planner.NodeName(p.snap.Facts.Hostname)
	}
	var ip planner.NodeAddress
	if err == nil {
		ip, err = planner.PickNodeIP(p.wantedIP(), p.snap.Facts.Addresses)
	}
	if err != nil {
		p.preflight = no(v1alpha1.ReasonPreflightFailed, err.Error())
		p.refresh(factsRecheck)
		return false
	}
	p.nodeName, p.managementIP = name, ip.Addr.String()
	if p.taken != "" || p.conflicting() {
		p.registered = no(v1alpha1.ReasonNodeConflict, fmt.Sprintf(
			"Node %s exists and is not this host's: delete it if its machine is gone, or set spec.nodeName to another name", name))
		p.lookAgain(factsRecheck)
		return false
	}
	if p.host.Status.Node == nil {
		// The name goes into the status first, so that the next pass sees who has it.
		p.inSync = wait(v1alpha1.ReasonNotChecked, "the plan is being made")
		p.lookAgain(time.Millisecond)
		return false
	}
	return true
}

// conflicting reports whether a Node has the name that cannot be ours, since no ticket was ever issued for it.
func (p *pass) conflicting() bool {
	return p.node != nil && p.node.Name == p.nodeName && !p.ours() && !p.mayAdopt()
}

// ours reports whether the Node is this host's: it is the one that registered, or it carries the host's UID.
func (p *pass) ours() bool {
	if p.node == nil {
		return false
	}
	if s := p.host.Status.Node; s != nil && s.UID != "" {
		return s.UID == string(p.node.UID)
	}
	return p.node.Annotations[v1alpha1.HostUIDAnnotation] == string(p.host.UID)
}

// mayAdopt reports whether a Node that carries no host's UID yet can only have come from our machine: a client certificate was
// approved for our ticket, or the host's Node was there before and was deleted, and the Node is younger than the host. Only the holder of
// that certificate, or an administrator, can make a Node of this name.
func (p *pass) mayAdopt() bool {
	if p.node == nil || p.node.Annotations[v1alpha1.HostUIDAnnotation] != "" || p.node.CreationTimestamp.Before(&p.host.CreationTimestamp) {
		return false
	}
	t, n := p.host.Status.Ticket, p.host.Status.Node
	return t != nil && t.ApprovedCSR != "" || n != nil && n.UID != ""
}

// planned computes the plan and its generation.
func (p *pass) planned() bool {
	if p.rival != "" {
		p.inSync = no(v1alpha1.ReasonPlanRefused, fmt.Sprintf(
			"the machine at %s is configured by WindowsHost %s: delete one of the two, or correct its spec.address", p.host.Spec.Address, p.rival))
		p.refresh(factsRecheck)
		return false
	}
	if p.node != nil && !p.ours() {
		if !p.mayAdopt() {
			p.registered = no(v1alpha1.ReasonNodeConflict, fmt.Sprintf(
				"Node %s exists and is not this host's: delete it if its machine is gone", p.nodeName))
			p.lookAgain(factsRecheck)
			return false
		}
		p.adoptNode = true
	}
	o := planner.Options{
		NodeName: p.nodeName, NodeIP: p.managementIP, Payload: p.payload, Network: p.network(),
		Labels: p.profile.Spec.Kubelet.Labels, MaxPods: p.profile.Spec.Kubelet.MaxPods, Verbosity: p.profile.Spec.Kubelet.Verbosity,
	}
	built, err := planner.Build(p.cluster.Cluster, *p.snap.Facts, p.nodeFacts(), o)
	if err != nil {
		p.preflight = no(v1alpha1.ReasonPlanInvalid, err.Error())
		p.lookAgain(factsRecheck)
		return false
	}
	d := &desired{plan: built, digest: built.Digest()}
	d.generation = p.generation(d.digest)
	_, d.labels, err = kubelet.SplitLabels(o.Labels)
	if err != nil {
		p.preflight = no(v1alpha1.ReasonPlanInvalid, err.Error())
		return false
	}
	p.desired = p.hold(d)
	return true
}

// generation is the fence of a plan: above all that the machine has accepted. A machine that is ahead of the record, since the cluster was
// restored from a backup, would refuse everything else for ever; an operator that merely lags cannot get past it so, because the
// generation goes into the status first, and a stale write is refused there.
func (p *pass) generation(digest string) int64 {
	s, r := p.host.Status.Plan, p.reported()
	ahead := s != nil && r.Host == string(p.host.UID) && r.Generation > s.Generation
	switch {
	case s == nil:
		return r.Generation + 1
	case s.Digest == digest && !ahead:
		return s.Generation
	}
	return max(s.Generation, r.Generation) + 1
}

// hold keeps to the plan on record while the run that applies it is still being watched, so that its last steps are seen before a
// new plan is handed over, and while the Node is gone.
func (p *pass) hold(next *desired) *desired {
	s := p.host.Status.Plan
	if s == nil || s.Digest == next.digest || !p.speaksOf(s) {
		return next
	}
	if p.watching() || p.snap.Report.Seq > s.Seq || p.nodeDeleted() {
		return &desired{digest: s.Digest, generation: s.Generation, labels: next.labels, held: true}
	}
	return next
}

// speaksOf reports whether the agent's newest report is about the plan on record.
func (p *pass) speaksOf(s *v1alpha1.PlanStatus) bool {
	r := p.snap.Report
	return r != nil && r.Digest == s.Digest && r.Generation == s.Generation && r.Host == string(p.host.UID)
}

// watching reports whether a run is under way and we hear of it.
func (p *pass) watching() bool {
	return p.snap.Report.Phase == plan.PhaseRunning && (p.snap.Busy == host.VerbApply || p.snap.Busy == host.VerbFollow)
}

// nodeDeleted reports whether somebody deleted our Node. It comes back when its kubelet restarts; its machine keeps what it has until
// then.
func (p *pass) nodeDeleted() bool {
	return p.node == nil && p.host.Status.Node != nil && p.host.Status.Node.UID != ""
}

func (p *pass) nodeFacts() facts.Node {
	if p.node == nil || (!p.ours() && !p.adoptNode) {
		return facts.Node{}
	}
	return facts.Node{
		Registered: true, Rejoin: p.rejoins(), UID: string(p.node.UID), Ready: nodeReady(p.node), PodCIDR: p.node.Spec.PodCIDR,
	}
}

// silence is how long a node must have been silent before its machine, which answers us, is given a new bootstrap credential. The rules for
// certificates want the same of its lease.
const silence = 5 * time.Minute

// rejoins reports whether a machine whose Node exists has to ask for a certificate anew: it has lost our plan, since it was reinstalled, or
// it answers us while its kubelet has been silent for long, since its certificate expired. A rejoin that is under way ends when the kubelet
// speaks again.
func (p *pass) rejoins() bool {
	silent := nodeSilent(p.node)
	switch s := p.host.Status; {
	case s.Plan != nil && s.Plan.Applied != "" && p.reported().Host != string(p.host.UID):
		return true
	case !silent || s.Ticket != nil:
		return silent
	}
	return p.snap.FactsAt.Sub(readyCondition(p.node).LastTransitionTime.Time) > silence
}

// reported is the newest thing that the agent said. The report among the facts is as old as they are.
func (p *pass) reported() *plan.Report {
	if p.snap.Report != nil {
		return p.snap.Report
	}
	return &p.snap.Facts.Report
}

// report is the newest thing that the agent said, nil when it speaks of another plan than the desired one.
func (p *pass) report() *plan.Report {
	r := p.reported()
	if r.Host != string(p.host.UID) || r.Digest != p.desired.digest || r.Generation != p.desired.generation {
		return nil
	}
	return r
}

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

// startApply hands the plan over, with a ticket where the plan has a place for one.
func (p *pass) startApply() {
	p.start(host.VerbApply)
	if p.verb != host.VerbApply {
		return
	}
	p.args.Envelope = plan.Envelope{
		APIVersion: plan.EnvelopeVersion, Host: string(p.host.UID), Adopt: p.ofAnother(),
		Generation: p.desired.generation, Plan: p.desired.plan,
	}
	p.ticket = len(p.desired.plan.Secrets) > 0
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

// failed shows a step that failed. The agent tries again by itself; only a missing ticket needs us.
func (p *pass) failed(r *plan.Report) bool {
	p.inSync = no(v1alpha1.ReasonStepFailed, fmt.Sprintf("step %s failed: %s: %s; %s", stepText(r), r.Code, r.Detail, advice(r.Code)))
	if r.Code == agent.CodeSecretMissing {
		p.startApply()
		return true
	}
	p.follow()
	p.refresh(factsRecheck)
	return true
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
		p.lookAgain(time.Millisecond)
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
