package fake

// OpKind is a change to the file system.
type OpKind string

// The changes that Intercept sees.
const (
	OpCreate    OpKind = "create"
	OpAppend    OpKind = "append"
	OpWrite     OpKind = "write"
	OpSync      OpKind = "sync"
	OpClose     OpKind = "close"
	OpRename    OpKind = "rename"
	OpRemove    OpKind = "remove"
	OpMkdir     OpKind = "mkdir"
	OpSetAccess OpKind = "set-access"
)

// Op is one change that a process, or the view of nobody, is about to make.
type Op struct {
	Kind OpKind
	// Path is the file's; for OpRename the target, and From is what moves.
	Path, From string
	// PID and Exe are the process's; 0 and "" for the view of nobody.
	PID uint32
	Exe string
	// Data is what OpWrite writes; it may not be kept.
	Data []byte
}

// Verdict says what becomes of an Op. The zero Verdict lets it pass.
type Verdict struct {
	// Err refuses the operation without effect.
	Err error
	// KillBefore ends the process before the operation takes effect, except for the first Keep bytes of an OpWrite;
	// KillAfter ends it right after.
	KillBefore, KillAfter bool
	Keep                  int
}

// Intercept lets f judge every change to the file system; nil ends it. f is called with the machine locked: it must not
// call the machine.
func (m *Machine) Intercept(f func(Op) Verdict) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.intercept = f
}

// change runs do unless the interceptor objects. do gets the number of bytes that may be written, -1 for all. m.mu is held.
func (v view) change(op Op, do func(keep int) error) error {
	if v.p != nil {
		op.PID, op.Exe = v.p.pid, v.p.exe
	}
	var verdict Verdict
	if v.m.intercept != nil {
		verdict = v.m.intercept(op)
	}
	switch {
	case verdict.Err != nil:
		return verdict.Err
	case verdict.KillBefore && v.p != nil:
		if verdict.Keep > 0 {
			_ = do(verdict.Keep)
		}
		v.p.endLocked(killedExit, true)
		return ErrKilled
	}
	err := do(-1)
	if verdict.KillAfter && v.p != nil {
		v.p.endLocked(killedExit, true)
		return ErrKilled
	}
	return err
}
