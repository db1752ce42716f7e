package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// ChangeKind says what happens to an item of a plan.
type ChangeKind string

// Kinds of change.
const (
	ChangeAdd    ChangeKind = "add"
	ChangeRemove ChangeKind = "remove"
	ChangeModify ChangeKind = "change"
)

// Change is one difference between two plans, for people: a dry run prints them.
type Change struct {
	Kind ChangeKind `json:"kind"`
	// Item is the kind of thing, for example "service".
	Item string `json:"item"`
	// Name of the thing: a path, a service's name, a rule's name.
	Name string `json:"name"`
	// What names the fields that differ, for ChangeModify only. Values are not shown, since some may be delicate.
	What []string `json:"what,omitempty"`
}

// String is a line for people, for example `change service kubelet (args)`.
func (c Change) String() string {
	s := string(c.Kind) + " " + c.Item + " " + c.Name
	if len(c.What) > 0 {
		s += " (" + strings.Join(c.What, ", ") + ")"
	}
	return s
}

// Diff returns what changes on a machine that goes from one plan to the other, in the order of the plan's steps; within a
// step removals come first. Plans that are equal, or differ in the order of their lists only, give nil.
func Diff(from, to Plan) []Change {
	var out []Change
	before, after := listing(from), listing(to)
	for i := range after {
		out = append(out, diffList(after[i].item, before[i].entries, after[i].entries)...)
	}
	return out
}

// entries are the items of one list of a plan.
type entries struct {
	item    string
	entries []entry
}

type entry struct {
	name  string
	value any
}

func listing(p Plan) []entries {
	return []entries{
		list("capability", p.Requires, func(s string) string { return s }),
		list("root", p.Roots, func(s string) string { return s }),
		list("secret", p.Secrets, func(s Secret) string { return s.Name }),
		list("environment variable", p.Env, func(e EnvVar) string { return e.Name }),
		list("feature", p.Features, func(f Feature) string { return f.Name }),
		list("directory", p.Directories, func(d Directory) string { return d.Path }),
		list("defender exclusion", p.Defender, func(d DefenderExclusion) string { return d.Process + d.Path }),
		list("file", p.Files, func(f File) string { return f.Path }),
		list("certificate", p.Certificates, certificateName),
		list("firewall rule", p.Firewall, func(r FirewallRule) string { return r.Name }),
		list("network", p.Networks, func(n Network) string { return n.Name }),
		list("route", p.Routes, func(r Route) string { return r.Destination }),
		list("service", p.Services, func(s Service) string { return s.Name }),
	}
}

func list[T any](item string, in []T, name func(T) string) entries {
	out := entries{item: item, entries: make([]entry, len(in))}
	for i, v := range in {
		out.entries[i] = entry{name: name(v), value: v}
	}
	return out
}

// certificateName is the store and the SHA-256 of the certificate, as certificate managers show it.
func certificateName(c Certificate) string {
	der, _ := oneCertificate(c.PEM)
	return fmt.Sprintf("%s %.16s", c.Store, digest(der))
}

func diffList(item string, before, after []entry) []Change {
	old := map[string]any{}
	for _, e := range before {
		old[fold(e.name)] = e.value
	}
	kept := map[string]bool{}
	var changes []Change
	for _, e := range after {
		prior, ok := old[fold(e.name)]
		kept[fold(e.name)] = true
		if !ok {
			changes = append(changes, Change{Kind: ChangeAdd, Item: item, Name: e.name})
		} else if what := fieldsThatDiffer(prior, e.value); len(what) > 0 {
			changes = append(changes, Change{Kind: ChangeModify, Item: item, Name: e.name, What: what})
		}
	}
	var removed []Change
	for _, e := range slices.Backward(before) {
		if !kept[fold(e.name)] {
			removed = append(removed, Change{Kind: ChangeRemove, Item: item, Name: e.name})
		}
	}
	return append(removed, changes...)
}

// fieldsThatDiffer compares two items by their JSON fields, so that nil and empty lists are the same.
func fieldsThatDiffer(a, b any) []string {
	fa, fb := fields(a), fields(b)
	var out []string
	for name, value := range fa {
		if !bytes.Equal(value, fb[name]) {
			out = append(out, name)
		}
	}
	for name := range fb {
		if _, ok := fa[name]; !ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func fields(v any) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	b, err := json.Marshal(v)
	if err != nil || json.Unmarshal(b, &out) != nil {
		// A plain string, as in Requires: its name is all there is.
		return nil
	}
	return out
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
