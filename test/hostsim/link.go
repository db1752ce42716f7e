package hostsim

import (
	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

// Unplug takes the network cable out: connections are cut and new ones refused until Plug, or until the machine boots or its network is made.
func (h *Host) Unplug() {
	h.setLink(false)
	h.Disconnect()
}

// Plug puts the network cable back.
func (h *Host) Plug() { h.setLink(true) }

// Signer is the host key that connections get now.
func (h *Host) Signer() ssh.Signer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hostKey
}

// owners knows which connection started a process. Process ids of a machine are not used again.
type owners map[uint32]int

// own notes that a process belongs to the connection.
func (h *Host) own(p *fake.Process, connection int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.owners == nil {
		h.owners = owners{}
	}
	h.owners[p.PID()] = connection
}

// Owner returns the number of the connection that started a process, counted from 1 in the order in which they were accepted; false when none did,
// as with a service.
func (h *Host) Owner(pid uint32) (connection int, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	connection, ok = h.owners[pid]
	return connection, ok
}
