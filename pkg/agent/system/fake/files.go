package fake

import (
	"errors"
	"io"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

type files struct{ view }

func (v files) Stat(path string) (system.Info, error) {
	if err := v.lock(); err != nil {
		return system.Info{}, err
	}
	defer v.unlock()
	n, err := v.m.lookup("stat", path)
	if err != nil {
		return system.Info{}, err
	}
	return n.info(n.path()), nil
}

func (v files) ReadDir(path string) ([]system.Info, error) {
	if err := v.lock(); err != nil {
		return nil, err
	}
	defer v.unlock()
	dir, err := v.m.lookup("list", path)
	if err != nil {
		return nil, err
	}
	if !dir.dir {
		return nil, refuse("list", path, codeDirectory, nil)
	}
	var out []system.Info
	for _, n := range dir.sorted() {
		out = append(out, n.info(n.path()))
	}
	return out, nil
}

func (v files) Open(path string) (io.ReadCloser, error) {
	h, err := v.open(path, ModeRead, "")
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (v files) Create(path string, access plan.Access) (system.NewFile, error) {
	return v.newFile(path, ModeCreate, access)
}

func (v files) Append(path string, access plan.Access) (system.NewFile, error) {
	return v.newFile(path, ModeAppend, access)
}

func (v files) newFile(path string, mode Mode, access plan.Access) (system.NewFile, error) {
	h, err := v.open(path, mode, access)
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (v files) Mkdir(path string, access plan.Access) error {
	if err := v.lockAdmin("mkdir", path); err != nil {
		return err
	}
	defer v.unlock()
	return v.change(Op{Kind: OpMkdir, Path: path}, func(int) error {
		dir, name, err := v.m.lookupParent("mkdir", path)
		switch {
		case err != nil:
			return err
		case name == "" || dir.children[fold(name)] != nil:
			return refuse("mkdir", path, 183, system.ErrExist)
		}
		newDir(name, dir, access).attach(dir, name)
		return nil
	})
}

func (v files) SetAccess(path string, access plan.Access) error {
	if err := v.lockAdmin("set access", path); err != nil {
		return err
	}
	defer v.unlock()
	return v.change(Op{Kind: OpSetAccess, Path: path}, func(int) error {
		n, err := v.m.lookup("set access", path)
		if err == nil {
			n.access = access
		}
		return err
	})
}

// Rename moves a file as MoveFileEx with MOVEFILE_REPLACE_EXISTING does. A running image may be renamed, since the loader
// opens it with delete sharing, but never replaced (5 ERROR_ACCESS_DENIED); a file that somebody writes or holds
// without delete sharing can be neither (32 ERROR_SHARING_VIOLATION); a folder never replaces anything and does not move
// while something in it is open.
func (v files) Rename(from, to string) error {
	if err := v.lockAdmin("rename", from); err != nil {
		return err
	}
	defer v.unlock()
	return v.change(Op{Kind: OpRename, Path: to, From: from}, func(int) error { return v.m.rename(from, to) })
}

func (m *Machine) rename(from, to string) error {
	n, err := m.lookup("rename", from)
	if err != nil {
		return err
	}
	dir, name, err := m.lookupParent("rename", to)
	if err != nil {
		return err
	}
	if n.parent == nil || name == "" {
		return refuse("rename", from, codeAccessDenied, system.ErrDenied)
	}
	if err := movable(n, dir, from); err != nil {
		return err
	}
	if old := dir.children[fold(name)]; old != nil && old != n {
		if err := m.replaceable(n, old, to); err != nil {
			return err
		}
		m.unlink(old)
	}
	n.detach()
	n.attach(dir, name)
	return nil
}

func movable(n, dir *node, path string) error {
	switch {
	case n.inUse():
		return refuse("rename", path, codeSharingViolation, system.ErrBusy)
	case n.dir && n.busyInside():
		return refuse("rename", path, codeAccessDenied, system.ErrDenied)
	case n.dir && inside(dir, n):
		return refuse("rename", path, codeSharingViolation, system.ErrBusy)
	}
	return nil
}

func (m *Machine) replaceable(n, old *node, path string) error {
	switch {
	case n.dir || old.dir:
		return refuse("rename", path, codeAccessDenied, system.ErrDenied)
	case old.running > 0:
		return refuse("rename", path, codeAccessDenied, system.ErrBusy)
	case old.inUse():
		return refuse("rename", path, codeSharingViolation, system.ErrBusy)
	}
	return nil
}

func inside(n, dir *node) bool {
	for ; n != nil; n = n.parent {
		if n == dir {
			return true
		}
	}
	return false
}

// Remove deletes as DeleteFile and RemoveDirectory do: a running image answers 5 ERROR_ACCESS_DENIED, an open file 32, a
// folder that is not empty 145 ERROR_DIR_NOT_EMPTY. A file that is only read with delete sharing goes at once, as NTFS
// with POSIX semantics does since Windows 10 1809; its readers keep the bytes.
func (v files) Remove(path string) error {
	if err := v.lockAdmin("remove", path); err != nil {
		return err
	}
	defer v.unlock()
	return v.change(Op{Kind: OpRemove, Path: path}, func(int) error {
		n, err := v.m.lookup("remove", path)
		switch {
		case err != nil:
			return err
		case n.parent == nil:
			return refuse("remove", path, codeAccessDenied, system.ErrDenied)
		case n.running > 0:
			return refuse("remove", path, codeAccessDenied, system.ErrBusy)
		case n.inUse():
			return refuse("remove", path, codeSharingViolation, system.ErrBusy)
		case len(n.children) > 0:
			return refuse("remove", path, codeDirNotEmpty, nil)
		}
		v.m.unlink(n)
		return nil
	})
}

// unlink takes a node out of the tree and gives its bytes back.
func (m *Machine) unlink(n *node) {
	n.detach()
	m.used -= n.data.size
}

// Lock opens a lock file that nobody else may open (32 ERROR_SHARING_VIOLATION). The file stays when the lock is released.
func (v files) Lock(path string) (func() error, error) {
	if err := v.lockAdmin("lock", path); err != nil {
		return nil, err
	}
	defer v.unlock()
	dir, name, err := v.m.lookupParent("lock", path)
	if err != nil {
		return nil, err
	}
	n := dir.children[fold(name)]
	switch {
	case name == "" || n != nil && n.dir:
		return nil, refuse("lock", path, codeAccessDenied, system.ErrDenied)
	case n == nil:
		n = &node{access: plan.AccessSecret}
		n.attach(dir, name)
	case n.inUse():
		return nil, refuse("lock", path, codeSharingViolation, system.ErrBusy)
	}
	n.locked = true
	if v.p != nil {
		v.p.locks[n] = true
	}
	return func() error { return v.release(n) }, nil
}

func (v files) release(n *node) error {
	if err := v.lock(); err != nil {
		return err
	}
	defer v.unlock()
	if !n.locked || v.p != nil && !v.p.locks[n] {
		return errors.New("the lock is not held")
	}
	n.locked = false
	if v.p != nil {
		delete(v.p.locks, n)
	}
	return nil
}
