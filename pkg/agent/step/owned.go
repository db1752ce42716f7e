package step

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Kind is a kind of object on the machine.
type Kind string

// The kinds.
const (
	KindSecret      Kind = "secret"
	KindEnv         Kind = "env"
	KindFeature     Kind = "feature"
	KindDirectory   Kind = "directory"
	KindFile        Kind = "file"
	KindCertificate Kind = "certificate"
	KindFirewall    Kind = "firewall"
	KindDefender    Kind = "defender"
	KindNetwork     Kind = "network"
	KindEndpoint    Kind = "host-endpoint"
	KindRemotes     Kind = "remote-subnets"
	KindRoute       Kind = "route"
	KindService     Kind = "service"
)

// ID names an object. Key is in lower case, since names are case-insensitive on Windows.
type ID struct {
	Kind Kind   `json:"kind"`
	Key  string `json:"key"`
}

func newID(kind Kind, key string) ID { return ID{Kind: kind, Key: strings.ToLower(key)} }

// Owned records that the agent made or changed an object, and what was there before. It is written before the change.
type Owned struct {
	ID
	// Name is the object's name or path as the plan wrote it.
	Name string `json:"name"`
	// Existed is whether the object was there before; of a host's endpoint, whether the node's adapter forwarded before.
	Existed bool `json:"existed,omitempty"`
	// Access is the access class that a folder had, "" when it had none of the two.
	Access plan.Access `json:"access,omitempty"`
	// Digest is the SHA-256 of a file that was there; the file itself is in the backup folder once it has been replaced.
	Digest string `json:"digest,omitempty"`
	// Value is the value that an environment variable had, or the management address of a network and of a host's endpoint.
	Value string `json:"value,omitempty"`
	// Network is that of a host's endpoint and of remote subnets.
	Network string `json:"network,omitempty"`
	// Rule is the firewall rule that was there.
	Rule *plan.FirewallRule `json:"rule,omitempty"`
	// Purge is Directory.Purge.
	Purge bool `json:"purge,omitempty"`
	// Fingerprint is the digest of the configuration and files that a service was last started with, and of what a file that is written once was
	// written with.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Restart are services that are not in the plan and were stopped since they depend on this one.
	Restart []string `json:"restart,omitempty"`
	// Exe and Args are those of a service, to find out which services use a file.
	Exe  string   `json:"exe,omitempty"`
	Args []string `json:"args,omitempty"`
	// Use is whether a service is somebody else's, which the agent only restarts.
	Use bool `json:"use,omitempty"`
	// Store and DER identify a certificate, Route a route, Exclusion an exclusion.
	Store     string                  `json:"store,omitempty"`
	DER       []byte                  `json:"der,omitempty"`
	Route     *plan.Route             `json:"route,omitempty"`
	Exclusion *plan.DefenderExclusion `json:"exclusion,omitempty"`
	// Routes to a cloud's services that the machine had before the network was made.
	Routes []plan.Route `json:"routes,omitempty"`
}

// Inventory is all that the agent owns on the machine, in the order in which it was claimed.
type Inventory []Owned

// Find returns the record of id.
func (inv Inventory) Find(id ID) (Owned, bool) {
	i := inv.index(id)
	if i < 0 {
		return Owned{}, false
	}
	return inv[i], true
}

func (inv Inventory) index(id ID) int {
	return slices.IndexFunc(inv, func(o Owned) bool { return o.ID == id })
}

// Of returns the records of a kind in the order in which they were claimed.
func (inv Inventory) Of(kind Kind) []Owned {
	var out []Owned
	for _, o := range inv {
		if o.Kind == kind {
			out = append(out, o)
		}
	}
	return out
}

// Ledger is the inventory with the file that keeps it.
type Ledger struct {
	inv  Inventory
	save func(Inventory) error
}

// NewLedger returns a ledger that begins with inv and hands every new inventory to save before a change is made.
func NewLedger(inv Inventory, save func(Inventory) error) *Ledger {
	return &Ledger{inv: slices.Clone(inv), save: save}
}

// Inventory returns a copy of what is owned now.
func (l *Ledger) Inventory() Inventory { return slices.Clone(l.inv) }

// Find returns the record of id.
func (l *Ledger) Find(id ID) (Owned, bool) { return l.inv.Find(id) }

// Record adds or replaces records and saves them.
func (l *Ledger) Record(records ...Owned) error {
	if len(records) == 0 {
		return nil
	}
	next := slices.Clone(l.inv)
	for _, o := range records {
		if i := next.index(o.ID); i >= 0 {
			next[i] = o
		} else {
			next = append(next, o)
		}
	}
	return l.commit(next)
}

// Forget drops records and saves the rest.
func (l *Ledger) Forget(ids ...ID) error {
	if len(ids) == 0 {
		return nil
	}
	return l.commit(slices.DeleteFunc(slices.Clone(l.inv), func(o Owned) bool { return slices.Contains(ids, o.ID) }))
}

func (l *Ledger) commit(next Inventory) error {
	if err := l.save(next); err != nil {
		return fmt.Errorf("recording what the agent owns: %w", err)
	}
	l.inv = next
	return nil
}

// OwnsService reports whether inv holds the service of that name as the agent's own.
func OwnsService(inv Inventory, name string) bool {
	o, ok := inv.Find(newID(KindService, name))
	return ok && !o.Use
}

// FolderAccess returns the class that a folder had before the agent, "" when it had none of the two or the agent made it.
func FolderAccess(inv Inventory, path string) plan.Access {
	o, _ := inv.Find(newID(KindDirectory, disk.Key(path)))
	return o.Access
}

// OwnsFolder reports whether the folder at path was made by the agent.
func OwnsFolder(inv Inventory, path string) bool {
	o, ok := inv.Find(newID(KindDirectory, disk.Key(path)))
	return ok && !o.Existed
}
