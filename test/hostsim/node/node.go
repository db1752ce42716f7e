package node

import (
	"fmt"
	"strings"
	"sync"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/test/payload"
)

// Options of a machine's software.
type Options struct {
	// Logf gets what happens to programs, nil discards it. Their own output goes where the machine sends it.
	Logf func(format string, args ...any)
}

// Node is what the programs of one machine share: its named pipes.
type Node struct {
	logf func(format string, args ...any)
	// work are certificate managers that are being ended.
	work sync.WaitGroup
	mu   sync.Mutex
	// pipes are the listening named pipes by folded name, with the runtime behind each.
	pipes map[string]*cri
}

// New returns the software of one machine.
func New(o Options) *Node {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	return &Node{logf: o.Logf, pipes: map[string]*cri{}}
}

// Close waits until what the programs left behind has ended; the machine must be closed before.
func (n *Node) Close() { n.work.Wait() }

// Resolve finds the program in a file: for fake.Options.Resolve.
func (n *Node) Resolve(i fake.Image) (fake.Program, bool) {
	name, ok := payload.Identify(i.Head)
	if !ok {
		return nil, false
	}
	switch name {
	case "kube-log-runner.exe":
		return logRunner, true
	case "containerd.exe":
		return n.containerd, true
	case "kubelet.exe":
		return n.kubelet, true
	case "kube-proxy.exe":
		return n.kubeProxy, true
	}
	return nil, false
}

// askedForVersion: the program was started with --version and nothing else; it answers with one line and ends.
func askedForVersion(p *fake.Process) bool { return len(p.Args()) == 1 && p.Args()[0] == "--version" }

func say(p *fake.Process, text string) int {
	if _, err := fmt.Fprintln(p.Stdout(), text); err != nil {
		return 1
	}
	return 0
}

// listen opens a named pipe; false when it is taken.
func (n *Node) listen(pipe string, c *cri) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pipes[pipe] != nil {
		return false
	}
	n.pipes[pipe] = c
	return true
}

func (n *Node) unlisten(pipe string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pipes, pipe)
}

// dial finds the runtime behind a named pipe, nil when nobody listens.
func (n *Node) dial(pipe string) *cri {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pipes[pipe]
}

// pipeName is one spelling of a named pipe: `\\.\pipe\x`, "//./pipe/x" and "npipe:////./pipe/x" are the same.
func pipeName(s string) string {
	s = strings.TrimPrefix(strings.ToLower(s), "npipe:")
	s = strings.ReplaceAll(s, "/", `\`)
	return `\\` + strings.TrimLeft(s, `\`)
}

// windowsPath makes a path of configuration one of the machine: programs accept forward slashes, and take a path without a drive
// to be on C:.
func windowsPath(path string) string {
	path = strings.ReplaceAll(path, "/", `\`)
	if strings.HasPrefix(path, `\`) {
		path = "C:" + path
	}
	for strings.Contains(path, `\\`) {
		path = strings.ReplaceAll(path, `\\`, `\`)
	}
	if len(path) > 3 {
		path = strings.TrimSuffix(path, `\`)
	}
	return path
}

func dirOf(path string) string {
	if i := strings.LastIndexByte(path, '\\'); i > 2 {
		return path[:i]
	}
	return path[:min(len(path), 3)]
}
