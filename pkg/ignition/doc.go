// Package ignition reads a worker's ignition, of every stable spec version from 2.0 to 3.5, for the few facts that a Windows
// node shares with its Linux neighbours: kubelet configuration, bootstrap kubeconfig, kubelet CA, cloud provider and log
// verbosity.
//
// It promises: no panic and bounded memory and time on any input (the limits are in limits.go); nothing is fetched, only
// data: URLs are read; an entry that only Linux needs is never fatal while its JSON has the types of the spec; a file that is
// broken is an error that names its path and never an empty or partial result; content of a file never appears in an error.
//
// It decodes into the types of github.com/coreos/ignition but does not run their validation: that judges the whole document,
// so that one faulty entry for Linux would stop every Windows node.
//
// It imports the standard library, golang.org/x/text, the ignition types and pkg/facts; no Kubernetes package, since the agent
// on the machine carries it.
package ignition
