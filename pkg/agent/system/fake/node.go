package fake

import (
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// node is a file or folder. It is guarded by its machine.
type node struct {
	name     string
	parent   *node
	dir      bool
	children map[string]*node
	// access is the class of the access control list, "" when it is inherited.
	access plan.Access
	data   content
	// synced is what a power cut leaves of data.
	synced content
	dirty  bool
	// running counts processes that run this image, writers handles that write, holds handles without delete sharing.
	running, writers, holds int
	locked                  bool
	removed                 bool
}

func newDir(name string, parent *node, access plan.Access) *node {
	return &node{name: name, parent: parent, dir: true, children: map[string]*node{}, access: access}
}

func (n *node) path() string {
	if n.parent == nil {
		return n.name
	}
	return n.parent.path() + `\` + n.name
}

func (n *node) info(path string) system.Info {
	i := system.Info{Path: path, Dir: n.dir, Access: n.access}
	if !n.dir {
		i.Size = n.data.size
	}
	return i
}

// sorted returns the children in the order of their folded names, as NTFS lists them.
func (n *node) sorted() []*node {
	keys := make([]string, 0, len(n.children))
	for k := range n.children {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := make([]*node, 0, len(keys))
	for _, k := range keys {
		out = append(out, n.children[k])
	}
	return out
}

// secret reports whether the node or a folder above it is for administrators only.
func (n *node) secret() bool {
	for ; n != nil; n = n.parent {
		if n.access != "" {
			return n.access == plan.AccessSecret
		}
	}
	return false
}

// inUse reports a handle that does not share writing or deletion.
func (n *node) inUse() bool { return n.writers > 0 || n.holds > 0 || n.locked }

// busyInside reports whether a file below n is open or runs.
func (n *node) busyInside() bool {
	if n.running > 0 || n.inUse() {
		return true
	}
	for _, c := range n.children {
		if c.busyInside() {
			return true
		}
	}
	return false
}

func (n *node) detach() {
	delete(n.parent.children, fold(n.name))
	n.removed = true
}

// attach puts n into dir under name.
func (n *node) attach(dir *node, name string) {
	n.name, n.parent, n.removed = name, dir, false
	dir.children[fold(name)] = n
}

// lookup finds the node at path: 2 ERROR_FILE_NOT_FOUND when the last component is missing, 3 ERROR_PATH_NOT_FOUND
// when an earlier one is.
func (m *Machine) lookup(op, path string) (*node, error) {
	dir, name, err := m.lookupParent(op, path)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return dir, nil
	}
	if n := dir.children[fold(name)]; n != nil {
		return n, nil
	}
	return nil, refuse(op, path, codeFileNotFound, system.ErrNotExist)
}

// lookupParent finds the folder that holds path and the last component; the component is "" for the root of a drive.
func (m *Machine) lookupParent(op, path string) (*node, string, error) {
	parts, err := m.parse(op, path)
	if err != nil {
		return nil, "", err
	}
	dir := m.drives[parts[0]]
	if len(parts) == 1 {
		return dir, "", nil
	}
	for _, part := range parts[1 : len(parts)-1] {
		next := dir.children[fold(part)]
		if next == nil || !next.dir {
			return nil, "", refuse(op, path, codePathNotFound, system.ErrNotExist)
		}
		dir = next
	}
	return dir, parts[len(parts)-1], nil
}

// free is what is left on the disk.
func (m *Machine) free() int64 { return max(0, m.opts.DiskSize-m.used-m.ballast) }

// FillDisk puts other people's bytes on the disk so that leave bytes are free; a negative leave takes them away again.
func (m *Machine) FillDisk(leave int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ballast = 0
	if leave >= 0 {
		m.ballast = max(0, m.free()-leave)
	}
}

// layDownWindows makes the folders of a fresh installation. They have inherited access, as everything not made through
// pkg/agent/system has.
func (m *Machine) layDownWindows() {
	m.drives["c:"] = newDir("C:", nil, "")
	for _, path := range []string{
		`C:\Program Files`, `C:\ProgramData`, `C:\ProgramData\ssh`, `C:\Users`, `C:\Users\Administrator`, `C:\Windows`,
		`C:\Windows\System32`, `C:\Windows\Temp`,
	} {
		_ = m.mkdirAll(path)
	}
}

func (m *Machine) mkdirAll(path string) error {
	parts, err := m.parse("mkdir", path)
	if err != nil {
		return err
	}
	dir := m.drives[parts[0]]
	for _, part := range parts[1:] {
		next := dir.children[fold(part)]
		if next == nil {
			next = newDir(part, dir, "")
			next.attach(dir, part)
		}
		if !next.dir {
			return refuse("mkdir", path, codeDirectory, system.ErrExist)
		}
		dir = next
	}
	return nil
}

// WriteFile puts a file on the machine as somebody else would: with inherited access and missing folders made, durable
// at once. It is for setting a scene; it refuses what the file system refuses, but never a full disk.
func (m *Machine) WriteFile(path string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := strings.LastIndexByte(path, '\\'); i > 2 {
		if err := m.mkdirAll(path[:i]); err != nil {
			return err
		}
	}
	dir, name, err := m.lookupParent("write", path)
	if err != nil {
		return err
	}
	n := dir.children[fold(name)]
	switch {
	case name == "" || n != nil && n.dir:
		return refuse("write", path, codeAccessDenied, system.ErrDenied)
	case n == nil:
		n = &node{}
		n.attach(dir, name)
	case n.running > 0 || n.writers > 0 || n.locked:
		return refuse("write", path, codeSharingViolation, system.ErrBusy)
	}
	m.used += int64(len(data)) - n.data.size
	n.data = content{}
	n.data.writeAt(m.opts.Blobs, data, 0)
	n.data.freeze(m.opts.Blobs)
	n.synced, n.dirty = n.data.snapshot(), false
	return nil
}

// ReadFile returns the bytes of a file, past any process and sharing mode.
func (m *Machine) ReadFile(path string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup("read", path)
	if err != nil {
		return nil, err
	}
	if n.dir {
		return nil, refuse("read", path, codeAccessDenied, system.ErrDenied)
	}
	b := make([]byte, n.data.size)
	n.data.readAt(b, 0)
	return b, nil
}

// Hold opens a file as another program does that does not share deletion, and returns how to close it.
func (m *Machine) Hold(path string) (release func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup("open", path)
	if err != nil {
		return nil, err
	}
	n.holds++
	done := false
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !done {
			done = true
			n.holds--
		}
	}, nil
}
