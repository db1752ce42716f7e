// Package proxytoken issues the credential of the kube-proxies that the operator runs: a token of ServiceAccount windows-kube-proxy, which may do
// what ClusterRole system:node-proxier says and nothing else. A token is bound to the Node of its machine where the API server can do that, so
// that it ends with the Node. It asks for 90 days; the API server may grant less, and what it granted counts.
//
// Due and Bindings are pure; Issuer is the thin part that talks to the API server. The package may import the API types, ticket for its
// Secret, kubelet for versions, and client libraries; nothing of hosts.
package proxytoken
