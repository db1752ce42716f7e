package discover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
)

func custom(kind schema.GroupVersionKind, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(kind)
	u.SetName(name)
	return u
}

func pool(name, cidr string, spec map[string]any) *unstructured.Unstructured {
	u := custom(calicoKind("IPPool"), name, map[string]any{"cidr": cidr})
	for k, v := range spec {
		_ = unstructured.SetNestedField(u.Object, v, "spec", k)
	}
	return u
}

func installation(spec map[string]any) *unstructured.Unstructured {
	return custom(tigeraKind("Installation"), "default", spec)
}

// calico is kubeadm's cluster with Calico by its operator, which serves Windows nodes.
func calico(t testing.TB, ca string) *world {
	return kubeadm(t, ca).add(
		pool("default-ipv4-ippool", "10.244.0.0/16", map[string]any{"vxlanMode": "Always", "ipipMode": "Never"}),
		installation(map[string]any{"cni": map[string]any{"type": "Calico"}, "calicoNetwork": map[string]any{
			"windowsDataplane": "HNS", "ipPools": []any{map[string]any{"cidr": "10.244.0.0/16", "encapsulation": "VXLAN"}},
		}}),
	)
}

func flannelMap(namespace, backend string) *corev1.ConfigMap {
	return configMap(namespace, "kube-flannel-cfg", "net-conf.json", `{"Network":"10.244.0.0/16","EnableNFTables":false,"Backend":`+backend+`}`)
}

func node(name string, edits ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}, Annotations: map[string]string{}}}
	for _, e := range edits {
		e(n)
	}
	return n
}

func annotated(backend, data string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[flannelBackend], n.Annotations[flannelData] = backend, data }
}

func windows(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "windows" }

func withRange(cidrs ...string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = cidrs[0], cidrs }
}

// networkProblems are the messages about the pod network, the fatal ones marked.
func networkProblems(problems []facts.Problem) []string {
	var out []string
	for _, p := range problems {
		if p.Fact == facts.PodNetwork && p.Fatal {
			out = append(out, "FATAL "+p.Message)
		} else if p.Fact == facts.PodNetwork {
			out = append(out, p.Message)
		}
	}
	return out
}

const mayChoose = "; or set spec.network.mode of WindowsNodeProfile default"

// TestAuto is the pod network that each cluster is found to have and the mode that Auto makes of it.
func TestAuto(t *testing.T) {
	ca := authority(t, "kubernetes")
	const flannelFrom = "ConfigMap kube-flannel/kube-flannel-cfg key net-conf.json"
	wrong := func(vni, port int, lines string) string {
		return fmt.Sprintf("FATAL %s: flannel uses VNI %d and UDP port %d, and Windows needs a VNI of 4096 to 16777214, port 4789 and neither DirectRouting nor GBP. Set in its Backend %s; then restart flannel on all nodes: kubectl -n kube-flannel rollout restart daemonset kube-flannel-ds%s",
			flannelFrom, vni, port, lines, mayChoose)
	}
	for _, tt := range []struct {
		name     string
		objects  []client.Object
		mode     string
		plane    facts.Plane
		problems []string
	}{
		{name: "nothing", mode: "L2Bridge"},
		{
			name: "flannel vxlan", objects: []client.Object{flannelMap("kube-flannel", `{"Type":"vxlan","VNI":4096,"Port":4789}`)},
			mode: "FlannelVXLAN", plane: facts.Plane{Kind: "Flannel", Backend: "vxlan", VNI: 4096, Port: 4789, From: flannelFrom},
		},
		{
			name: "flannel as its manifest has it", objects: []client.Object{flannelMap("kube-flannel", `{"Type":"vxlan"}`)},
			mode: "FlannelVXLAN", plane: facts.Plane{Kind: "Flannel", Backend: "vxlan", VNI: 1, Port: 8472, From: flannelFrom},
			problems: []string{wrong(1, 8472, `"VNI": 4096 and "Port": 4789`)},
		},
		{
			name: "flannel, port only", objects: []client.Object{flannelMap("kube-flannel", `{"Type":"vxlan","Port":4789}`)},
			mode: "FlannelVXLAN", plane: facts.Plane{Kind: "Flannel", Backend: "vxlan", VNI: 1, Port: 4789, From: flannelFrom},
			problems: []string{wrong(1, 4789, `"VNI": 4096`)},
		},
		{
			name: "flannel, VNI out of 24 bits, direct routes", objects: []client.Object{flannelMap("kube-flannel", `{"Type":"vxlan","VNI":16777215,"Port":4789,"DirectRouting":true,"GBP":true}`)},
			mode: "FlannelVXLAN", plane: facts.Plane{Kind: "Flannel", Backend: "vxlan", VNI: 16777215, Port: 4789, From: flannelFrom},
			problems: []string{wrong(16777215, 4789, `"VNI": 4096 and "DirectRouting": false and "GBP": false`)},
		},
		{
			name: "flannel host-gw of an older manifest", objects: []client.Object{flannelMap("kube-system", `{"type":"host-gw","name":"cbr0"}`)}, mode: "FlannelHostGW",
			plane: facts.Plane{Kind: "Flannel", Backend: "host-gw", Name: "cbr0", From: "ConfigMap kube-system/kube-flannel-cfg key net-conf.json"},
		},
		{
			name: "flannel wireguard", objects: []client.Object{flannelMap("kube-flannel", `{"Type":"wireguard"}`)},
			plane:    facts.Plane{Kind: "Flannel", Backend: "wireguard", From: flannelFrom},
			problems: []string{"FATAL " + flannelFrom + ": flannel's backend wireguard has no Windows nodes: change it to vxlan (with VNI 4096 and Port 4789) or host-gw" + mayChoose},
		},
		{
			name: "flannel not restarted since", objects: []client.Object{
				flannelMap("kube-flannel", `{"Type":"vxlan","VNI":4096,"Port":4789}`),
				node("a", annotated("vxlan", `{"VNI":1,"VtepMAC":"8e:7a:55:2f:00:01"}`)), node("b", annotated("vxlan", `{"VNI":4096}`)), node("c", annotated("host-gw", "null")),
			},
			mode: "FlannelVXLAN", plane: facts.Plane{Kind: "Flannel", Backend: "vxlan", VNI: 4096, Port: 4789, From: flannelFrom},
			problems: []string{flannelFrom + " is not yet what Nodes a, c say in annotation flannel.alpha.coreos.com/backend-data: restart flannel: kubectl -n kube-flannel rollout restart daemonset kube-flannel-ds"},
		},
		{
			name: "flannel by its nodes only", objects: []client.Object{node("a", annotated("vxlan", `{"VNI":4096,"VtepMAC":"8e:7a:55:2f:00:01"}`))},
			mode: "FlannelVXLAN", plane: facts.Plane{Kind: "Flannel", Backend: "vxlan", VNI: 4096, Port: 4789, From: "Node a annotation flannel.alpha.coreos.com/backend-type"},
			problems: []string{"no ConfigMap kube-flannel-cfg shows the UDP port of flannel: it must be 4789"},
		},
		{
			name: "flannel within k3s", objects: []client.Object{node("a", annotated("vxlan", `{"VNI":1}`))},
			mode: "FlannelVXLAN", plane: facts.Plane{Kind: "Flannel", Backend: "vxlan", VNI: 1, From: "Node a annotation flannel.alpha.coreos.com/backend-type"},
			problems: []string{`FATAL Node a annotation flannel.alpha.coreos.com/backend-type: flannel uses VNI 1, and Windows needs one of 4096 to 16777214 and UDP port 4789: set "VNI": 4096 and "Port": 4789 in the Backend of the net-conf.json that flannel is started with, and restart it on all nodes` + mayChoose},
		},
		{name: "annotations of a Windows node prove nothing", objects: []client.Object{node("w", windows, annotated("vxlan", `{"VNI":4096}`))}, mode: "L2Bridge"},
		{
			name: "Canal is flannel", objects: []client.Object{
				configMap("kube-system", "canal-config", "net-conf.json", `{"Network":"10.244.0.0/16","Backend":{"Type":"host-gw"}}`),
			}, mode: "FlannelHostGW", plane: facts.Plane{Kind: "Flannel", Backend: "host-gw", From: "ConfigMap kube-system/canal-config key net-conf.json"},
		},
		{
			name: "Calico by its operator", objects: calico(t, ca).objects, mode: "Calico",
			plane: facts.Plane{Kind: "Calico", Backend: "VXLAN", VNI: 4096, Port: 4789, From: "IPPool default-ipv4-ippool"},
		},
		{
			name: "Calico by its manifest", objects: []client.Object{pool("default-ipv4-ippool", "10.244.0.0/16", map[string]any{"ipipMode": "Always", "vxlanMode": "Never"})},
			mode: "Calico", plane: facts.Plane{Kind: "Calico", Backend: "IPIP", From: "IPPool default-ipv4-ippool"},
			problems: []string{
				"IPPool default-ipv4-ippool has ipipMode Always, which Windows nodes do not have: set vxlanMode Always and ipipMode Never, or no encapsulation with BGP",
				"Calico may lend addresses of one node's blocks to another, which Windows nodes cannot serve: calicoctl ipam configure --strictaffinity=true",
			},
		},
		{
			name: "Calico with a port of its own", objects: []client.Object{
				pool("a", "10.244.0.0/17", map[string]any{"vxlanMode": "CrossSubnet"}), pool("z", "10.9.0.0/16", map[string]any{"allowedUses": []any{"Tunnel"}}),
				pool("y", "10.8.0.0/16", map[string]any{"disabled": true}),
				custom(calicoKind("FelixConfiguration"), "default", map[string]any{"vxlanPort": int64(8472)}),
				custom(calicoKind("IPAMConfig"), "default", map[string]any{"strictAffinity": true}),
			}, mode: "Calico", plane: facts.Plane{Kind: "Calico", Backend: "VXLAN", VNI: 4096, Port: 8472, From: "IPPool a"},
			problems: []string{`FelixConfiguration default has VNI 4096 and port 8472, and Windows needs 4096 or more and 4789: kubectl patch felixconfigurations default --type merge -p '{"spec":{"vxlanVNI":4096,"vxlanPort":4789}}'`},
		},
		{
			name: "Calico's operator without Windows", objects: []client.Object{installation(map[string]any{"calicoNetwork": map[string]any{"linuxDataplane": "Iptables"}})},
			mode: "Calico", plane: facts.Plane{Kind: "Calico", From: "Installation default"},
			problems: []string{`Calico's operator does not serve Windows nodes yet: kubectl patch installation default --type merge -p '{"spec":{"calicoNetwork":{"windowsDataplane":"HNS"}}}', with spec.serviceCIDRs and ConfigMap kubernetes-services-endpoint beside it`},
		},
		{
			name: "Calico for policies of another CNI", objects: []client.Object{installation(map[string]any{"cni": map[string]any{"type": "AmazonVPC"}})},
			mode: "None", plane: facts.Plane{Kind: "Other", Name: "AmazonVPC", From: "Installation default .spec.cni.type"},
		},
		{
			name: "kinds of Calico that are left over", objects: []client.Object{custom(calicoKind("FelixConfiguration"), "default", map[string]any{})}, mode: "L2Bridge",
		},
		{
			name: "Cilium", objects: []client.Object{configMap("kube-system", "cilium-config", "tunnel-protocol", "vxlan")},
			plane:    facts.Plane{Kind: "Cilium", From: "ConfigMap kube-system/cilium-config"},
			problems: []string{"FATAL Cilium has no Windows nodes. Give the cluster a pod network that has, flannel (vxlan with VNI 4096 and port 4789, or host-gw) or Calico" + mayChoose},
		},
		{
			name: "kube-router", objects: []client.Object{configMap("kube-system", "kube-router-cfg", "cni-conf.json", "{}")},
			plane:    facts.Plane{Kind: "KubeRouter", From: "ConfigMap kube-system/kube-router-cfg"},
			problems: []string{"FATAL kube-router has no Windows nodes. Give the cluster a pod network that has, flannel (vxlan with VNI 4096 and port 4789, or host-gw) or Calico" + mayChoose},
		},
		{
			name: "Antrea", objects: []client.Object{configMap("kube-system", "antrea-config", "x", "")},
			mode: "None", plane: facts.Plane{Kind: "Other", Name: "Antrea", From: "ConfigMap kube-system/antrea-config"},
		},
		{
			name: "two", objects: append(calico(t, ca).objects, flannelMap("kube-flannel", `{"Type":"host-gw"}`)),
			mode: "FlannelHostGW", plane: facts.Plane{Kind: "Flannel", Backend: "host-gw", From: flannelFrom},
			problems: []string{"there is also Calico (VXLAN), by IPPool default-ipv4-ippool; Flannel (host-gw) is taken for the pod network. If that is wrong, set spec.network.mode of WindowsNodeProfile default"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := kubeadm(t, ca)
			if slices.ContainsFunc(tt.objects, func(o client.Object) bool { return o.GetName() == "kubeadm-config" }) {
				w.objects = nil
			}
			for _, mode := range []v1alpha1.NetworkMode{"", v1alpha1.NetworkAuto} {
				w.in.Profile.Network.Mode = mode
				cluster, problems := w.add(tt.objects...).discover()
				w.objects = w.objects[:len(w.objects)-len(tt.objects)]
				if cluster.Mode != tt.mode || cluster.Why == "" {
					t.Errorf("mode %q, since %q", cluster.Mode, cluster.Why)
				}
				if diff := cmp.Diff(tt.plane, cluster.Plane) + cmp.Diff(tt.problems, networkProblems(problems), cmpopts.EquateEmpty()); diff != "" {
					t.Error(diff)
				}
				if cluster.Sources[facts.PodNetwork] != tt.plane.From {
					t.Errorf("source %q", cluster.Sources[facts.PodNetwork])
				}
			}
		})
	}
}

// TestModeOfTheProfile: it counts, and what stands against it is said.
func TestModeOfTheProfile(t *testing.T) {
	ca := authority(t, "kubernetes")
	good, wrong := flannelMap("kube-flannel", `{"Type":"vxlan","VNI":4096,"Port":4789}`), flannelMap("kube-flannel", `{"Type":"vxlan"}`)
	hostGW := flannelMap("kube-flannel", `{"Type":"host-gw"}`)
	peers := func(n *v1alpha1.NetworkSpec) {
		n.Nodes = []v1alpha1.NetworkNode{{Name: "a", PodCIDRs: []string{"10.244.0.0/24"}, ProviderAddress: "192.168.1.11", VTEPMAC: "02-11-22-33-44-55"}}
	}
	for _, tt := range []struct {
		name    string
		mode    v1alpha1.NetworkMode
		edit    func(*v1alpha1.NetworkSpec)
		objects []client.Object
		// refused and doubted are words of the one problem, "" for none.
		refused, doubted string
	}{
		{name: "None with anything", mode: "None", objects: []client.Object{wrong}},
		{name: "Custom with anything", mode: "Custom", objects: []client.Object{wrong}},
		{name: "FlannelVXLAN", mode: "FlannelVXLAN", objects: []client.Object{good}},
		{name: "FlannelVXLAN with the wrong VNI", mode: "FlannelVXLAN", objects: []client.Object{wrong}, refused: `"VNI": 4096 and "Port": 4789`},
		{name: "FlannelVXLAN without flannel", mode: "FlannelVXLAN", refused: "there is no flannel in the cluster"},
		{name: "FlannelVXLAN with host-gw", mode: "FlannelVXLAN", objects: []client.Object{hostGW}, refused: "flannel's backend is host-gw (ConfigMap kube-flannel/kube-flannel-cfg key net-conf.json). Set spec.network.mode to FlannelHostGW or to Auto"},
		{name: "FlannelHostGW", mode: "FlannelHostGW", objects: []client.Object{hostGW}},
		{name: "FlannelHostGW with vxlan", mode: "FlannelHostGW", objects: []client.Object{good}, refused: "to FlannelVXLAN or to Auto"},
		{name: "Overlay without peers", mode: "Overlay", refused: "reach neither other pods nor DNS"},
		{name: "Overlay without peers beside host-gw", mode: "Overlay", objects: []client.Object{hostGW}, refused: "spec.network.nodes"},
		{name: "Overlay with peers that have no MAC", mode: "Overlay", edit: func(n *v1alpha1.NetworkSpec) { n.Nodes = []v1alpha1.NetworkNode{{Name: "a"}} }, refused: "vtepMAC"},
		{name: "Overlay with peers", mode: "Overlay", edit: peers},
		{name: "Overlay with flannel's peers", mode: "Overlay", objects: []client.Object{good}},
		{name: "Overlay with flannel's peers of the wrong VNI", mode: "Overlay", objects: []client.Object{wrong}, refused: `"VNI": 4096`},
		{name: "L2Bridge", mode: "L2Bridge"},
		{name: "L2Bridge beside host-gw", mode: "L2Bridge", objects: []client.Object{hostGW}},
		{name: "L2Bridge beside vxlan", mode: "L2Bridge", objects: []client.Object{good}, doubted: "the cluster's pod network is Flannel (vxlan)"},
		{name: "Calico", mode: "Calico", objects: []client.Object{pool("p", "10.244.0.0/16", nil)}},
		{name: "Calico that is not there yet", mode: "Calico", doubted: "neither an IPPool nor an Installation"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := kubeadm(t, ca).add(tt.objects...)
			if w.in.Profile.Network.Mode = tt.mode; tt.edit != nil {
				tt.edit(&w.in.Profile.Network)
			}
			cluster, problems := w.discover()
			if cluster.Mode != string(tt.mode) || cluster.Why != "spec.network.mode of WindowsNodeProfile default says so" {
				t.Errorf("mode %q, since %q", cluster.Mode, cluster.Why)
			}
			var fatal, doubts string
			for _, p := range networkProblems(problems) {
				if said, stops := strings.CutPrefix(p, "FATAL "); stops {
					fatal += said
				} else {
					doubts += p
				}
			}
			for _, c := range []struct{ want, got string }{{tt.refused, fatal}, {tt.doubted, doubts}} {
				if (c.want == "") != (c.got == "") || !strings.Contains(c.got, c.want) {
					t.Errorf("got %q, want %q in it", c.got, c.want)
				}
			}
		})
	}
}

// TestUnseenPodNetwork: where its objects may not be read, that nothing shows is no proof.
func TestUnseenPodNetwork(t *testing.T) {
	w := calico(t, authority(t, "kubernetes"))
	w.fail["IPPoolList"] = apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no"))
	w.drop("default")
	cluster, problems := w.discover()
	got := networkProblems(problems)
	if cluster.Mode != "" || len(got) != 1 || !strings.HasPrefix(got[0], "FATAL ") || !strings.Contains(got[0], "may not list ippools.crd.projectcalico.org") {
		t.Errorf("mode %q, problems %q", cluster.Mode, got)
	}
	w.in.Profile.Network.Mode = v1alpha1.NetworkL2Bridge
	if cluster, problems := w.discover(); cluster.Mode != "L2Bridge" || len(networkProblems(problems)) > 0 {
		t.Errorf("mode %q, problems %q", cluster.Mode, networkProblems(problems))
	}
}

// mirror is a pod of the control plane as a kubelet shows it.
func mirror(component, node string, command ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: component + "-" + node, Labels: map[string]string{"component": component, "tier": "control-plane"},
			Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "4fbc"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: component, Command: command}}},
	}
}

// TestRangesOfTheControlPlane: a cluster without kubeadm's objects whose control plane runs as static pods.
func TestRangesOfTheControlPlane(t *testing.T) {
	ca := authority(t, "kubernetes")
	for _, tt := range []struct {
		name     string
		objects  []client.Object
		pods     []string
		services []string
		source   string
	}{
		{
			name: "joined flags", objects: []client.Object{
				mirror(controllerManager, "cp1", "kube-controller-manager", "--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16"),
				mirror(apiServer, "cp1", "kube-apiserver", "--service-cluster-ip-range=10.96.0.0/12", "--v=2"),
			},
			pods: []string{"10.244.0.0/16"}, services: []string{"10.96.0.0/12"}, source: "Pod kube-system/kube-controller-manager-cp1 argument --cluster-cidr",
		},
		{
			name: "flags and values apart, dual stack", objects: []client.Object{
				mirror(controllerManager, "cp1", "kube-controller-manager", "--leader-elect", "--cluster-cidr", "10.244.0.0/16,fd00:1::/56"),
				mirror(apiServer, "cp1", "kube-apiserver", "--service-cluster-ip-range", "10.96.0.0/12,fd00:2::/112", "--anonymous-auth"),
			},
			pods: []string{"10.244.0.0/16", "fd00:1::/56"}, services: []string{"10.96.0.0/12", "fd00:2::/112"}, source: "Pod kube-system/kube-controller-manager-cp1 argument --cluster-cidr",
		},
		{
			name: "by a shell, the last one counts", objects: []client.Object{
				mirror(controllerManager, "cp1", "/bin/sh", "-c", `exec kube-controller-manager --cluster-cidr=10.1.0.0/16 --cluster-cidr="10.244.0.0/16" 1>>/var/log/x 2>&1`),
				mirror(apiServer, "cp1", "/bin/sh", "-c", "exec kube-apiserver --service-cluster-ip-range='10.96.0.0/12'"),
			},
			pods: []string{"10.244.0.0/16"}, services: []string{"10.96.0.0/12"}, source: "Pod kube-system/kube-controller-manager-cp1 argument --cluster-cidr",
		},
		{
			name: "a pod that no kubelet made", objects: []client.Object{
				func() client.Object {
					p := mirror(controllerManager, "x", "kube-controller-manager", "--cluster-cidr=6.6.0.0/16")
					p.Annotations = nil
					return p
				}(),
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cluster, _ := newWorld(t, ca).add(tt.objects...).discover()
			if diff := cmp.Diff([][]string{tt.pods, tt.services}, [][]string{cluster.PodCIDRs, cluster.ServiceCIDRs}); diff != "" {
				t.Error(diff)
			}
			if got := cluster.Sources[facts.PodCIDRs]; got != tt.source {
				t.Errorf("source %q", got)
			}
		})
	}
	t.Run("control planes that disagree", func(t *testing.T) {
		_, problems := newWorld(t, ca).add(
			mirror(controllerManager, "cp2", "kube-controller-manager", "--cluster-cidr=10.1.0.0/16"),
			mirror(controllerManager, "cp1", "kube-controller-manager", "--cluster-cidr=10.2.0.0/16"),
		).discover()
		want := "podCIDRs: Pod kube-system/kube-controller-manager-cp1 argument --cluster-cidr says 10.2.0.0/16, Pod kube-system/kube-controller-manager-cp2 argument --cluster-cidr says 10.1.0.0/16; the first is used"
		if !slices.ContainsFunc(problems, func(p facts.Problem) bool { return p.Message == want }) {
			t.Errorf("got %+v", problems)
		}
	})
}

// TestRangeOverNodes: what Nodes have is a guess, used where nothing else is known and held against what is.
func TestRangeOverNodes(t *testing.T) {
	ca := authority(t, "kubernetes")
	three := []client.Object{node("a", withRange("10.200.0.0/24")), node("b", withRange("10.200.2.0/24")), node("c", withRange("10.200.1.0/24")), node("d")}
	cluster, problems := newWorld(t, ca).add(three...).discover()
	if diff := cmp.Diff([]string{"10.200.0.0/22"}, cluster.PodCIDRs); diff != "" {
		t.Error(diff)
	}
	want := facts.Problem{
		Fact: facts.PodCIDRs, Reason: v1alpha1.ReasonFactsGuessed,
		Message: "podCIDRs: no object says it; the smallest range over spec.podCIDRs of all Nodes is 10.200.0.0/22, and is used. Neither ConfigMap kubeadm-config nor kube-proxy in kube-system, nor flannel's or Calico's objects, nor a mirror pod of kube-controller-manager hold them: set spec.cluster.podCIDRs of WindowsNodeProfile default to the --cluster-cidr of kube-controller-manager",
	}
	if !slices.Contains(problems, want) {
		t.Errorf("got %+v", problems)
	}
	of := func(w *world) []facts.Problem {
		_, problems := w.add(three...).discover()
		return slices.DeleteFunc(problems, func(p facts.Problem) bool { return p.Fact != facts.PodCIDRs })
	}
	if got := of(kubeadm(t, ca)); len(got) != 1 || got[0].Reason != v1alpha1.ReasonFactsDisagree || !strings.Contains(got[0].Message, "10.200.0.0/22") {
		t.Errorf("Nodes outside of the range: %+v", got)
	}
	w := kubeadm(t, ca)
	w.in.Profile.Cluster.PodCIDRs = []string{"10.200.0.0/16"}
	w.drop("kubeadm-config").drop("kube-proxy")
	if got := of(w); len(got) > 0 {
		t.Errorf("Nodes within the range: %+v", got)
	}
	if got := of(calico(t, ca)); len(got) > 0 {
		t.Errorf("Calico does not use what Nodes have: %+v", got)
	}
}

func TestCover(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want string
	}{
		{"", ""},
		{"10.200.1.0/24", "10.200.1.0/24"},
		{"10.200.0.0/24 10.200.1.0/24", "10.200.0.0/23"},
		{"10.200.1.0/24 10.200.2.0/24", "10.200.0.0/22"},
		{"10.200.0.0/16 10.200.3.0/24", "10.200.0.0/16"},
		{"10.0.0.0/24 200.0.0.0/24", "0.0.0.0/0"},
		{"fd00::1:0/112 10.1.2.3/24 fd00::/112 nonsense", "10.1.2.0/24 fd00::/111"},
	} {
		if got := strings.Join(cover(strings.Fields(tt.in)), " "); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
	}
}

// refusal is what an API server says of a Service outside of its range; the words are those of Kubernetes before 1.33.
func refusal(message string) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "service-range", field.ErrorList{
		field.Invalid(field.NewPath("spec", "clusterIPs"), []string{"192.0.2.1"}, message),
	})
}

// TestServiceRangeByRefusal: a dry run, and only when nothing else says the range.
func TestServiceRangeByRefusal(t *testing.T) {
	ca := authority(t, "kubernetes")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", errors.New("no"))
	for _, tt := range []struct {
		name   string
		change func(*world)
		answer error
		want   []string
		asked  bool
	}{
		{
			name: "before 1.33", answer: refusal("failed to allocate IP 192.0.2.1: the provided IP (192.0.2.1) is not in the valid range. The range of valid IPs is 10.32.0.0/24"),
			want: []string{"10.32.0.0/24"}, asked: true,
		},
		{name: "with ServiceCIDRs that may not be read", answer: refusal("failed to allocate IP 192.0.2.1: the provided network does not match the current range"), asked: true},
		{name: "not permitted", answer: forbidden, asked: true},
		{name: "taken", asked: true},
		{name: "another field", answer: apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "x", field.ErrorList{field.Invalid(field.NewPath("spec", "ports"), 1, "10.32.0.0/24")}), asked: true},
		{name: "a webhook that is down", answer: apierrors.NewInternalError(errors.New("failed calling webhook 10.32.0.0/24")), asked: true},
		{name: "the range is known by an object", change: func(w *world) { w.add(serviceCIDR("kubernetes", "10.96.0.0/12")) }, want: []string{"10.96.0.0/12"}},
		{name: "the range is known by the profile", change: func(w *world) { w.in.Profile.Cluster.ServiceCIDRs = []string{"10.96.0.0/12"} }, want: []string{"10.96.0.0/12"}},
		{name: "the range is known by arguments", change: func(w *world) { w.add(mirror(apiServer, "cp", "--service-cluster-ip-range=10.96.0.0/12")) }, want: []string{"10.96.0.0/12"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, ca)
			if tt.change != nil {
				tt.change(w)
			}
			var asked bool
			w.in.Create = func(_ context.Context, o client.Object, opts ...client.CreateOption) error {
				var c client.CreateOptions
				c.ApplyOptions(opts)
				if !slices.Equal(c.DryRun, []string{metav1.DryRunAll}) || o.GetNamespace() != namespace {
					t.Errorf("%s is created with %+v", client.ObjectKeyFromObject(o), c)
				}
				asked = true
				return tt.answer
			}
			cluster, problems := w.discover()
			if diff := cmp.Diff(tt.want, cluster.ServiceCIDRs); diff != "" || asked != tt.asked {
				t.Errorf("asked %t %s", asked, diff)
			}
			told := slices.ContainsFunc(problems, func(p facts.Problem) bool {
				return strings.Contains(p.Message, "create services in namespace "+namespace)
			})
			if told != apierrors.IsForbidden(tt.answer) {
				t.Errorf("told of the right: %t", told)
			}
		})
	}
	t.Run("nothing is asked on OpenShift", func(t *testing.T) {
		w := openshift(t, ca, ca)
		w.in.Create = func(context.Context, client.Object, ...client.CreateOption) error { t.Error("asked"); return nil }
		w.discover()
	})
}

// TestServiceRangesOfBeta: Kubernetes 1.31 and 1.32 have ServiceCIDRs as v1beta1 where they are turned on.
func TestServiceRangesOfBeta(t *testing.T) {
	w := newWorld(t, authority(t, "kubernetes")).add(&networkingv1beta1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1beta1.ServiceCIDRSpec{CIDRs: []string{"10.32.0.0/24"}},
	})
	w.serviceCIDRs = "v1beta1"
	if cluster, _ := w.discover(); !slices.Equal(cluster.ServiceCIDRs, []string{"10.32.0.0/24"}) {
		t.Errorf("got %q", cluster.ServiceCIDRs)
	}
	w.serviceCIDRs = "none"
	if cluster, _ := w.discover(); len(cluster.ServiceCIDRs) > 0 {
		t.Errorf("got %q", cluster.ServiceCIDRs)
	}
}

// TestDNSByItsPort: a Service that neither has CoreDNS's name nor its label.
func TestDNSByItsPort(t *testing.T) {
	answering := func(name, ip string, protocols ...corev1.Protocol) *corev1.Service {
		svc := dnsService(name, nil, ip)
		for _, p := range protocols {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Port: 53, Protocol: p})
		}
		return svc
	}
	for name, tt := range map[string]struct {
		services []client.Object
		want     []string
	}{
		"one":      {[]client.Object{answering("resolver", "10.96.0.7", "UDP", "TCP"), answering("log", "10.96.0.8", "UDP")}, []string{"10.96.0.7"}},
		"two":      {[]client.Object{answering("resolver", "10.96.0.7", "UDP", "TCP"), answering("other", "10.96.0.8", "UDP", "TCP")}, nil},
		"headless": {[]client.Object{answering("resolver", corev1.ClusterIPNone, "UDP", "TCP")}, nil},
		"UDP only": {[]client.Object{answering("resolver", "10.96.0.7", "UDP")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, _ := newWorld(t, authority(t, "kubernetes")).add(tt.services...).discover()
			if diff := cmp.Diff(tt.want, cluster.ClusterDNS); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// cacheLike marks every list as controller-runtime's cache does.
type cacheLike struct {
	client.Reader
	lists int
}

// List implements client.Reader.
func (c *cacheLike) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if c.lists++; c.lists > 1 {
		return errors.New("a cache is read once")
	}
	err := c.Reader.List(ctx, list, opts...)
	list.SetContinue("continue-not-supported")
	return err
}

// TestNodesByTheGivenReader: a cache takes the place of the API server, and is not read by pages.
func TestNodesByTheGivenReader(t *testing.T) {
	w := newWorld(t, authority(t, "kubernetes")).add(node("of the API server", withRange("10.1.0.0/24")))
	w.in.Nodes = &cacheLike{Reader: newWorld(t, "").add(node("a", withRange("10.200.0.0/24"))).reader()}
	if cluster, _ := w.discover(); !slices.Equal(cluster.PodCIDRs, []string{"10.200.0.0/24"}) {
		t.Errorf("got %q", cluster.PodCIDRs)
	}
}

// TestFailure20WrongVNI (k3s-io/k3s#9295, rancher/rancher#19699): Linux nodes with flannel's own VNI and port never exchange a packet with Windows
// nodes, and no log says so. No host is set up before the two lines are changed.
func TestFailure20WrongVNI(t *testing.T) {
	ca := authority(t, "kubernetes")
	for _, mode := range []v1alpha1.NetworkMode{v1alpha1.NetworkAuto, v1alpha1.NetworkFlannelVXLAN, v1alpha1.NetworkOverlay} {
		w := kubeadm(t, ca).add(flannelMap("kube-flannel", `{"Type":"vxlan"}`))
		w.in.Profile.Network.Mode = mode
		_, problems := w.discover()
		if len(problems) == 0 || !problems[0].Fatal || problems[0].Reason != v1alpha1.ReasonNetworkUnfit {
			t.Fatalf("%s: %+v", mode, problems)
		}
		for _, line := range []string{"ConfigMap kube-flannel/kube-flannel-cfg key net-conf.json", `"VNI": 4096 and "Port": 4789`, "rollout restart daemonset kube-flannel-ds"} {
			if !strings.Contains(problems[0].Message, line) {
				t.Errorf("%s: %q does not say %q", mode, problems[0].Message, line)
			}
		}
	}
}

// TestFailure26FlannelOnAnotherInterface (flannel-io/flannel#1742, rancher/rke2#7215): the address that flannel announces is held against those of
// the Node.
func TestFailure26FlannelOnAnotherInterface(t *testing.T) {
	at := func(announced, ip string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Annotations[flannelPublicIP] = announced
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
		}
	}
	good := annotated("vxlan", `{"VNI":4096}`)
	w := kubeadm(t, authority(t, "kubernetes")).add(
		flannelMap("kube-flannel", `{"Type":"vxlan","VNI":4096,"Port":4789}`),
		node("a", good, at("10.0.2.15", "192.168.56.11")), node("b", good, at("192.168.56.12", "192.168.56.12")), node("w", windows, good, at("10.0.2.15", "192.168.56.13")),
	)
	_, problems := w.discover()
	want := []string{"annotation flannel.alpha.coreos.com/public-ip is no address of its Node on a (10.0.2.15): start flannel there with --iface of the interface that has the Node's InternalIP, or with --public-ip"}
	if diff := cmp.Diff(want, networkProblems(problems)); diff != "" {
		t.Error(diff)
	}
}

// FuzzNetConf: whatever net-conf.json and an annotation hold, a vxlan that is let through is one that Windows can do.
func FuzzNetConf(f *testing.F) {
	f.Add(`{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","VNI":4096,"Port":4789}}`, "vxlan", `{"VNI":4096}`)
	f.Add(`{"Backend":{"type":"VXLAN","vni":-1,"DirectRouting":true}}`, "host-gw", "null")
	f.Add(`{"Backend":null}`, "vxlan", `{"VNI":1e3}`)
	f.Add("", "vxlan", `{"VNI":16777215}`)
	f.Fuzz(func(t *testing.T, conf, backend, data string) {
		s := sources{
			configMaps: map[string]map[string]string{"kube-flannel/kube-flannel-cfg": {flannelKey: conf}},
			nodes:      []nodeView{{name: "a", backend: backend, data: data, publicIP: data}},
		}
		for _, p := range planes(s) {
			if p.mode == v1alpha1.NetworkFlannelVXLAN && p.refusal == "" && (p.VNI < 4096 || p.VNI > 16777214 || p.Port != 4789) {
				t.Errorf("let through: %+v", p)
			}
			if p.mode == "" && p.refusal == "" {
				t.Errorf("neither a mode nor a refusal: %+v", p)
			}
			for _, text := range append(p.doubts, p.refusal) {
				if len(text) > 2*maxMessage {
					t.Errorf("a message of %d bytes", len(text))
				}
			}
		}
		l := ladder{}
		l.flannel(s)
	})
}

// FuzzCover: each range lies within the one over all.
func FuzzCover(f *testing.F) {
	f.Add("10.200.0.0/24 10.200.3.0/24")
	f.Add("fd00::/64 10.0.0.0/8 ::ffff:1.2.3.4/120")
	f.Fuzz(func(t *testing.T, text string) {
		ranges := strings.Fields(text)
		over := cover(ranges)
		if len(over) > 2 {
			t.Errorf("%q", over)
		}
		for _, r := range ranges {
			p, err := netip.ParsePrefix(r)
			if err != nil {
				continue
			}
			if !slices.ContainsFunc(over, func(o string) bool {
				q := netip.MustParsePrefix(o)
				return q.Bits() <= p.Bits() && q.Contains(p.Masked().Addr())
			}) {
				t.Errorf("%s is not within %q", r, over)
			}
		}
	})
}
