package plan

import "time"

// ReportVersion is the version of the Report format.
const ReportVersion = "report.windowsmachine.dev/v1"

// Phase is where the agent's last run stands.
type Phase string

const (
	// PhaseIdle: no plan was ever accepted, or the empty plan has been applied.
	PhaseIdle Phase = "Idle"
	// PhaseRunning: a run is under way or about to start.
	PhaseRunning Phase = "Running"
	// PhaseInSync: the machine equals the plan.
	PhaseInSync Phase = "InSync"
	// PhaseFailed: a step failed; the agent tries again after a pause.
	PhaseFailed Phase = "Failed"
	// PhaseRebootNeeded: the machine must be rebooted before the run can go on.
	PhaseRebootNeeded Phase = "RebootNeeded"
)

// Report is what `wmcb status` prints as one JSON line of at most MaxReport bytes, and what `wmcb apply` prints each
// time it changes. It is derived from state.json and the journal and holds no secrets and no free text but Detail.
type Report struct {
	APIVersion   string `json:"apiVersion"`
	AgentVersion string `json:"agentVersion"`
	// Host and Generation and Digest are those of the last accepted envelope.
	Host       string `json:"host,omitempty"`
	Generation int64  `json:"generation,omitempty"`
	Digest     string `json:"digest,omitempty"`
	Phase      Phase  `json:"phase"`
	// Step is the step under way, or the one that failed or asks for a reboot.
	Step string `json:"step,omitempty"`
	// Index counts Step from 1 among Total steps.
	Index int `json:"index,omitempty"`
	Total int `json:"total,omitempty"`
	// Code is one of the agent's codes (pkg/agent/codes.go) when Phase is Failed or RebootNeeded.
	Code string `json:"code,omitempty"`
	// Detail is for people: at most MaxDetail bytes, printable ASCII.
	Detail string `json:"detail,omitempty"`
	BootID string `json:"bootID"`
	// Seq is the sequence number of the newest journal entry.
	Seq int64 `json:"seq,omitempty"`
	// DRMAC is the hardware address of the distributed router of the plan's Overlay network, to which other nodes send the packets for its pods:
	// six pairs of hexadecimal digits in lower case, with colons. "" without such a network, and where HNS has given it none yet.
	DRMAC string `json:"drMAC,omitempty"`
	// Time is the machine's clock when Seq was written.
	Time time.Time `json:"time,omitzero"`
}

// Entry is one line of the journal C:\k\wmcb\journal.jsonl, at most MaxLine bytes. A last line that is torn or
// incomplete is dropped by the reader: the journal is for people, a new run's checks make the machine right.
type Entry struct {
	Seq        int64     `json:"seq"`
	Time       time.Time `json:"time"`
	Generation int64     `json:"generation"`
	Digest     string    `json:"digest"`
	Step       string    `json:"step,omitempty"`
	Index      int       `json:"index,omitempty"`
	Total      int       `json:"total,omitempty"`
	// Code is one of the agent's codes (pkg/agent/codes.go).
	Code   string `json:"code"`
	Detail string `json:"detail,omitempty"`
	// Millis is how long the step took, in milliseconds, on entries that end one.
	Millis int64 `json:"millis,omitempty"`
	// BootID is HostFacts.BootID when the entry was written; entries of older agents have none.
	BootID string `json:"bootID,omitempty"`
}
