package chaos

import (
	"strings"
	"sync"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// harm judges the n-th change (from 1) to a machine's disk, of which e is the journal entry that it writes, nil when it writes none. hit is
// whether it did harm.
type harm func(n int, op fake.Op, e *plan.Entry) (v fake.Verdict, hit bool)

// watcher sees the changes to a machine's disk: it counts, and does harm.
type watcher struct {
	// only is the program whose changes count; "" is every program's.
	only string
	// hit is closed at the first harm.
	hit chan struct{}

	mu   sync.Mutex
	harm harm
	ops  []change
	// stored counts by path how often a blob got its final name.
	stored map[string]int
}

// change is one that happened.
type change struct {
	kind fake.OpKind
	path string
	// entry is the journal entry that it wrote, nil for any other.
	entry *plan.Entry
}

func newWatcher(only string) *watcher {
	return &watcher{only: only, hit: make(chan struct{}), stored: map[string]int{}}
}

// judge is the machine's interceptor; it is called with the machine locked.
func (w *watcher) judge(op fake.Op) fake.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.only != "" && !strings.EqualFold(op.Exe, w.only) {
		return fake.Verdict{}
	}
	e := entryOf(op)
	w.ops = append(w.ops, change{op.Kind, op.Path, e})
	var v fake.Verdict
	if w.harm != nil {
		var hit bool
		v, hit = w.harm(len(w.ops), op, e)
		if hit && !w.wasHit() {
			close(w.hit)
		}
	}
	if v.Err == nil && !v.KillBefore && isStored(op) {
		w.stored[op.Path]++
	}
	return v
}

// isStored reports whether a blob gets its final name.
func isStored(op fake.Op) bool {
	return op.Kind == fake.OpRename && strings.HasSuffix(op.From, ".part") && strings.HasPrefix(op.Path, plan.AgentRoot)
}

// entryOf is the journal entry that an op writes.
func entryOf(op fake.Op) *plan.Entry {
	if op.Kind != fake.OpWrite || !strings.EqualFold(op.Path, journalFile) {
		return nil
	}
	entries := agent.ParseJournal(op.Data)
	if len(entries) == 0 {
		return nil
	}
	return &entries[0]
}

func (w *watcher) wasHit() bool {
	select {
	case <-w.hit:
		return true
	default:
		return false
	}
}

// twice counts the blobs that were stored again although they were there.
func (w *watcher) twice() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, times := range w.stored {
		n += times - 1
	}
	return n
}

// changes are those so far.
func (w *watcher) changes() []change {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]change(nil), w.ops...)
}

const journalFile = plan.AgentRoot + `\journal.jsonl`
