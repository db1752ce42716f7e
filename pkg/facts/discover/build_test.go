package discover

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windowsmachine/operator/pkg/facts"
)

const namespace = "windows-machine-operator"

// authority makes a CA certificate in PEM.
func authority(t testing.TB, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(1_700_000_000, 0), NotAfter: time.Unix(4_000_000_000, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// world is a cluster under construction.
type world struct {
	t       testing.TB
	objects []client.Object
	// openshift is whether the API server has OpenShift's kinds.
	openshift bool
	// serviceCIDRs is the one version of ServiceCIDRs that the API server has, "" for all.
	serviceCIDRs string
	// fail is what reads of an object return, by name.
	fail map[string]error
	in   Input
}

// newWorld is a cluster with what every Kubernetes has of itself, and the given CA as the API server's and the clients'.
func newWorld(t testing.TB, ca string) *world {
	w := &world{t: t, fail: map[string]error{}, in: Input{Namespace: namespace, OwnAPIServer: "https://10.96.0.1:443", OwnCA: []byte(ca)}}
	w.add(
		apiService("10.96.0.1"),
		configMap("kube-system", "kube-root-ca.crt", "ca.crt", ca),
		configMap("kube-system", "extension-apiserver-authentication", "client-ca-file", ca),
	)
	return w.endpoints("192.168.1.10")
}

// apiService is default/kubernetes.
func apiService(ip string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
		Spec:       corev1.ServiceSpec{ClusterIP: ip, ClusterIPs: []string{ip}},
	}
}

func configMap(ns, name, key, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{key: value}}
}

func (w *world) add(objects ...client.Object) *world {
	w.objects = append(w.objects, objects...)
	return w
}

// drop removes the objects of that name.
func (w *world) drop(name string) *world {
	var kept []client.Object
	for _, o := range w.objects {
		if o.GetName() != name {
			kept = append(kept, o)
		}
	}
	w.objects = kept
	return w
}

// endpoints sets the addresses of the API servers.
func (w *world) endpoints(addresses ...string) *world {
	w.drop("kubernetes-slice")
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes-slice", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		Ports:      []discoveryv1.EndpointPort{{Port: ptr.To[int32](6443)}},
	}
	for _, a := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return w.add(slice)
}

func serviceCIDR(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

func dnsService(name string, labels map[string]string, ips ...string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: labels},
		Spec:       corev1.ServiceSpec{ClusterIP: ips[0], ClusterIPs: ips},
	}
}

// kubeadm is a cluster as kubeadm leaves it.
func kubeadm(t testing.TB, ca string) *world {
	return newWorld(t, ca).add(
		serviceCIDR("kubernetes", "10.96.0.0/12"),
		dnsService("kube-dns", map[string]string{"k8s-app": "kube-dns"}, "10.96.0.10"),
		configMap("kube-system", "kubeadm-config", "ClusterConfiguration", `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
controlPlaneEndpoint: cp.example.com:6443
networking:
  dnsDomain: cluster.local
  podSubnet: 10.244.0.0/16
  serviceSubnet: 10.96.0.0/12
`),
		configMap("kube-system", "kubelet-config", "kubelet", "clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n"),
		configMap("kube-system", "kube-proxy", "config.conf", "clusterCIDR: 10.244.0.0/16\n"),
		configMap("kube-system", "coredns", "Corefile", ".:53 {\n    kubernetes cluster.local in-addr.arpa ip6.arpa {\n    }\n}\n"),
		configMap("kube-public", "cluster-info", "kubeconfig", clusterInfo("https://cp.example.com:6443")),
	)
}

func clusterInfo(server string) string {
	return "apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster:\n    server: " + server + "\n"
}

const workerIgnition = `{"ignition":{"version":"3.2.0"},
	"storage":{"files":[{"path":"/etc/kubernetes/kubelet.conf","contents":{"source":"data:,clusterDNS%3A%20%5B172.30.0.10%5D%0AclusterDomain%3A%20cluster.local%0A"}}]},
	"systemd":{"units":[{"name":"kubelet.service","contents":"[Service]\nExecStart=/usr/bin/kubelet --cloud-provider=external --v=2\n"}]}}`

// openshift is a cluster as OpenShift's installer leaves it on Azure; kubeletCA is what ControllerConfig holds.
func openshift(t testing.TB, ca, kubeletCA string) *world {
	w := newWorld(t, ca)
	w.openshift = true
	w.in.OwnAPIServer = "https://172.30.0.1:443"
	w.drop("kubernetes").add(
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			Spec:       corev1.ServiceSpec{ClusterIP: "172.30.0.1"},
		},
		&configv1.Infrastructure{
			ObjectMeta: metav1.ObjectMeta{Name: "cluster"},
			Status: configv1.InfrastructureStatus{
				APIServerURL: "https://api.c1.example.com:6443", APIServerInternalURL: "https://api-int.c1.example.com:6443",
				PlatformStatus: &configv1.PlatformStatus{Type: configv1.AzurePlatformType},
			},
		},
		&configv1.Network{
			ObjectMeta: metav1.ObjectMeta{Name: "cluster"},
			Status: configv1.NetworkStatus{
				ClusterNetwork: []configv1.ClusterNetworkEntry{{CIDR: "10.128.0.0/14", HostPrefix: 23}},
				ServiceNetwork: []string{"172.30.0.0/16"}, NetworkType: "OVNKubernetes",
			},
		},
		&mcfgv1.ControllerConfig{
			ObjectMeta: metav1.ObjectMeta{Name: "machine-config-controller"},
			Spec:       mcfgv1.ControllerConfigSpec{KubeAPIServerServingCAData: []byte(kubeletCA), ClusterDNSIP: "172.30.0.10"},
		},
		workerPoolNamed("rendered-worker-1"),
		machineConfig("rendered-worker-1", workerIgnition),
	)
	return w
}

func workerPoolNamed(config string) *mcfgv1.MachineConfigPool {
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	pool.Status.Configuration.Name = config
	return pool
}

func machineConfig(name, text string) *mcfgv1.MachineConfig {
	return &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: []byte(text)}},
	}
}

// reader is a fake API server. It proves what Cluster makes of objects, not that the RBAC rules are enough or that the objects of a
// real OpenShift look so.
func (w *world) reader() client.Reader {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		w.t.Fatal(err)
	}
	refuse := func(obj runtime.Object, name string) error {
		gvks, _, err := scheme.ObjectKinds(obj)
		if err != nil {
			return err
		}
		group := gvks[0].Group
		if w.lacks(group, gvks[0].Kind, gvks[0].Version) {
			return &meta.NoKindMatchError{GroupKind: gvks[0].GroupKind(), SearchedVersions: []string{gvks[0].Version}}
		}
		return w.fail[name]
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(w.objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := refuse(obj, key.Name); err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			gvks, _, err := scheme.ObjectKinds(list)
			if err != nil {
				return err
			}
			if err := refuse(list, gvks[0].Kind); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
}

// lacks says whether the API server does not have the kind.
func (w *world) lacks(group, kind, version string) bool {
	switch {
	case group == configv1.GroupName || group == mcfgv1.GroupName:
		return !w.openshift
	case group == "crd.projectcalico.org" || group == "operator.tigera.io":
		return !slices.ContainsFunc(w.objects, func(o client.Object) bool { return o.GetObjectKind().GroupVersionKind().Group == group })
	case strings.HasPrefix(kind, "ServiceCIDR"):
		return w.serviceCIDRs != "" && w.serviceCIDRs != version
	}
	return false
}

func (w *world) discover() (facts.Cluster, []facts.Problem) {
	w.t.Helper()
	cluster, problems, err := Cluster(w.t.Context(), w.reader(), w.in)
	if err != nil {
		w.t.Fatal(err)
	}
	return cluster, problems
}

// onlyProblem is the one problem that discovery of the world reports.
func (w *world) onlyProblem() facts.Problem {
	w.t.Helper()
	_, problems := w.discover()
	if len(problems) != 1 {
		w.t.Fatalf("want one problem, got %+v", problems)
	}
	return problems[0]
}
