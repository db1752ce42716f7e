package fake

import (
	"errors"
	"io"
	"io/fs"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Mode is how a Handle is opened.
type Mode int

// The modes. Every mode shares reading and deletion; writing is never shared.
const (
	// ModeRead needs the file.
	ModeRead Mode = iota
	// ModeCreate makes or truncates it.
	ModeCreate
	// ModeNew makes it; ErrExist when it is there.
	ModeNew
	// ModeAppend makes it or writes behind its end.
	ModeAppend
	// ModeUpdate needs the file and writes anywhere.
	ModeUpdate
)

// Handle is an open file. It ends with its process.
type Handle struct {
	v      view
	n      *node
	path   string
	write  bool
	pos    int64
	closed bool
}

func (v view) open(path string, mode Mode, access plan.Access) (*Handle, error) {
	take := v.lock
	if mode != ModeRead {
		take = func() error { return v.lockAdmin("open", path) }
	}
	if err := take(); err != nil {
		return nil, err
	}
	defer v.unlock()
	if mode == ModeRead {
		return v.openRead(path)
	}
	kind := OpCreate
	if mode == ModeAppend || mode == ModeUpdate {
		kind = OpAppend
	}
	var h *Handle
	err := v.change(Op{Kind: kind, Path: path}, func(int) (err error) {
		h, err = v.openWrite(path, mode, access)
		return err
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (v view) openRead(path string) (*Handle, error) {
	n, err := v.m.lookup("open", path)
	switch {
	case err != nil:
		return nil, err
	case n.dir || n.secret() && !v.elevated():
		return nil, refuse("open", path, codeAccessDenied, system.ErrDenied)
	case n.locked:
		return nil, refuse("open", path, codeSharingViolation, system.ErrBusy)
	}
	return v.handle(n, path, false), nil
}

func (v view) openWrite(path string, mode Mode, access plan.Access) (*Handle, error) {
	dir, name, err := v.m.lookupParent("open", path)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, refuse("open", path, codeAccessDenied, system.ErrDenied)
	}
	n := dir.children[fold(name)]
	if code, sentinel := writable(n, mode); code != 0 {
		return nil, refuse("open", path, code, sentinel)
	}
	switch {
	case n == nil:
		n = &node{access: access}
		n.attach(dir, name)
	case mode == ModeCreate:
		v.m.used -= n.data.size
		n.data, n.synced, n.dirty = content{}, content{}, true
		if access != "" {
			n.access = access
		}
	}
	n.writers++
	h := v.handle(n, path, true)
	if mode == ModeAppend {
		h.pos = n.data.size
	}
	return h, nil
}

// writable decides as CreateFile does about opening n, nil when it is absent, for writing.
func writable(n *node, mode Mode) (uint32, error) {
	switch {
	case n == nil && mode == ModeUpdate:
		return codeFileNotFound, system.ErrNotExist
	case n == nil:
		return 0, nil
	case mode == ModeNew:
		return codeFileExists, system.ErrExist
	case n.dir:
		return codeAccessDenied, system.ErrDenied
	case n.running > 0 || n.inUse():
		return codeSharingViolation, system.ErrBusy
	}
	return 0, nil
}

func (v view) handle(n *node, path string, write bool) *Handle {
	h := &Handle{v: v, n: n, path: path, write: write}
	if v.p != nil {
		v.p.handles[h] = true
	}
	return h
}

func (h *Handle) lock(write bool) error {
	if err := h.v.lock(); err != nil {
		return err
	}
	if h.closed || write && !h.write {
		h.v.unlock()
		return &fs.PathError{Op: "use", Path: h.path, Err: fs.ErrClosed}
	}
	return nil
}

// Read implements io.Reader.
func (h *Handle) Read(p []byte) (int, error) {
	if err := h.lock(false); err != nil {
		return 0, err
	}
	defer h.v.unlock()
	n := h.n.data.readAt(p, h.pos)
	h.pos += int64(n)
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// ReadAt implements io.ReaderAt.
func (h *Handle) ReadAt(p []byte, off int64) (int, error) {
	if err := h.lock(false); err != nil {
		return 0, err
	}
	defer h.v.unlock()
	if off < 0 {
		return 0, refuse("read", h.path, codeInvalidParameter, fs.ErrInvalid)
	}
	n := h.n.data.readAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Write implements io.Writer.
func (h *Handle) Write(p []byte) (int, error) {
	if err := h.lock(true); err != nil {
		return 0, err
	}
	defer h.v.unlock()
	n, err := h.writeAt(p, h.pos)
	h.pos += int64(n)
	return n, err
}

// WriteAt implements io.WriterAt.
func (h *Handle) WriteAt(p []byte, off int64) (int, error) {
	if err := h.lock(true); err != nil {
		return 0, err
	}
	defer h.v.unlock()
	if off < 0 || off+int64(len(p)) > h.v.m.opts.DiskSize {
		return 0, refuse("write", h.path, codeInvalidParameter, fs.ErrInvalid)
	}
	return h.writeAt(p, off)
}

// writeAt writes what fits and then answers 112 ERROR_DISK_FULL; what was written stays.
func (h *Handle) writeAt(p []byte, off int64) (written int, err error) {
	err = h.v.change(Op{Kind: OpWrite, Path: h.n.path(), Data: p}, func(keep int) error {
		data := p
		if keep >= 0 {
			data = p[:min(keep, len(p))]
		}
		grow := off + int64(len(data)) - h.n.data.size
		full := grow > h.v.m.free()
		if full {
			data = data[:max(0, int64(len(data))-(grow-h.v.m.free()))]
		}
		before := h.n.data.size
		if len(data) > 0 {
			h.n.data.writeAt(h.v.m.opts.Blobs, data, off)
		}
		if !h.n.removed {
			h.v.m.used += h.n.data.size - before
		}
		h.n.dirty = true
		written = len(data)
		if full {
			return refuse("write", h.path, codeDiskFull, system.ErrDiskFull)
		}
		return nil
	})
	return written, err
}

// Truncate sets the file's size.
func (h *Handle) Truncate(size int64) error {
	if err := h.lock(true); err != nil {
		return err
	}
	defer h.v.unlock()
	grow := size - h.n.data.size
	switch {
	case size < 0:
		return refuse("truncate", h.path, codeInvalidParameter, fs.ErrInvalid)
	case grow > h.v.m.free():
		return refuse("truncate", h.path, codeDiskFull, system.ErrDiskFull)
	}
	h.n.data.truncate(size)
	h.n.dirty = true
	h.v.m.used += grow
	return nil
}

// Sync makes what was written survive a power cut, as FlushFileBuffers does.
func (h *Handle) Sync() error {
	if err := h.lock(true); err != nil {
		return err
	}
	defer h.v.unlock()
	return h.v.change(Op{Kind: OpSync, Path: h.n.path()}, func(int) error {
		h.n.synced, h.n.dirty = h.n.data.snapshot(), false
		return nil
	})
}

// Close ends the handle. A second Close fails.
func (h *Handle) Close() error {
	if err := h.lock(false); err != nil {
		return err
	}
	defer h.v.unlock()
	if !h.write {
		h.closeLocked()
		return nil
	}
	return h.v.change(Op{Kind: OpClose, Path: h.n.path()}, func(int) error {
		h.closeLocked()
		return nil
	})
}

func (h *Handle) closeLocked() {
	if h.closed {
		return
	}
	h.closed = true
	if h.v.p != nil {
		delete(h.v.p.handles, h)
	}
	if !h.write {
		return
	}
	h.n.writers--
	h.n.data.freeze(h.v.m.opts.Blobs)
	if !h.n.dirty && h.n.data.closed != nil {
		h.n.synced = h.n.data
	}
}

// Size is the size of the file now.
func (h *Handle) Size() (int64, error) {
	if err := h.lock(false); err != nil {
		return 0, err
	}
	defer h.v.unlock()
	return h.n.data.size, nil
}

// IsKilled reports whether an error means that the caller's process has ended.
func IsKilled(err error) bool { return errors.Is(err, ErrKilled) }
