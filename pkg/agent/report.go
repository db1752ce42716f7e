package agent

import (
	"fmt"
	"slices"

	"github.com/windowsmachine/operator/pkg/plan"
)

// Report says where the machine stands, from plan.json, state.json and the journal. A machine without the agent's folder, or with one
// that is open to others, is idle.
func (a *Agent) Report() (plan.Report, error) {
	s, err := a.look()
	if err != nil {
		return plan.Report{}, err
	}
	return derive(s, s.entries), nil
}

// sight is what a report is derived from.
type sight struct {
	version, bootID string
	rec             accepted
	had             bool
	// begun is the newest acceptance that the engine has taken up.
	begun int64
	// drMAC is plan.Report.DRMAC.
	drMAC   string
	entries []plan.Entry
}

func (a *Agent) look() (sight, error) {
	s := sight{version: a.version}
	var err error
	if s.bootID, err = a.sys.Machine.BootID(); err != nil {
		return sight{}, fmt.Errorf("asking for the boot id: %w", err)
	}
	if ok, err := a.trusted(); err != nil || !ok {
		return s, err
	}
	if s.rec, s.had, err = a.loadAccepted(); err != nil {
		return sight{}, err
	}
	st, err := a.loadState()
	if err != nil {
		return sight{}, err
	}
	s.begun, s.drMAC = st.Accept, st.DRMAC
	// Last, so that it is never older than the state that it is judged by.
	s.entries, err = readJournal(a.sys.Files)
	return s, err
}

// derive makes a report of what was seen, with entries as the journal.
func derive(s sight, entries []plan.Entry) plan.Report {
	r := plan.Report{
		APIVersion: plan.ReportVersion, AgentVersion: s.version, BootID: s.bootID, Phase: plan.PhaseIdle,
		Seq: lastSeq(entries),
	}
	if len(entries) > 0 {
		r.Time = entries[len(entries)-1].Time
	}
	if !s.had {
		return r
	}
	r.Host, r.Generation, r.Digest, r.DRMAC = s.rec.Host, s.rec.Generation, s.rec.Digest, s.drMAC
	r.Phase, r.Total = plan.PhaseRunning, s.rec.Steps
	if s.begun < s.rec.Accept || len(entries) == 0 {
		return r
	}
	apply(&r, entries[len(entries)-1])
	return r
}

// apply puts what an entry says into the report.
func apply(r *plan.Report, e plan.Entry) {
	if e.Digest != r.Digest || e.Generation != r.Generation {
		return
	}
	r.Step, r.Index = e.Step, e.Index
	if e.Total > 0 {
		r.Total = e.Total
	}
	r.Phase = phaseOf(e.Code)
	if r.Phase == plan.PhaseRebootNeeded && rebootedSince(e, r.BootID) {
		// The service has not written anything yet since the machine came back.
		r.Phase = plan.PhaseRunning
	}
	switch r.Phase {
	case plan.PhaseInSync:
		r.Step, r.Index = "", r.Total
		if r.Digest == plan.Empty().Digest() {
			r.Phase, r.Index, r.Total = plan.PhaseIdle, 0, 0
		}
	case plan.PhaseFailed, plan.PhaseRebootNeeded:
		r.Code, r.Detail = e.Code, e.Detail
	case plan.PhaseIdle, plan.PhaseRunning:
	}
}

// phaseOf returns the phase that an entry leaves the run in.
func phaseOf(code string) plan.Phase {
	switch {
	case code == CodeRunDone:
		return plan.PhaseInSync
	case code == CodeRebootNeeded:
		return plan.PhaseRebootNeeded
	case !progress(code):
		return plan.PhaseFailed
	}
	return plan.PhaseRunning
}

// rebootedSince reports whether the machine was booted after the entry was written. Entries of older agents do not say.
func rebootedSince(e plan.Entry, bootID string) bool { return e.BootID != "" && e.BootID != bootID }

// rebootedFor reports whether the machine was rebooted because that step of that plan asked for it, without any good: since then the step was
// never in sync, and no run has got to its end. A machine that was found to be so stays so over further boots.
func rebootedFor(entries []plan.Entry, digest, step, bootID string) bool {
	for _, e := range slices.Backward(entries) {
		if e.Code == CodeRunDone {
			return false
		}
		if e.Digest != digest || e.Step != step {
			continue
		}
		switch e.Code {
		case CodeStepInSync, CodeStepApplied:
			return false
		case CodeRebootRepeated:
			return true
		case CodeRebootNeeded:
			return rebootedSince(e, bootID)
		}
	}
	return false
}
