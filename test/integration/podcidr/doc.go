// Package podcidr holds no code, only tests: pod ranges on a real API server, given by a real controller manager, first without and then with the
// flags that make it do so, or by the operator, with its own service account and the rights of config/rbac.
//
// What it does not prove: the Linux nodes are Node objects, and the addresses of their pods are written into the status by hand.
package podcidr
