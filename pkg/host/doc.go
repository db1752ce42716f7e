// Package host is what the operator can do to a machine: a few verbs (open, facts, stage, apply, follow, remove, reboot) over a
// transport, and a Pool of Sessions that carries them out outside of reconcilers.
//
// A Session does one verb at a time in its own goroutine. Starting a verb never waits; what came of it is read from
// Snapshot, and every change calls the pool's notify function, so that a reconcile is a short pass over values. A lost
// connection is such a value too. The package may import plan, payload and transport, and nothing of Kubernetes.
package host
