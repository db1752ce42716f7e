// Package e2e holds no code, only tests of the whole product: the operator as a program of its own with the rights of config/rbac, a real
// control plane, OpenShift's own Machine controllers, and simulated machines on which the real agent runs. A test looks at what an admin sees
// (objects, events, kubectl describe), at what the machine has (its files, services, journal) and at what the operator cost it.
//
// One bed serves all tests side by side, each with machines of its own; a second one is there for the test that stops and kills the operator.
// Both start when the first test needs them.
//
// `go test ./test/e2e -update` writes the golden files in testdata; read them as somebody who has to repair the machine with nothing else at hand.
//
// What it does not prove: anything about real Windows (see packages hostsim, fake and node).
package e2e
