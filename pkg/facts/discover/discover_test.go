package discover

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
)

func TestOpenShift(t *testing.T) {
	ca, kubeletCA, two := authority(t, "api"), authority(t, "kubelet"), 2
	cluster, problems := openshift(t, ca, kubeletCA).discover()
	if len(problems) > 0 {
		t.Errorf("problems %+v", problems)
	}
	want := facts.Cluster{
		APIServer: "https://api-int.c1.example.com:6443", APIServerCA: []byte(ca), KubeletClientCA: []byte(kubeletCA),
		ClusterDNS: []string{"172.30.0.10"}, ClusterDomain: "cluster.local",
		PodCIDRs: []string{"10.128.0.0/14"}, ServiceCIDRs: []string{"172.30.0.0/16"},
		KubeletConfig: []byte("clusterDNS: [172.30.0.10]\nclusterDomain: cluster.local\n"),
		CloudProvider: "external", Verbosity: &two, Platform: facts.PlatformAzure,
		ServerNames: []string{
			"172.30.0.1", "192.168.1.10", "api-int.c1.example.com", "api.c1.example.com",
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
			"openshift", "openshift.default", "openshift.default.svc", "openshift.default.svc.cluster.local",
		},
		Plane: facts.Plane{Kind: facts.PlaneOVNKubernetes, From: "Network cluster .status.networkType"}, Mode: "None",
		Why: "the cluster's pod network is OVNKubernetes, by Network cluster .status.networkType, which brings the CNI configuration of Windows nodes itself",
		Sources: map[string]string{
			facts.PodNetwork:      "Network cluster .status.networkType",
			facts.APIServer:       "Infrastructure cluster .status.apiServerInternalURI",
			facts.APIServerCA:     "ConfigMap kube-system/kube-root-ca.crt key ca.crt",
			facts.KubeletClientCA: "ControllerConfig machine-config-controller .spec.kubeAPIServerServingCAData",
			facts.ClusterDNS:      "the tenth address of Network cluster .status.serviceNetwork",
			facts.ClusterDomain:   "MachineConfig rendered-worker-1 file /etc/kubernetes/kubelet.conf clusterDomain",
			facts.PodCIDRs:        "Network cluster .status.clusterNetwork",
			facts.ServiceCIDRs:    "Network cluster .status.serviceNetwork",
			facts.KubeletConfig:   "MachineConfig rendered-worker-1",
			facts.CloudProvider:   "MachineConfig rendered-worker-1",
			facts.Platform:        "Infrastructure cluster .status.platformStatus.type",
		},
	}
	if diff := cmp.Diff(want, cluster); diff != "" {
		t.Error(diff)
	}
}

func TestKubeadm(t *testing.T) {
	ca := authority(t, "kubernetes")
	cluster, problems := kubeadm(t, ca).discover()
	if len(problems) > 0 {
		t.Errorf("problems %+v", problems)
	}
	want := facts.Cluster{
		APIServer: "https://cp.example.com:6443", APIServerCA: []byte(ca), KubeletClientCA: []byte(ca),
		ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local",
		PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/12"}, Mode: "L2Bridge",
		Sources: map[string]string{
			facts.APIServer:       "ConfigMap kube-system/kubeadm-config ClusterConfiguration.controlPlaneEndpoint",
			facts.APIServerCA:     "ConfigMap kube-system/kube-root-ca.crt key ca.crt",
			facts.KubeletClientCA: "ConfigMap kube-system/extension-apiserver-authentication key client-ca-file",
			facts.ClusterDNS:      "Service kube-system/kube-dns .spec.clusterIPs",
			facts.ClusterDomain:   "ConfigMap kube-system/kubeadm-config ClusterConfiguration.networking.dnsDomain",
			facts.PodCIDRs:        "ConfigMap kube-system/kubeadm-config ClusterConfiguration.networking.podSubnet",
			facts.ServiceCIDRs:    "ServiceCIDR objects",
		},
	}
	if diff := cmp.Diff(want, cluster, cmpopts.IgnoreFields(facts.Cluster{}, "ServerNames", "Why")); diff != "" {
		t.Error(diff)
	}
}

// TestHardWay is a cluster whose control plane runs as services: no kubeadm, one API server, CoreDNS under a name of its own.
func TestHardWay(t *testing.T) {
	ca := authority(t, "kubernetes")
	w := newWorld(t, ca).drop("kubernetes").add(
		dnsService("coredns", map[string]string{"k8s-app": "kube-dns"}, "10.32.0.10"),
		apiService("10.32.0.1"),
		configMap("kube-system", "coredns", "Corefile", ".:53 {\n\tkubernetes hard.local in-addr.arpa\n}\n"),
	)
	cluster, problems := w.discover()
	want := facts.Cluster{
		APIServer: "https://192.168.1.10:6443", APIServerCA: []byte(ca), KubeletClientCA: []byte(ca),
		ClusterDNS: []string{"10.32.0.10"}, ClusterDomain: "hard.local", Mode: "L2Bridge",
	}
	if diff := cmp.Diff(want, cluster, cmpopts.IgnoreFields(facts.Cluster{}, "ServerNames", "Sources", "Why")); diff != "" {
		t.Error(diff)
	}
	wantProblems := []facts.Problem{
		{Fact: facts.PodCIDRs, Reason: v1alpha1.ReasonFactsMissing, Fatal: true, Message: "podCIDRs not found. Neither ConfigMap kubeadm-config nor kube-proxy in kube-system, nor flannel's or Calico's objects, nor a mirror pod of kube-controller-manager hold them: set spec.cluster.podCIDRs of WindowsNodeProfile default to the --cluster-cidr of kube-controller-manager"},
		{Fact: facts.ServiceCIDRs, Reason: v1alpha1.ReasonFactsMissing, Fatal: true, Message: "serviceCIDRs not found. There are no ServiceCIDR objects (Kubernetes 1.33 and newer), no ConfigMap kubeadm-config and no mirror pod of kube-apiserver: set spec.cluster.serviceCIDRs of WindowsNodeProfile default to the --service-cluster-ip-range of kube-apiserver, which holds at least 10.32.0.0/28"},
	}
	if diff := cmp.Diff(wantProblems, problems); diff != "" {
		t.Error(diff)
	}
	t.Run("ranges matter only where the operator lays out the network", func(t *testing.T) {
		w.in.Profile.Network.Mode = v1alpha1.NetworkNone
		if _, problems := w.discover(); len(problems) != 2 || problems[0].Fatal || problems[1].Fatal {
			t.Errorf("got %+v", problems)
		}
	})
}

func TestBareClusterMissesAllAtOnce(t *testing.T) {
	w := newWorld(t, authority(t, "x")).drop("kubernetes").drop("kubernetes-slice").drop("kube-root-ca.crt").drop("extension-apiserver-authentication")
	w.in.OwnAPIServer, w.in.OwnCA, w.in.ProfileName = "", nil, "other"
	cluster, problems := w.discover()
	if diff := cmp.Diff(facts.Cluster{Mode: "L2Bridge", Sources: map[string]string{}}, cluster, cmpopts.IgnoreFields(facts.Cluster{}, "ServerNames", "Why")); diff != "" {
		t.Error(diff)
	}
	var got []string
	for _, p := range problems {
		if p.Reason != v1alpha1.ReasonFactsMissing || !strings.HasPrefix(p.Message, p.Fact+" not found. ") {
			t.Errorf("problem %+v", p)
		}
		got = append(got, p.Fact)
		if p.Fact != facts.APIServerCA && p.Fact != facts.KubeletClientCA && !strings.Contains(p.Message, "of WindowsNodeProfile other") {
			t.Errorf("no way out in %q", p.Message)
		}
	}
	want := []string{facts.APIServer, facts.APIServerCA, facts.KubeletClientCA, facts.ClusterDNS, facts.ClusterDomain, facts.PodCIDRs, facts.ServiceCIDRs}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestProfileOverrides(t *testing.T) {
	w := kubeadm(t, authority(t, "kubernetes"))
	w.in.Profile.Cluster = v1alpha1.ClusterSpec{
		APIServer: "https://LB.example.com:443/", DNS: []string{"11.0.0.10"}, Domain: "Other.Local",
		PodCIDRs: []string{"10.244.3.0/16"}, ServiceCIDRs: []string{"10.96.0.0/12", "fd00::/108"},
	}
	cluster, problems := w.discover()
	got := []any{cluster.APIServer, cluster.ClusterDNS, cluster.ClusterDomain, cluster.PodCIDRs, cluster.ServiceCIDRs}
	want := []any{"https://lb.example.com:443", []string{"11.0.0.10"}, "other.local", []string{"10.244.0.0/16"}, []string{"10.96.0.0/12", "fd00::/108"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if s := cluster.Sources[facts.ClusterDNS]; s != "WindowsNodeProfile default spec.cluster.dns" {
		t.Errorf("source %q", s)
	}
	// Another URL is the point of the override; another address of the DNS service is a mistake worth a word.
	var facts []string
	for _, p := range problems {
		if p.Fatal || p.Reason != v1alpha1.ReasonFactsDisagree {
			t.Errorf("problem %+v", p)
		}
		facts = append(facts, p.Fact)
	}
	if diff := cmp.Diff([]string{"dns", "dns", "domain", "domain", "domain"}, facts); diff != "" {
		t.Error(diff)
	}
	wantMessage := "dns: WindowsNodeProfile default spec.cluster.dns says 11.0.0.10, Service kube-system/kube-dns .spec.clusterIPs says 10.96.0.10; the first is used"
	if problems[0].Message != wantMessage {
		t.Errorf("message %q", problems[0].Message)
	}
}

func TestAPIServerOfLastResort(t *testing.T) {
	ca := authority(t, "kubernetes")
	for _, tt := range []struct {
		name    string
		change  func(*world)
		want    string
		message string
	}{
		{"the operator's own URL comes after the API server's own address", func(w *world) { w.in.OwnAPIServer = "https://127.0.0.1:6443" }, "https://192.168.1.10:6443", ""},
		{"and is taken where there are several", func(w *world) {
			w.endpoints("192.168.1.11", "192.168.1.10")
			w.in.OwnAPIServer = "https://10.0.0.5:6443"
		}, "https://10.0.0.5:6443", ""},
		{"the Service's address is of no use to machines", func(*world) {}, "https://192.168.1.10:6443", ""},
		{"nor is its name", func(w *world) { w.in.OwnAPIServer = "https://kubernetes.default.svc" }, "https://192.168.1.10:6443", ""},
		{"nor is it when the Service cannot be read", func(w *world) { w.drop("kubernetes").add(serviceCIDR("kubernetes", "10.96.0.0/12")) }, "https://192.168.1.10:6443", ""},
		{"nobody chooses among several", func(w *world) { w.endpoints("192.168.1.11", "192.168.1.10") }, "", "https://192.168.1.10:6443, https://192.168.1.11:6443"},
		{"none at all", func(w *world) { w.endpoints() }, "", "set spec.cluster.apiServer of WindowsNodeProfile default"},
		{"cluster-info comes first", func(w *world) {
			w.add(configMap("kube-public", "cluster-info", "kubeconfig", clusterInfo("https://10.1.1.1:6443")))
		}, "https://10.1.1.1:6443", ""},
		{"IPv6", func(w *world) { w.endpoints("fd00::a") }, "https://[fd00::a]:6443", ""},
		{"kubeadm without port", func(w *world) {
			w.add(configMap("kube-system", "kubeadm-config", "ClusterConfiguration", "controlPlaneEndpoint: cp\n"))
		}, "https://cp:6443", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, ca)
			tt.change(w)
			cluster, problems := w.discover()
			if cluster.APIServer != tt.want {
				t.Errorf("got %q", cluster.APIServer)
			}
			if tt.want == "" && (problems[0].Fact != facts.APIServer || !problems[0].Fatal || !strings.Contains(problems[0].Message, tt.message)) {
				t.Errorf("problem %+v", problems[0])
			}
		})
	}
}

func TestServerNames(t *testing.T) {
	w := kubeadm(t, authority(t, "kubernetes")).endpoints("192.168.1.11", "fd00:0::A")
	w.in.Profile.Cluster.APIServer = "https://LB.Example.com"
	w.in.OwnAPIServer = "https://127.0.0.1:6443"
	cluster, _ := w.discover()
	want := []string{
		"10.96.0.1", "127.0.0.1", "192.168.1.11", "cp.example.com", "fd00::a",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "lb.example.com",
		"openshift", "openshift.default", "openshift.default.svc", "openshift.default.svc.cluster.local",
	}
	if diff := cmp.Diff(want, cluster.ServerNames); diff != "" {
		t.Error(diff)
	}
}

func TestRefusedReads(t *testing.T) {
	ca := authority(t, "kubernetes")
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no"))
	t.Run("forbidden is a problem that names the verbs", func(t *testing.T) {
		w := kubeadm(t, ca)
		w.fail["kubelet-config"], w.fail["ServiceCIDRList"] = forbidden, forbidden
		_, problems := w.discover()
		want := "the operator's service account may not get configmaps kube-system/kubelet-config, list servicecidrs.networking.k8s.io. Grant these verbs, as the operator's ClusterRole does"
		var got []string
		for _, p := range problems {
			if p.Reason == v1alpha1.ReasonFactsForbidden && !p.Fatal {
				got = append(got, p.Message)
			}
		}
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("%s in %+v", diff, problems)
		}
	})
	t.Run("a failure of the API server is an error", func(t *testing.T) {
		for _, name := range []string{
			"cluster", "machine-config-controller", "worker", "kubeadm-config", "kubernetes", "kube-dns", "ServiceList", "EndpointSliceList", "ServiceCIDRList",
		} {
			w := openshift(t, ca, ca)
			w.fail[name] = apierrors.NewServiceUnavailable("down")
			if _, _, err := Cluster(t.Context(), w.reader(), w.in); !apierrors.IsServiceUnavailable(err) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
	t.Run("also where the pod network is looked for", func(t *testing.T) {
		for _, name := range []string{"kube-flannel-cfg", "cilium-config", "IPPoolList", "default", "NodeList", "PodList"} {
			w := calico(t, ca)
			w.fail[name] = apierrors.NewServiceUnavailable("down")
			if _, _, err := Cluster(t.Context(), w.reader(), w.in); !apierrors.IsServiceUnavailable(err) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
	t.Run("kinds of OpenShift that are not there mean plain Kubernetes", func(t *testing.T) {
		w := kubeadm(t, ca)
		w.openshift = true // the kinds are there, the objects are not
		if _, problems := w.discover(); len(problems) > 0 {
			t.Errorf("got %+v", problems)
		}
	})
}

func TestTenth(t *testing.T) {
	for cidr, want := range map[string]string{
		"172.30.0.0/16": "172.30.0.10", "172.30.5.7/16": "172.30.0.10", "fd02::/112": "fd02::a", "10.0.0.0/29": "", "10.0.0.0/28": "10.0.0.10",
		"": "", "x": "", "255.255.255.255/32": "",
	} {
		if got := tenth(cidr); got != want {
			t.Errorf("%s: got %q, want %q", cidr, got, want)
		}
	}
}

func TestServiceRanges(t *testing.T) {
	w := kubeadm(t, authority(t, "kubernetes")).add(serviceCIDR("extra", "10.200.0.0/24"), serviceCIDR("added", "10.201.0.0/24"))
	cluster, problems := w.discover()
	if diff := cmp.Diff([]string{"10.96.0.0/12", "10.201.0.0/24", "10.200.0.0/24"}, cluster.ServiceCIDRs); diff != "" || len(problems) > 0 {
		t.Errorf("%+v %s", problems, diff)
	}
	leaving := serviceCIDR("leaving", "10.202.0.0/24")
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"test/hold"}
	cluster, _ = kubeadm(t, authority(t, "kubernetes")).add(leaving).discover()
	if diff := cmp.Diff([]string{"10.96.0.0/12"}, cluster.ServiceCIDRs); diff != "" {
		t.Errorf("a range that is being deleted: %s", diff)
	}
}

func TestOtherNamespacesDoNotCount(t *testing.T) {
	w := newWorld(t, authority(t, "kubernetes"))
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "tenant", Name: "kubernetes-x", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"6.6.6.6"}}},
	}
	dns := dnsService("dns", map[string]string{"k8s-app": "kube-dns"}, "6.6.6.6")
	dns.Namespace = "tenant"
	cluster, _ := w.add(slice, dns).discover()
	if cluster.APIServer != "https://192.168.1.10:6443" || len(cluster.ClusterDNS) > 0 || slices.Contains(cluster.ServerNames, "6.6.6.6") {
		t.Errorf("got %+v", cluster)
	}
}

func TestDeterministic(t *testing.T) {
	w := openshift(t, authority(t, "a"), authority(t, "b")).drop("rendered-worker-1")
	w.fail["kubeadm-config"] = apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no"))
	w.in.Profile.Cluster.DNS = []string{"1.2.3.4"}
	cluster, problems := w.discover()
	for range 20 {
		again, problemsAgain := w.discover()
		if diff := cmp.Diff(cluster, again) + cmp.Diff(problems, problemsAgain); diff != "" {
			t.Fatal(diff)
		}
	}
	if len(problems) < 3 || !problems[0].Fatal || problems[len(problems)-1].Fatal {
		t.Errorf("fatal ones first: %+v", problems)
	}
}
