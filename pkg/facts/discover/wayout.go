package discover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/ignition"
)

// wayOut says where a fact is looked for and how to provide it; "" for a fact that may be absent.
func (d *decision) wayOut(fact string) string {
	set := func(field string) string {
		return fmt.Sprintf("set spec.cluster.%s of WindowsNodeProfile %s", field, d.in.ProfileName)
	}
	if way := d.openshiftWayOut(fact, set); way != "" {
		return way
	}
	switch fact {
	case facts.APIServer:
		return d.apiServerWayOut(set("apiServer"))
	case facts.APIServerCA:
		return "ConfigMap kube-system/kube-root-ca.crt holds it under ca.crt once kube-controller-manager runs with --root-ca-file"
	case facts.KubeletClientCA:
		return d.kubeletCAWayOut()
	case facts.ClusterDNS:
		return "There is no Service kube-system/kube-dns, none with label k8s-app=kube-dns, not exactly one with port 53 for UDP and TCP, and no ConfigMap kubelet-config: " + set("dns")
	case facts.ClusterDomain:
		return "Neither ConfigMap kubeadm-config nor kubelet-config nor the Corefile of coredns in kube-system holds it: " + set("domain") +
			" to the clusterDomain of the other nodes' kubelets"
	case facts.PodCIDRs:
		return d.podWayOut(set("podCIDRs"))
	case facts.ServiceCIDRs:
		return d.serviceWayOut(set("serviceCIDRs"))
	}
	return ""
}

func (d *decision) podWayOut(set string) string {
	way := "Neither ConfigMap kubeadm-config nor kube-proxy in kube-system, nor flannel's or Calico's objects, nor a mirror pod of kube-controller-manager hold them"
	if n := len(d.s.nodes); n > 0 && !slices.ContainsFunc(d.s.nodes, func(n nodeView) bool { return len(n.podCIDRs) > 0 }) {
		way += fmt.Sprintf(", and none of %d Nodes has spec.podCIDR, which kube-controller-manager sets only with --allocate-node-cidrs=true and --cluster-cidr", n)
	}
	return way + ": " + set + " to the --cluster-cidr of kube-controller-manager"
}

// serviceWayOut names what is known: the addresses of Services in use, which a guess would be too narrow for.
func (d *decision) serviceWayOut(set string) string {
	way := "There are no ServiceCIDR objects (Kubernetes 1.33 and newer), no ConfigMap kubeadm-config and no mirror pod of kube-apiserver: " + set +
		" to the --service-cluster-ip-range of kube-apiserver"
	ips := d.s.serviceIPs
	if d.s.api != nil {
		ips = append(slices.Clone(ips), clusterIPs(d.s.api)...)
	}
	if used := cover(addressRanges(ips)); len(used) > 0 {
		way += ", which holds at least " + strings.Join(used, " and ")
	}
	if d.s.mayNotOffer {
		way += fmt.Sprintf("; or let the operator's service account create services in namespace %s, which it does as a dry run only: the API server's refusal names the range", d.in.Namespace)
	}
	return way
}

func (d *decision) apiServerWayOut(set string) string {
	way := "Neither OpenShift's Infrastructure nor kubeadm's ConfigMaps name a URL that nodes could use: " + set
	if urls := endpointURLs(d.s); len(urls) > 1 {
		way += " to a load balancer before " + bounded(strings.Join(urls, ", "), maxMessage) + ", or to one of them"
	}
	return way
}

// openshiftWayOut is for the facts that OpenShift keeps elsewhere than other clusters do, so that nobody is sent to look for kubeadm there.
func (d *decision) openshiftWayOut(fact string, set func(field string) string) string {
	if d.s.infra == nil {
		return ""
	}
	switch fact {
	case facts.ClusterDNS:
		return "Network cluster holds the range whose tenth address it is in .status.serviceNetwork: " + set("dns")
	case facts.ClusterDomain:
		return fmt.Sprintf("On OpenShift the worker ignition holds it, in clusterDomain of file %s: name an ignition that has this file in spec.ignition of WindowsNodeProfile %s, or %s",
			ignition.PathKubeletConfig, d.in.ProfileName, set("domain"))
	case facts.PodCIDRs:
		return "Network cluster holds them in .status.clusterNetwork: " + set("podCIDRs")
	case facts.ServiceCIDRs:
		return "Network cluster holds them in .status.serviceNetwork: " + set("serviceCIDRs")
	}
	return ""
}

func (d *decision) kubeletCAWayOut() string {
	if d.s.infra != nil {
		return "ControllerConfig machine-config-controller holds it in .spec.kubeAPIServerServingCAData; where there is none, name an ignition with file " +
			ignition.PathKubeletCA + " in spec.ignition of WindowsNodeProfile " + d.in.ProfileName
	}
	return "ConfigMap kube-system/extension-apiserver-authentication holds it under client-ca-file when kube-apiserver runs with --client-ca-file"
}
