// Package csr decides about certificate signing requests of kubelets. Decide is pure: it sees one request, what is
// expected of the hosts, and the time as a value; the rules stand in docs/security.md and each has its attack as a test.
//
// There are four verdicts. Approve: the request is what one of our hosts must send now. Deny: it concerns one of our
// hosts and is wrong. Wait: it may become right when data arrives. Ignore: it is not ours to judge, already decided,
// or too old. A request is ours when its subject names an expected node, or when it was sent by the account or node of an
// expected host; names are compared whole and with their case, never in part.
//
// Nothing that the machine can write about itself after its ticket was issued takes part: not Node.status, not the
// request's own text, not DNS.
//
// The package imports the standard library and the certificates API types only. Controllers gather what it needs
// and act on its verdict.
package csr
