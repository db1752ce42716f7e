// Package kubeproxy holds no code, only tests: tokens for kube-proxies, really asked for as the operator's own service account with the rights of
// config/rbac, and used against a real API server.
//
// What it does not prove: no kube-proxy runs here, and no machine.
package kubeproxy
