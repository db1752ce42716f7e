// Package ticket makes and takes back tickets: the credential with which a machine asks for its first client certificate.
//
// A ticket is a ServiceAccount of its own in namespace windows-machine-bootstrap, whose group may create certificate
// requests (ClusterRole system:node-bootstrapper) and nothing else, with a bound token of half an hour. It needs no
// bootstrap-token authentication and no Secret, and it dies with the account. Its ID is the account's UID: the API server
// writes that UID into every certificate request (spec.uid), so that pkg/csr can tell one ticket from the next.
//
// Rules are pure functions (AccountName, Orphans, RiskyBindings); Issuer is the thin part that talks to the API server.
// The package may import the API types, facts, csr (for names) and client libraries; nothing of hosts.
package ticket
