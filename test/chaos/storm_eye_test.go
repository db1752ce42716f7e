package chaos

import (
	"strings"
	"sync"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

const (
	planFile  = plan.AgentRoot + `\plan.json`
	blobsRoot = plan.AgentRoot + `\blobs\`
)

// eye sees the changes to the disk of a machine of the storm and, when it is told to, does harm to one of them. It keeps what the invariants ask for.
type eye struct {
	mu sync.Mutex
	// armed is the harm that waits for its moment, of that kind; done counts those that found it.
	armed harm
	kind  trial
	n     int
	done  map[trial]int
	// held are the blobs that are there, twice how many were stored although they were.
	held  map[string]bool
	twice int
	// entries is what the journal said about plans, without repetitions; writers are the processes that changed plan or blobs, each as long as no
	// other did.
	entries []seenEntry
	writers []writer
}

// writer is the first of several changes that a process made without another one in between.
type writer struct {
	pid  uint32
	path string
	at   time.Time
}

func newEye() *eye { return &eye{done: map[trial]int{}, held: map[string]bool{}} }

// arm has harm done when its moment comes; nil disarms.
func (y *eye) arm(kind trial, h harm) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.kind, y.armed, y.n = kind, h, 0
}

// judge is the machine's interceptor; it is called with the machine locked.
func (y *eye) judge(op fake.Op) fake.Verdict {
	y.mu.Lock()
	defer y.mu.Unlock()
	e := entryOf(op)
	v := y.harmTo(op, e)
	if v.Err == nil && !v.KillBefore {
		y.note(op, e)
	}
	return v
}

// harmTo asks the armed harm. Only the agent's own changes count.
func (y *eye) harmTo(op fake.Op, e *plan.Entry) fake.Verdict {
	if y.armed == nil || !strings.HasSuffix(strings.ToLower(op.Exe), plan.AgentName) {
		return fake.Verdict{}
	}
	y.n++
	v, hit := y.armed(y.n, op, e)
	if !hit {
		return fake.Verdict{}
	}
	y.done[y.kind]++
	if v.KillBefore || v.KillAfter {
		y.armed = nil
	}
	return v
}

func (y *eye) note(op fake.Op, e *plan.Entry) {
	if e != nil {
		if s := (seenEntry{Code: e.Code, Generation: e.Generation}); len(y.entries) == 0 || y.entries[len(y.entries)-1] != s {
			y.entries = append(y.entries, s)
		}
	}
	if op.Kind == fake.OpRemove {
		delete(y.held, op.Path)
		if strings.EqualFold(op.Path, planFile) {
			y.entries = append(y.entries, seenEntry{Removed: true})
		}
	}
	if isStored(op) {
		if y.held[op.Path] {
			y.twice++
		}
		y.held[op.Path] = true
	}
	if guarded(op) && op.PID != 0 {
		y.wrote(op)
	}
}

func (y *eye) wrote(op fake.Op) {
	if n := len(y.writers); n == 0 || y.writers[n-1].pid != op.PID {
		y.writers = append(y.writers, writer{pid: op.PID, path: op.Path, at: time.Now()})
	}
}

// guarded reports whether the agent changes this under its lock only: what it is told to be, and what it is sent.
func guarded(op fake.Op) bool {
	if op.Kind == fake.OpMkdir || op.Kind == fake.OpSetAccess {
		return false // every command looks after its folders first
	}
	path := strings.ToLower(op.Path)
	return strings.HasPrefix(path, strings.ToLower(planFile)) || strings.HasPrefix(path, strings.ToLower(blobsRoot))
}

// eyeful is what an eye has seen.
type eyeful struct {
	entries []seenEntry
	writers []writer
	twice   int
	done    map[trial]int
}

func (y *eye) seen() eyeful {
	y.mu.Lock()
	defer y.mu.Unlock()
	out := eyeful{entries: append([]seenEntry(nil), y.entries...), writers: append([]writer(nil), y.writers...), twice: y.twice, done: map[trial]int{}}
	for k, n := range y.done {
		out.done[k] = n
	}
	return out
}
