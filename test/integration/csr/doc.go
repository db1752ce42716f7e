// Package csr holds no code, only tests: certificate requests really sent by tickets, nodes and strangers to a real API
// server, decided by the real reconciler as the operator's own service account with the rights of config/rbac, and signed, or
// never signed, by the real controller manager.
//
// What it does not prove: no kubelet runs here. The requests have the shape that client-go's certificate manager gives them.
package csr
