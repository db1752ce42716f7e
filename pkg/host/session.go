package host

import (
	"time"

	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/transport"
)

// Verb is a thing that a Session can do.
type Verb string

// The verbs.
const (
	// VerbConnect dials, so that the host key is known before anything is sent.
	VerbConnect Verb = "connect"
	// VerbFacts puts the agent on the machine if it is not there, and runs `wmcb facts`.
	VerbFacts Verb = "facts"
	// VerbStage sends the payload blobs that the machine lacks through `wmcb receive`.
	VerbStage Verb = "stage"
	// VerbApply hands an Envelope to `wmcb apply` and then reads the reports that it prints until the run ends.
	VerbApply Verb = "apply"
	// VerbFollow reads reports of a run that was started earlier (`wmcb status --follow`).
	VerbFollow Verb = "follow"
	// VerbRemove applies the empty plan, waits for it, and takes the agent off the machine.
	VerbRemove Verb = "remove"
	// VerbOpen makes first contact by another way than SSH: it has OpenSSH installed and started there and the key authorized, and reads the host's
	// key. It uses no connection of the session.
	VerbOpen Verb = "open-ssh"
	// VerbReboot restarts the machine (shutdown.exe /r /t 0 /f /d p:4:1); success is seen by a new boot id.
	VerbReboot Verb = "reboot"
)

// Outcome is how a verb ended. Err is nil on success, wraps a transport sentinel for the infrastructure's failures, and is a
// *Refusal when the machine said no.
type Outcome struct {
	Verb Verb
	Err  error
	At   time.Time
	// Failures counts the failures of this verb in a row, this one included; 0 after a success. A changed Target starts anew.
	Failures int
}

// Refusal is a machine's "no": the agent ran and answered with a code of pkg/agent/codes.go.
type Refusal struct {
	Code   string
	Detail string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Code + ": " + r.Detail }

// MaxTrail bounds Snapshot.Trail; older reports fall out.
const MaxTrail = 256

// Snapshot is what a Session knows at one moment. It is a copy.
type Snapshot struct {
	Connected bool
	// HostKey is the key of the newest connection, empty before the first.
	HostKey transport.HostKey
	// Opened is the host's key as the newest VerbOpen has read it, empty before the first.
	Opened transport.HostKey
	// Busy is the verb under way, "" when idle.
	Busy Verb
	// Last is the newest finished verb by verb.
	Last map[Verb]Outcome
	// Facts is the newest answer of VerbFacts, nil before the first, after VerbReboot and VerbRemove, and when the host shows
	// another key. A finished VerbStage adds what it stored to Facts.HaveBlobs.
	Facts   *plan.HostFacts
	FactsAt time.Time
	// Report is the newest report seen, by VerbFacts, VerbApply or VerbFollow; nil before the first.
	Report   *plan.Report
	ReportAt time.Time
	// Trail is the first report of each step and each phase since the last VerbApply started, in the order in which they
	// came, at most MaxTrail, so that a reader that looks seldom still sees each step go by.
	Trail []plan.Report
	// Sent and ToSend are the payload bytes (compressed) of the VerbStage under way or last finished.
	Sent, ToSend int64
	// Stats of the present connection.
	Stats transport.Stats
}
