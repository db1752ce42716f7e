package podcidr

import (
	"reflect"
	"slices"
	"sync"
)

// Store hands the newest result for each profile from its one writer, controllers/podcidr, to its readers. The zero Store is ready to use; a nil
// one has nothing and is for readers that do without.
type Store struct {
	mu   sync.RWMutex
	m    map[string]Result
	subs []func(Change)
}

// Change says what of a profile's result is another one, so that with many hosts only those look again whom it concerns. A change of
// Result.Missing concerns hosts that look again by themselves, and is none.
type Change struct {
	Profile string
	// All is whether every host is concerned: Needed or Wait changed.
	All bool
	// Hosts are the UIDs that came to Result.Hosts, Nodes the names whose judgement changed; sorted.
	Hosts, Nodes []string
	// Mismatches is whether those changed.
	Mismatches bool
}

// Any reports whether anything changed.
func (c Change) Any() bool { return c.All || c.Mismatches || len(c.Hosts) > 0 || len(c.Nodes) > 0 }

// Get returns the newest result for the profile; ok is false before the first. What it holds must not be written to.
func (s *Store) Get(profile string) (r Result, ok bool) {
	if s == nil {
		return Result{}, false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	r, ok = s.m[profile]
	return r, ok
}

// Set stores a result, and tells every subscriber what changed, if anything did.
func (s *Store) Set(profile string, r Result) {
	s.mu.Lock()
	old, ok := s.m[profile]
	if s.m == nil {
		s.m = map[string]Result{}
	}
	s.m[profile] = r
	subs := slices.Clone(s.subs)
	s.mu.Unlock()
	c := compare(old, r)
	c.Profile, c.All = profile, c.All || !ok
	if !c.Any() {
		return
	}
	for _, f := range subs {
		f(c)
	}
}

func compare(old, now Result) Change {
	c := Change{
		All:        old.Needed != now.Needed || old.Wait != now.Wait,
		Mismatches: !slices.Equal(old.Mismatches, now.Mismatches),
	}
	for _, uid := range now.Hosts {
		if _, known := slices.BinarySearch(old.Hosts, uid); !known {
			c.Hosts = append(c.Hosts, uid)
		}
	}
	for name, j := range now.Nodes {
		if !reflect.DeepEqual(old.Nodes[name], j) {
			c.Nodes = append(c.Nodes, name)
		}
	}
	for name := range old.Nodes {
		if _, still := now.Nodes[name]; !still {
			c.Nodes = append(c.Nodes, name)
		}
	}
	slices.Sort(c.Nodes)
	return c
}

// Delete forgets a profile.
func (s *Store) Delete(profile string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, profile)
}

// Subscribe calls f after each change; f must not block.
func (s *Store) Subscribe(f func(Change)) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs = append(s.subs, f)
}
