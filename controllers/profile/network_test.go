package profile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
)

func TestNetworkStatus(t *testing.T) {
	flannel := facts.Plane{Kind: facts.PlaneFlannel, Backend: "vxlan", VNI: 4096, Port: 4789, From: "x"}
	for name, c := range map[string]struct {
		cluster facts.Cluster
		spec    v1alpha1.NetworkSpec
		want    v1alpha1.NetworkStatus
	}{
		"none fits": {facts.Cluster{Why: "w"}, v1alpha1.NetworkSpec{}, v1alpha1.NetworkStatus{Why: "w"}},
		"bridge":    {facts.Cluster{Mode: "L2Bridge", Why: "w"}, v1alpha1.NetworkSpec{}, v1alpha1.NetworkStatus{Mode: "L2Bridge", Why: "w", Name: "windowsmachine"}},
		"flannel": {
			facts.Cluster{Mode: "FlannelVXLAN", Plane: flannel},
			v1alpha1.NetworkSpec{},
			v1alpha1.NetworkStatus{Mode: "FlannelVXLAN", Name: "flannel.4096", Backend: "vxlan", VNI: 4096, Port: 4789},
		},
		"a name of the admin's": {
			facts.Cluster{Mode: "FlannelHostGW", Plane: facts.Plane{Kind: facts.PlaneFlannel, Backend: "host-gw"}},
			v1alpha1.NetworkSpec{Name: "own"},
			v1alpha1.NetworkStatus{Mode: "FlannelHostGW", Name: "own", Backend: "host-gw"},
		},
		"overlay with peers": {
			facts.Cluster{Mode: "Overlay"}, v1alpha1.NetworkSpec{VSID: 5000}, v1alpha1.NetworkStatus{Mode: "Overlay", Name: "windowsmachine", VNI: 5000, Port: 4789},
		},
		"objects with nonsense": {
			facts.Cluster{Mode: "None", Why: strings.Repeat("w", 2000), Plane: facts.Plane{Backend: strings.Repeat("b", 100), VNI: 1 << 40, Port: -1}},
			v1alpha1.NetworkSpec{},
			v1alpha1.NetworkStatus{Mode: "None", Why: strings.Repeat("w", 1021) + "...", Name: "windowsmachine", Backend: strings.Repeat("b", 61) + "...", VNI: 1<<31 - 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := aProfile(func(p *v1alpha1.WindowsNodeProfile) { p.Spec.Network = c.spec })
			if diff := cmp.Diff(&c.want, network(p, c.cluster)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func node(name, system, ip string, ranges ...string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: system}},
		Spec:       corev1.NodeSpec{PodCIDRs: ranges},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: "fd00::1"}, {Type: corev1.NodeInternalIP, Address: ip},
		}},
	}
}

func TestRoutesForLinuxNodes(t *testing.T) {
	overridden := v1alpha1.NetworkSpec{Nodes: []v1alpha1.NetworkNode{{Name: "win-b", PodCIDRs: []string{"10.200.9.0/24"}}}}
	objects := []client.Object{
		node("win-a", "windows", "10.240.0.40", "10.200.3.0/24"), node("win-b", "windows", "10.240.0.41", "10.200.4.0/24"),
		node("win-new", "windows", "10.240.0.42"), node("linux", "linux", "10.240.0.20", "10.200.0.0/24"),
	}
	w := newWorld(t, interceptor.Funcs{}, objects...)
	for _, tt := range []struct {
		mode string
		want []string
	}{
		{"L2Bridge", []string{"ip route replace 10.200.3.0/24 via 10.240.0.40", "ip route replace 10.200.9.0/24 via 10.240.0.41"}},
		{"FlannelHostGW", nil},
		{"Calico", nil},
		{"", nil},
	} {
		p := aProfile(func(p *v1alpha1.WindowsNodeProfile) { p.Spec.Network = overridden })
		got := &v1alpha1.NetworkStatus{}
		if err := w.r.network(t.Context(), p, facts.Cluster{Mode: tt.mode}, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got.LinuxRoutes); diff != "" {
			t.Errorf("%s: %s", tt.mode, diff)
		}
	}
}

func TestRoutesThatHaveNoRoom(t *testing.T) {
	var many []string
	for i := range routeRoom + 44 {
		many = append(many, fmt.Sprintf("ip route replace 10.0.%d.0/24 via 192.168.0.1", i))
	}
	got := clip(many)
	if len(got) != routeRoom || !strings.Contains(got[routeRoom-1], "and 45 more") || many[routeRoom-1] == got[routeRoom-1] {
		t.Errorf("%d commands, the last %q", len(got), got[len(got)-1])
	}
	if got := clip(many[:routeRoom]); len(got) != routeRoom || got[routeRoom-1] != many[routeRoom-1] {
		t.Errorf("%d commands, the last %q", len(got), got[len(got)-1])
	}
}

// TestNodeChanged: the commands for Linux nodes follow the Windows Nodes, and nothing is looked at for a heartbeat or a Linux Node.
func TestNodeChanged(t *testing.T) {
	node := func(os, podCIDR, address string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelOSStable: os}}}
		if podCIDR != "" {
			n.Spec.PodCIDRs = []string{podCIDR}
		}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		return n
	}
	windows := node("windows", "10.244.3.0/24", "10.0.0.9")
	beat := windows.DeepCopy()
	beat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	for _, tc := range []struct {
		name    string
		was, is client.Object
		want    int
	}{
		{"new", nil, windows, 1},
		{"gone", windows, nil, 1},
		{"given its range", node("windows", "", "10.0.0.9"), windows, 1},
		{"moved", node("windows", "10.244.3.0/24", "10.0.0.8"), windows, 1},
		{"heartbeat", windows, beat, 0},
		{"Linux", nil, node("linux", "10.244.1.0/24", "10.0.0.4"), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, interceptor.Funcs{}, &v1alpha1.WindowsNodeProfile{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
			q := &later{}
			w.r.nodeChanged(t.Context(), tc.was, tc.is, q)
			if len(q.added) != tc.want || slices.Contains(q.added, "default after 0s") {
				t.Errorf("looked at: %q, want %d after %s", q.added, tc.want, gathering)
			}
		})
	}
}

// later notes what a queue is to hold after a while; anything else that is asked of it panics.
type later struct {
	queue
	added []string
}

func (q *later) AddAfter(r reconcile.Request, d time.Duration) {
	q.added = append(q.added, fmt.Sprintf("%s after %s", r.Name, d))
}
