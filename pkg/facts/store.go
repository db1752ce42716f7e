package facts

import (
	"context"
	"slices"
	"sync"
)

// Problem is a fact that could not be found, or sources that disagree.
type Problem struct {
	// Fact is one of the names of cluster facts.
	Fact string
	// Reason is a condition reason of pkg/apis/v1alpha1.
	Reason string
	// Message names the object, the field and the way out.
	Message string
	// Fatal problems stop hosts from being set up.
	Fatal bool
}

// Discovered is the outcome of one discovery for a profile.
type Discovered struct {
	Cluster  Cluster
	Problems []Problem
}

// Fatal returns the problems that stop hosts from being set up.
func (d Discovered) Fatal() []Problem {
	var out []Problem
	for _, p := range d.Problems {
		if p.Fatal {
			out = append(out, p)
		}
	}
	return out
}

// Store hands the newest discovery of each profile from its one writer, the profile controller, to its readers. The zero Store
// is ready to use.
type Store struct {
	mu   sync.RWMutex
	m    map[string]Discovered
	subs []func(profile string)
}

// Get returns the newest discovery for the profile; ok is false before the first.
func (s *Store) Get(profile string) (d Discovered, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	d, ok = s.m[profile]
	return d, ok
}

// Set stores a discovery and tells every subscriber.
func (s *Store) Set(profile string, d Discovered) {
	s.mu.Lock()
	if s.m == nil {
		s.m = map[string]Discovered{}
	}
	s.m[profile] = d
	subs := slices.Clone(s.subs)
	s.mu.Unlock()
	for _, f := range subs {
		f(profile)
	}
}

// Delete forgets a profile.
func (s *Store) Delete(profile string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, profile)
}

// ServerNames returns the names and addresses of API server and Services that were discovered for any profile, sorted, each once; no node
// may claim one. Its form is that of a source that may fail; it never does.
func (s *Store) ServerNames(context.Context) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []string
	for _, d := range s.m {
		out = append(out, d.Cluster.ServerNames...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Subscribe calls f after each Set; f must not block.
func (s *Store) Subscribe(f func(profile string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs = append(s.subs, f)
}
