package hostsim

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Knobs are troubles of the network and of the SSH server. They apply to connections made after they are set, Hang also to
// open ones.
type Knobs struct {
	// Latency delays every byte by that much in each direction.
	Latency time.Duration
	// Bandwidth bounds each direction, in bytes a second; 0 is no bound.
	Bandwidth int64
	// CutAfter cuts a connection once the client has sent that many bytes; 0 never does.
	CutAfter int64
	// Drip makes the server send one byte each so often.
	Drip time.Duration
	// BannerDelay is the time before the server says its version.
	BannerDelay time.Duration
	// Hang stops the server from reading and sending, without closing.
	Hang bool
	// RefuseSFTP refuses the SFTP subsystem, RefuseSessions every session.
	RefuseSFTP, RefuseSessions bool
}

// SetKnobs replaces the knobs.
func (h *Host) SetKnobs(k Knobs) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.knobs = k
	for c := range h.conns {
		c.shaped.setHang(k.Hang)
	}
}

// Knobs returns the present ones.
func (h *Host) Knobs() Knobs {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.knobs
}

// CrashAtEntry kills the process that writes the journal entry with sequence number seq, at the moment when the entry
// is in the file; torn keeps only the first half of the line. It happens once; it replaces any interceptor of the machine.
// crashed is closed when it has happened.
func (h *Host) CrashAtEntry(seq int64, torn bool) (crashed <-chan struct{}) {
	done := make(chan struct{})
	over := false
	h.machine.Intercept(func(op fake.Op) fake.Verdict {
		if over || op.Kind != fake.OpWrite || !strings.EqualFold(op.Path, plan.AgentRoot+`\journal.jsonl`) {
			return fake.Verdict{}
		}
		end, ok := entryEnd(op.Data, seq)
		if !ok {
			return fake.Verdict{}
		}
		over = true
		close(done)
		if torn {
			return fake.Verdict{KillBefore: true, Keep: max(1, end/2)}
		}
		return fake.Verdict{KillAfter: true}
	})
	return done
}

// entryEnd finds the entry with that sequence number among whole lines and returns how long the data is up to its end.
func entryEnd(data []byte, seq int64) (int, bool) {
	end := 0
	for line := range bytes.Lines(data) {
		end += len(line)
		var e plan.Entry
		if json.Unmarshal(line, &e) == nil && e.Seq == seq {
			return end, true
		}
	}
	return 0, false
}
