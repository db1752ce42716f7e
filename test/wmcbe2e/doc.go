// Package wmcbe2e is the bootstrapper's end-to-end run: on a Windows machine of the Machine API it runs wmcb's initialize-kubelet,
// configure-cni and uninstall-kubelet over SSH as a person would, each twice, approves the kubelet's certificate requests, and watches the Node.
//
// Its test program is the entry point of the image of Dockerfile.tools, which hack/run-wmcb-ci-e2e-test.sh runs as a Job: with
// -cluster in a cluster, where it makes a MachineSet first, or with -skipVMSetup takes a Machine that is Provisioned. Without -cluster
// the very same run goes against test/bed, with the rights of the Job's account and -skipVMSetup.
//
// What the run on test/bed does not prove: that Windows, or a real kubelet, does the same (see test/hostsim); and nothing shows here that a
// cloud makes the MachineSet. It may import test/bed, the transport, pkg/payload and API types; the bootstrapper it knows by its command
// line alone.
package wmcbe2e
