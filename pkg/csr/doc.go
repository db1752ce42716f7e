// Package csr decides about certificate signing requests of kubelets. Decide is pure: it sees one request, what is
// expected of the hosts, and the time as a value; the rules stand in docs/security.md and each has its attack as a test.
//
// It imports crypto/x509 and the certificates API types only. Controllers gather what it needs and act on its verdict.
package csr
