package fake

import (
	"maps"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Tree is the whole lasting state of a machine, for comparing before with after. Keys keep the case they were made with.
type Tree struct {
	// Files by path, folders among them.
	Files        map[string]FileState
	Env          map[string]string
	Features     map[string]Feature
	Services     map[string]ServiceState
	Firewall     []plan.FirewallRule
	Certificates map[string][]string
	Defender     []plan.DefenderExclusion
	Networks     []plan.Network
	// Endpoints that are attached to the host, by name; Remotes of Overlay networks, by the network's name in capitals; Forwarding names adapters.
	Endpoints  map[string]plan.HostEndpoint
	Remotes    map[string][]plan.RemoteSubnet
	Forwarding []string
	Routes     []plan.Route
	Addresses  []plan.AdapterAddress
}

// FileState is a file or folder.
type FileState struct {
	Dir    bool
	Size   int64
	Digest string
	// Access is "" when it is inherited.
	Access plan.Access
}

// ServiceState is a service.
type ServiceState struct {
	Config system.ServiceConfig
	State  system.ServiceState
	// Marked is whether it is marked for deletion.
	Marked bool
}

// Dump copies the machine's state.
func (m *Machine) Dump() Tree {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := Tree{
		Files: map[string]FileState{}, Env: map[string]string{}, Features: maps.Clone(m.features),
		Endpoints: map[string]plan.HostEndpoint{}, Remotes: map[string][]plan.RemoteSubnet{},
		Services: map[string]ServiceState{}, Certificates: map[string][]string{}, Routes: append([]plan.Route(nil), m.routes...),
	}
	for _, d := range m.drives {
		dumpFiles(t.Files, d)
	}
	for _, e := range m.env {
		t.Env[e.Name] = e.Value
	}
	for _, s := range m.services {
		t.Services[s.cfg.Name] = ServiceState{Config: copyConfig(s.cfg), State: s.state, Marked: s.marked}
	}
	for _, key := range slices.Sorted(maps.Keys(m.firewall)) {
		t.Firewall = append(t.Firewall, m.firewall[key])
	}
	for store, certs := range m.certs {
		t.Certificates[store] = slices.Sorted(maps.Keys(certs))
	}
	t.Defender = slices.SortedFunc(maps.Keys(m.defender), func(a, b plan.DefenderExclusion) int {
		return strings.Compare(exclusionName(a), exclusionName(b))
	})
	for _, key := range slices.Sorted(maps.Keys(m.networks)) {
		t.Networks = append(t.Networks, m.networks[key])
	}
	m.dumpNetwork(&t)
	return t
}

func (m *Machine) dumpNetwork(t *Tree) {
	for _, e := range m.endpoints {
		if e.attached {
			t.Endpoints[e.Name] = e.HostEndpoint
		}
	}
	for network, list := range m.remotes {
		t.Remotes[network] = slices.Clone(list)
	}
	for _, a := range m.adapters {
		t.Addresses = append(t.Addresses, a.shown())
		if a.forwarding {
			t.Forwarding = append(t.Forwarding, a.shown().Adapter)
		}
	}
}

func dumpFiles(out map[string]FileState, n *node) {
	s := FileState{Dir: n.dir, Access: n.access}
	if !n.dir {
		s.Size, s.Digest = n.data.size, n.data.digest()
	}
	out[n.path()] = s
	for _, c := range n.children {
		dumpFiles(out, c)
	}
}
