// Package discover reads facts.Cluster from a cluster: OpenShift's config.openshift.io and machineconfiguration.openshift.io objects,
// what kubeadm leaves behind, and what every Kubernetes has. Nothing else in the product knows these objects.
//
// It promises: nothing is guessed. A fact comes from an object that says so, its source is named in facts.Cluster.Sources, and
// a fact that no object holds is a facts.Problem whose message names the object, the field and the way out. Sources that
// contradict each other are reported. The same objects give the same result, byte for byte. Only a failure of the API server
// itself is an error.
//
// It works in three steps: gather reads objects, climb turns them into candidates in the order of trust, decide picks; the last
// two are pure.
//
// It may import API types, controller-runtime's client interface, pkg/facts, pkg/ignition and pkg/apis; controllers import it,
// and nothing on the machine does.
package discover
