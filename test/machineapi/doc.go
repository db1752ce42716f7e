// Package machineapi runs OpenShift's own MachineSet, Machine, drain and nodelink controllers
// (github.com/openshift/machine-api-operator) against any control plane, with machines that a Provider hands out in memory.
//
// Promises: replicas, phases, finalizers, drains, node references, taints and labels are the real controllers' work; only the
// cloud is ours. There are no webhooks, no MachineHealthCheck, and no Infrastructure object is needed: a template must carry
// the label machine.openshift.io/cluster-api-cluster, which a webhook would set.
//
// Test code and demos may import it; the operator's binary must not (hack/verify-imports.sh).
package machineapi
