// Package discover reads facts.Cluster from a cluster: OpenShift's config.openshift.io and machineconfiguration.openshift.io objects,
// what kubeadm leaves behind, what pod networks leave in the API, and what every Kubernetes has. Nothing else in the product knows these
// objects.
//
// It promises: nothing has a made-up default. A fact comes from an object that says so, its source is named in facts.Cluster.Sources, and
// a fact that no object holds is a facts.Problem whose message names the object, the field and the way out. One guess there is, the pod
// ranges over those of all Nodes where nothing else says them; it is reported as v1alpha1.ReasonFactsGuessed. Sources that contradict each
// other are reported. The same objects give the same result, byte for byte. Only a failure of the API server itself is an error.
//
// It works in three steps: gather reads objects, climb turns them into candidates in the order of trust, decide picks; the last two are
// pure. planes and choose, which settle the network mode, are pure too.
//
// What is left out on purpose: the /configz of a Linux kubelet would show cluster domain and DNS on clusters where no object does, but get of
// nodes/proxy runs code on every node. The range over the clusterIPs in use is only said as a hint: as a fact it would be too narrow, and
// Services outside of it would not be reached. To create a Service as a dry run, whose refusal names the service range before Kubernetes
// 1.33, is tried but no right for it is asked for (see rbac.go).
//
// It may import API types, controller-runtime's client interface, pkg/facts, pkg/ignition and pkg/apis; controllers import it,
// and nothing on the machine does.
package discover
