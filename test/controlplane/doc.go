// Package controlplane is a real Kubernetes control plane for tests and demos: etcd, kube-apiserver,
// kube-controller-manager and kubectl of one version, built once from the Go module proxy and started in seconds.
//
// Binaries builds the programs of the module hack/controlplane and keeps them in the user's cache folder under a key of
// everything that decides their content. Start runs an isolated control plane: its own free port, certificates and data
// folder; authorization Node and RBAC, admission NodeRestriction, CSR signing, service account tokens, and node CIDRs on
// request. Any number of them run side by side.
//
// Promises: nothing that the package did not start is ever signalled; a test process that is killed takes its children with
// it; Stop leaves neither a process nor a folder behind; a failed start carries the end of the failing program's log.
//
// What it does not prove: there are no nodes, no scheduler, no admission webhooks of a distribution, and etcd does not sync
// its writes. The programs run as the calling user on Linux only.
//
// Test code may import it; nothing below pkg, controllers or cmd may.
package controlplane
