package discover

import (
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/ignition"
)

// maxText bounds what is parsed of one ConfigMap value; etcd holds at most 1.5 MiB in one object.
const maxText = 1 << 20

// corefileZone finds "kubernetes cluster.local in-addr.arpa" in a Corefile.
var corefileZone = regexp.MustCompile(`(?m)^[ \t]*kubernetes[ \t]+([A-Za-z0-9.-]+)`)

// candidate is what one source says of a fact.
type candidate struct {
	source string
	values []string
	// loose candidates are not compared with others: a node may reach the API server by another name than the rest of the world.
	loose bool
	// guess: no object says so; it follows from what is in use. Where it is all there is, it is used and warned of.
	guess bool
}

// ladder holds the candidates by fact, the most trusted first.
type ladder map[string][]candidate

func (l ladder) add(fact, source string, values ...string) {
	l.put(fact, candidate{source: source, values: values})
}

func (l ladder) addLoose(fact, source string, values ...string) {
	l.put(fact, candidate{source: source, values: values, loose: true})
}

func (l ladder) put(fact string, c candidate) {
	c.values = slices.DeleteFunc(slices.Clone(c.values), func(v string) bool { return strings.TrimSpace(v) == "" })
	if len(c.values) > 0 {
		l[fact] = append(l[fact], c)
	}
}

// climb orders what the sources say: profile, OpenShift, ignition, what every Kubernetes has, kubeadm, the pod network, the control
// plane's arguments, the operator itself, and last what follows from what is in use.
func climb(in Input, s sources, w ignition.Worker) ladder {
	l := ladder{}
	l.profile(in)
	l.openshift(s)
	l.ignition(s.ignition.from, w)
	l.native(s)
	l.kubeadm(s)
	l.flannel(s)
	l.calico(s)
	l.kubeProxy(s)
	l.arguments(s)
	l.add(facts.ServiceCIDRs, "the API server's refusal of a Service outside of its range", s.offered...)
	l.coredns(s)
	l.clusterInfo(s)
	l.own(in, s)
	l.nodes(s)
	return l
}

func (l ladder) profile(in Input) {
	c, from := in.Profile.Cluster, "WindowsNodeProfile "+in.ProfileName+" spec.cluster."
	l.addLoose(facts.APIServer, from+"apiServer", c.APIServer)
	l.add(facts.ClusterDNS, from+"dns", c.DNS...)
	l.add(facts.ClusterDomain, from+"domain", c.Domain)
	l.add(facts.PodCIDRs, from+"podCIDRs", c.PodCIDRs...)
	l.add(facts.ServiceCIDRs, from+"serviceCIDRs", c.ServiceCIDRs...)
}

func (l ladder) openshift(s sources) {
	if s.infra != nil {
		l.add(facts.APIServer, "Infrastructure cluster .status.apiServerInternalURI", s.infra.Status.APIServerInternalURL)
		l.add(facts.Platform, "Infrastructure cluster .status.platformStatus.type", platform(s))
	}
	if s.controller != nil {
		l.add(facts.KubeletClientCA, "ControllerConfig machine-config-controller .spec.kubeAPIServerServingCAData",
			string(s.controller.Spec.KubeAPIServerServingCAData))
	}
	if s.network == nil {
		return
	}
	const from = "Network cluster .status."
	status := s.network.Status
	var pods []string
	for _, n := range status.ClusterNetwork {
		pods = append(pods, n.CIDR)
	}
	l.add(facts.PodCIDRs, from+"clusterNetwork", pods...)
	l.add(facts.ServiceCIDRs, from+"serviceNetwork", status.ServiceNetwork...)
	if len(status.ServiceNetwork) > 0 {
		l.add(facts.ClusterDNS, "the tenth address of "+from+"serviceNetwork", tenth(status.ServiceNetwork[0]))
	}
	if s.controller != nil {
		l.add(facts.ClusterDNS, "ControllerConfig machine-config-controller .spec.clusterDNSIP", s.controller.Spec.ClusterDNSIP)
	}
}

// platform reads the old field where the new one is not filled.
func platform(s sources) string {
	if ps := s.infra.Status.PlatformStatus; ps != nil && ps.Type != "" {
		return string(ps.Type)
	}
	//nolint:staticcheck // clusters that were installed before 4.4 have only this one
	return string(s.infra.Status.Platform)
}

// tenth is the tenth address of a service range, at which OpenShift's operators put the cluster's DNS Service; "" when there is
// none.
func tenth(cidr string) string {
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return ""
	}
	a := p.Masked().Addr()
	for range 10 {
		a = a.Next()
	}
	if !p.Contains(a) {
		return ""
	}
	return a.String()
}

// kubeletSettings are the fields of a KubeletConfiguration that are facts about the cluster.
type kubeletSettings struct {
	ClusterDNS    []string `json:"clusterDNS"`
	ClusterDomain string   `json:"clusterDomain"`
}

func (l ladder) ignition(from string, w ignition.Worker) {
	l.add(facts.KubeletClientCA, from+" file "+ignition.PathKubeletCA, string(w.KubeletCA))
	var k kubeletSettings
	if parseYAML(string(w.KubeletConfig), &k) {
		l.add(facts.ClusterDNS, from+" file "+ignition.PathKubeletConfig+" clusterDNS", k.ClusterDNS...)
		l.add(facts.ClusterDomain, from+" file "+ignition.PathKubeletConfig+" clusterDomain", k.ClusterDomain)
	}
}

// native are the sources that every cluster of today has.
func (l ladder) native(s sources) {
	l.add(facts.ServiceCIDRs, "ServiceCIDR objects", serviceRanges(s.ranges)...)
	if s.dns != nil {
		l.add(facts.ClusterDNS, "Service "+kubeSystem+"/"+s.dns.Name+" .spec.clusterIPs", clusterIPs(s.dns)...)
	}
	l.add(facts.APIServerCA, "ConfigMap kube-system/kube-root-ca.crt key ca.crt",
		s.configMaps[kubeSystem+"/kube-root-ca.crt"]["ca.crt"])
	if s.infra == nil {
		l.add(facts.KubeletClientCA, "ConfigMap kube-system/extension-apiserver-authentication key client-ca-file",
			s.configMaps[kubeSystem+"/extension-apiserver-authentication"]["client-ca-file"])
	}
}

// serviceRanges puts the range that the API server was started with, called "kubernetes", first.
func serviceRanges(ranges []serviceRange) []string {
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b serviceRange) int {
		if (a.name == "kubernetes") != (b.name == "kubernetes") {
			if a.name == "kubernetes" {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, r := range ranges {
		out = append(out, r.cidrs...)
	}
	return out
}

// kubeadm reads kubeadm's ClusterConfiguration and the configurations that it shares with kubelets and kube-proxies.
func (l ladder) kubeadm(s sources) {
	var cluster struct {
		ControlPlaneEndpoint string `json:"controlPlaneEndpoint"`
		Networking           struct {
			DNSDomain     string `json:"dnsDomain"`
			PodSubnet     string `json:"podSubnet"`
			ServiceSubnet string `json:"serviceSubnet"`
		} `json:"networking"`
	}
	if parseYAML(s.configMaps[kubeSystem+"/kubeadm-config"]["ClusterConfiguration"], &cluster) {
		const from = "ConfigMap kube-system/kubeadm-config ClusterConfiguration."
		l.add(facts.APIServer, from+"controlPlaneEndpoint", endpointURL(cluster.ControlPlaneEndpoint))
		l.add(facts.ClusterDomain, from+"networking.dnsDomain", cluster.Networking.DNSDomain)
		l.add(facts.PodCIDRs, from+"networking.podSubnet", strings.Split(cluster.Networking.PodSubnet, ",")...)
		l.add(facts.ServiceCIDRs, from+"networking.serviceSubnet", strings.Split(cluster.Networking.ServiceSubnet, ",")...)
	}
	var kubelet kubeletSettings
	if parseYAML(s.configMaps[kubeSystem+"/kubelet-config"]["kubelet"], &kubelet) {
		l.add(facts.ClusterDNS, "ConfigMap kube-system/kubelet-config key kubelet clusterDNS", kubelet.ClusterDNS...)
		l.add(facts.ClusterDomain, "ConfigMap kube-system/kubelet-config key kubelet clusterDomain", kubelet.ClusterDomain)
	}
}

// kubeProxy reads the configuration that kube-proxies share.
func (l ladder) kubeProxy(s sources) {
	var proxy struct {
		ClusterCIDR string `json:"clusterCIDR"`
	}
	if parseYAML(s.configMaps[kubeSystem+"/kube-proxy"]["config.conf"], &proxy) {
		l.add(facts.PodCIDRs, "ConfigMap kube-system/kube-proxy key config.conf clusterCIDR", strings.Split(proxy.ClusterCIDR, ",")...)
	}
}

// flannel reads its network from the ConfigMap of its manifest.
func (l ladder) flannel(s sources) {
	if from, c := flannelOf(s); c != nil {
		l.add(facts.PodCIDRs, from+" key "+flannelKey+" Network", c.networks()...)
	}
}

// calico reads the pools that it gives pods addresses from. The Installation is what its operator makes pools of.
func (l ladder) calico(s sources) {
	l.add(facts.PodCIDRs, "IPPool objects of Calico", s.calico.ranges()...)
	if i := s.calico.installation; i != nil {
		l.add(facts.PodCIDRs, "Installation "+i.Metadata.Name+" .spec.calicoNetwork.ipPools", i.ranges()...)
	}
}

// arguments reads what the control plane was started with, where its pods show it.
func (l ladder) arguments(s sources) {
	for _, read := range []struct{ fact, component, flag string }{
		{facts.PodCIDRs, controllerManager, "cluster-cidr"},
		{facts.ServiceCIDRs, apiServer, "service-cluster-ip-range"},
	} {
		for _, a := range s.arguments[read.component] {
			l.add(read.fact, "Pod "+kubeSystem+"/"+a.pod+" argument --"+read.flag, strings.Split(a.flags[read.flag], ",")...)
		}
	}
}

// nodes is the last resort for the pod ranges: the smallest ones that cover what Nodes have. Calico and others do not use what Nodes have.
func (l ladder) nodes(s sources) {
	var ranges []string
	for _, n := range s.nodes {
		ranges = append(ranges, n.podCIDRs...)
	}
	c := candidate{source: "the smallest range over spec.podCIDRs of all Nodes", values: cover(ranges), guess: true}
	c.loose = len(s.calico.ranges()) > 0
	l.put(facts.PodCIDRs, c)
}

// endpointURL turns kubeadm's controlPlaneEndpoint, a host with or without a port, into a URL; 6443 is kubeadm's port.
func endpointURL(endpoint string) string {
	if endpoint == "" {
		return ""
	}
	if _, _, err := net.SplitHostPort(endpoint); err != nil {
		endpoint = net.JoinHostPort(strings.Trim(endpoint, "[]"), "6443")
	}
	return "https://" + endpoint
}

func (l ladder) coredns(s sources) {
	file := s.configMaps[kubeSystem+"/coredns"]["Corefile"]
	if len(file) > maxText {
		return
	}
	if m := corefileZone.FindStringSubmatch(file); m != nil {
		l.add(facts.ClusterDomain, "ConfigMap kube-system/coredns key Corefile", m[1])
	}
}

// clusterInfo reads the kubeconfig that kubeadm publishes for joining nodes.
func (l ladder) clusterInfo(s sources) {
	text := s.configMaps[kubePublic+"/cluster-info"]["kubeconfig"]
	if text == "" || len(text) > maxText {
		return
	}
	config, err := clientcmd.Load([]byte(text))
	if err != nil || len(config.Clusters) != 1 {
		return
	}
	for _, c := range config.Clusters {
		l.add(facts.APIServer, "ConfigMap kube-public/cluster-info key kubeconfig", c.Server)
		l.add(facts.APIServerCA, "ConfigMap kube-public/cluster-info key kubeconfig", string(c.CertificateAuthorityData))
	}
}

// own is what every cluster and the operator itself use: the API server's own address where there is only one, so that nothing has to be
// chosen, else the URL of the operator, which is no use to a machine when it leads to a Service.
func (l ladder) own(in Input, s sources) {
	l.add(facts.APIServerCA, "the operator's own configuration", string(in.OwnCA))
	if urls := endpointURLs(s); len(urls) == 1 {
		l.addLoose(facts.APIServer, "EndpointSlices of Service default/kubernetes (nodes must be able to reach it)", urls[0])
	}
	host := hostOf(in.OwnAPIServer)
	if host != "" && !slices.Contains(serviceNames(s), host) && !l.isService(host) {
		l.addLoose(facts.APIServer, "the operator's own configuration (nodes must be able to reach it)", in.OwnAPIServer)
	}
}

// isService says whether the host is an address within a service range.
func (l ladder) isService(host string) bool {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	for _, c := range l[facts.ServiceCIDRs] {
		for _, v := range c.values {
			if p, err := netip.ParsePrefix(strings.TrimSpace(v)); err == nil && p.Contains(addr) {
				return true
			}
		}
	}
	return false
}

// parseYAML reports whether there is a text and it parses. One that does not is as good as none: the fact is then missing, and
// the message names every place where it could stand.
func parseYAML(text string, into any) bool {
	return text != "" && len(text) <= maxText && yaml.Unmarshal([]byte(text), into) == nil
}
