// Package e2e holds the end-to-end tests on machines of Wine: the operator as a program, a real control plane, OpenShift's Machine controllers, and
// on the machines the real wmcb.exe, kubelet.exe, containerd.exe, kube-proxy.exe and CNI plugins. They are behind the build tag wine, since they
// need root and a payload that is built from source; `make e2e` runs them.
//
// They prove what package wine proves. The tests of the same line on simulated machines are in test/e2e.
package e2e
