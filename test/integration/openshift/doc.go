// Package openshift holds no code, only tests of the product on what OpenShift is made of for it: OpenShift's own CustomResourceDefinitions on a
// real API server, with Infrastructure, Network, ControllerConfig, worker pool and rendered MachineConfig as its installer and its operators
// leave them, and without anything of kubeadm. Facts are read with the operator's own service account and the rights of config/rbac, and the
// operator as a program of its own makes Ready nodes from them.
//
// Two beds serve all tests: one on Azure with the operator, OpenShift's Machine controllers and simulated machines, and a bare one on AWS
// whose objects tests take away one after the other.
//
// `go test ./test/integration/openshift -update` writes the golden files in testdata.
//
// What it does not prove: that a release of OpenShift renders a worker's ignition as test/bed does, anything about OVN-Kubernetes, and
// anything about real Windows.
package openshift
