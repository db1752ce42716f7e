package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
)

func aNode(name, ip, podCIDR string, edits ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}},
		Spec:       corev1.NodeSpec{PodCIDR: podCIDR, PodCIDRs: []string{podCIDR}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: "fd00::1"}, {Type: corev1.NodeInternalIP, Address: ip},
		}},
	}
	for _, e := range edits {
		e(n)
	}
	return n
}

func flannelled(kind, data, ip string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Annotations = map[string]string{flannelBackendType: kind, flannelBackendData: data, flannelPublicIP: ip, flannelManager: "true"}
	}
}

func TestPeerOf(t *testing.T) {
	for name, c := range map[string]struct {
		node *corev1.Node
		want facts.Peer
	}{
		"without flannel": {
			aNode("a", "192.0.2.20", "10.244.0.0/24"),
			facts.Peer{Name: "a", OS: "linux", InternalIP: "192.0.2.20", PodCIDRs: []string{"10.244.0.0/24"}, ProviderAddress: "192.0.2.20"},
		},
		"flannel": {
			aNode("a", "192.0.2.20", "10.244.0.0/24", flannelled("vxlan", `{"VNI":4096,"VtepMAC":"0A:00:00:00:00:01"}`, "203.0.113.20")),
			facts.Peer{
				Name: "a", OS: "linux", InternalIP: "192.0.2.20", PodCIDRs: []string{"10.244.0.0/24"},
				ProviderAddress: "203.0.113.20", VTEPMAC: "0a:00:00:00:00:01", VNI: 4096,
			},
		},
		"rke2#7215: the wrong annotation": {
			aNode("a", "192.0.2.20", "10.244.0.0/24", flannelled("vxlan", `{"VNI":4096,"VtepMAC":"0A-00"}`, "eth0")),
			facts.Peer{Name: "a", OS: "linux", InternalIP: "192.0.2.20", PodCIDRs: []string{"10.244.0.0/24"}, ProviderAddress: "192.0.2.20", VNI: 4096},
		},
		"no document": {
			aNode("a", "192.0.2.20", "10.244.0.0/24", flannelled("vxlan", `null`, "0.0.0.0")),
			facts.Peer{Name: "a", OS: "linux", InternalIP: "192.0.2.20", PodCIDRs: []string{"10.244.0.0/24"}, ProviderAddress: "192.0.2.20"},
		},
		"another backend": {
			aNode("a", "192.0.2.20", "10.244.0.0/24", flannelled("host-gw", `null`, "203.0.113.20")),
			facts.Peer{Name: "a", OS: "linux", InternalIP: "192.0.2.20", PodCIDRs: []string{"10.244.0.0/24"}, ProviderAddress: "192.0.2.20"},
		},
		"a new one": {&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, facts.Peer{Name: "new"}},
		"only podCIDR": {
			aNode("a", "192.0.2.20", "10.244.0.0/24", func(n *corev1.Node) {
				n.Spec.PodCIDRs, n.Labels, n.Status.NodeInfo.OperatingSystem = nil, nil, "windows"
			}),
			facts.Peer{Name: "a", OS: "windows", InternalIP: "192.0.2.20", PodCIDRs: []string{"10.244.0.0/24"}, ProviderAddress: "192.0.2.20"},
		},
	} {
		if diff := cmp.Diff(c.want, peerOf(c.node)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestPeersOfTheProfile: what the profile says of a node counts, and the node itself is none of its peers.
func TestPeersOfTheProfile(t *testing.T) {
	known := []facts.Peer{
		{Name: "a", PodCIDRs: []string{"10.200.1.0/24"}, ProviderAddress: "192.0.2.20", VTEPMAC: "0a:00:00:00:00:01", VNI: 1},
		{Name: "self", PodCIDRs: []string{"10.200.2.0/24"}},
		{Name: "z", PodCIDRs: []string{"10.200.3.0/24"}, ProviderAddress: "192.0.2.21"},
	}
	before := fmt.Sprint(known)
	for name, c := range map[string]struct {
		say  v1alpha1.NetworkNode
		want facts.Peer
	}{
		"nothing":     {v1alpha1.NetworkNode{Name: "other"}, known[0]},
		"its range":   {v1alpha1.NetworkNode{Name: "a", PodCIDRs: []string{"10.200.0.0/24"}}, facts.Peer{Name: "a", PodCIDRs: []string{"10.200.0.0/24"}, ProviderAddress: "192.0.2.20", VTEPMAC: "0a:00:00:00:00:01", VNI: 1}},
		"its address": {v1alpha1.NetworkNode{Name: "a", ProviderAddress: "203.0.113.1"}, facts.Peer{Name: "a", PodCIDRs: []string{"10.200.1.0/24"}, ProviderAddress: "203.0.113.1", VTEPMAC: "0a:00:00:00:00:01", VNI: 1}},
		"its MAC":     {v1alpha1.NetworkNode{Name: "a", VTEPMAC: "0A-00-00-00-00-02"}, facts.Peer{Name: "a", PodCIDRs: []string{"10.200.1.0/24"}, ProviderAddress: "192.0.2.20", VTEPMAC: "0a:00:00:00:00:02"}},
	} {
		got := peersOf("self", known, []v1alpha1.NetworkNode{c.say})
		if diff := cmp.Diff([]facts.Peer{c.want, known[2]}, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if after := fmt.Sprint(known); after != before {
		t.Errorf("what all hosts share was changed to %s", after)
	}
}

// TestNeighborhoodSettles: however many nodes come, plans see them once in a while, and never a part of what was there.
func TestNeighborhoodSettles(t *testing.T) {
	var n neighborhood
	now, listed, size := at(), 0, 1
	list := func() ([]facts.Peer, error) {
		listed++
		return make([]facts.Peer, size), nil
	}
	look := func(want int, wantWait time.Duration) {
		t.Helper()
		got, wait, err := n.peers(now, list)
		if err != nil || len(got) != want || wait != wantWait {
			t.Errorf("%d peers, wait %s, %v; want %d, %s", len(got), wait, err, want, wantWait)
		}
	}
	// The first look waits for nothing, not even for the changes that the first list of a watch is made of.
	n.change(now)
	look(1, 0)
	look(1, 0)
	for range 1000 {
		size++
		news := n.change(now)
		if news != (size == 2) {
			t.Errorf("node %d: news %t", size, news)
		}
		look(1, settlePeers)
		now = now.Add(settlePeers / 2000)
	}
	// They settle when there was no change for a while ...
	now = now.Add(settlePeers)
	look(1001, 0)
	// ... and changes that never end hold nothing up for longer than the limit.
	began := now
	for ; now.Sub(began) < peersLimit; now = now.Add(time.Second) {
		size++
		n.change(now)
		look(1001, min(settlePeers, peersLimit-now.Sub(began)))
	}
	look(1001+int(peersLimit/time.Second), 0)
	if listed != 3 {
		t.Errorf("listed %d times", listed)
	}
	n.change(now)
	now = now.Add(settlePeers)
	broken := errors.New("cache is not there")
	if _, _, err := n.peers(now, func() ([]facts.Peer, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	look(1001+int(peersLimit/time.Second), 0)
}

// networked is a host whose mode depends on other nodes, and whose Node has a range.
func networked(mode string) func(*view) {
	return func(v *view) {
		connected(v)
		named(v)
		loaded(v)
		registered(v)
		v.profile.Spec.Network = v1alpha1.NetworkSpec{VSID: 4096}
		v.cluster.Cluster.Mode = mode
		v.cluster.Cluster.Plane = facts.Plane{Kind: facts.PlaneFlannel, VNI: 4096, Port: 4789}
		v.node.Spec.PodCIDR, v.node.Spec.PodCIDRs = "10.244.1.0/24", []string{"10.244.1.0/24"}
		v.snap.Facts.Capabilities = plan.Capabilities()
	}
}

func TestPlanHasRoutesToPeers(t *testing.T) {
	peers := func(v *view) {
		v.peers = []facts.Peer{
			{Name: "a", InternalIP: "192.0.2.20", PodCIDRs: []string{"10.244.0.0/24"}},
			{Name: "far", InternalIP: "198.51.100.1", PodCIDRs: []string{"10.244.9.0/24"}},
		}
		v.peersIn = 3 * time.Second
	}
	p := walk(aView(networked(planner.ModeL2Bridge), peers))
	if p.desired == nil {
		t.Fatalf("no plan: %+v", p.preflight)
	}
	want := []plan.Route{{Destination: "10.244.0.0/24", NextHop: "192.0.2.20"}}
	if diff := cmp.Diff(want, p.desired.plan.Routes); diff != "" {
		t.Error(diff)
	}
	says(t, p.preflight.message, "nodes far:", "route table")
	if p.again == 0 || p.again > 3*time.Second {
		t.Errorf("looks again in %s, before the peers have settled", p.again)
	}
}

func says(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in %q", w, text)
		}
	}
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFlannelLease: flannel on the Linux nodes learns of a Windows node by annotations, which stay what they are while the machine is not heard of.
func TestFlannelLease(t *testing.T) {
	reported := func(mac string) func(*view) {
		return func(v *view) {
			v.snap.Report = &plan.Report{APIVersion: plan.ReportVersion, Host: string(v.host.UID), DRMAC: mac}
		}
	}
	for name, c := range map[string]struct {
		mode  string
		edits []func(*view)
		want  map[string]string
	}{
		"vxlan": {planner.ModeFlannelVXLAN, []func(*view){reported("00:15:5d:00:00:01")}, map[string]string{
			flannelBackendType: "vxlan", flannelBackendData: `{"VNI":4096,"VtepMAC":"00:15:5d:00:00:01"}`, flannelPublicIP: "192.0.2.10", flannelManager: "true",
		}},
		"host-gw": {planner.ModeFlannelHostGW, nil, map[string]string{
			flannelBackendType: "host-gw", flannelBackendData: "null", flannelPublicIP: "192.0.2.10", flannelManager: "true",
		}},
		"before the machine has said": {planner.ModeFlannelVXLAN, nil, nil},
		"after a restart of the operator": {planner.ModeFlannelVXLAN, []func(*view){func(v *view) {
			flannelled("vxlan", `{"VNI":4096,"VtepMAC":"00:15:5d:00:00:09"}`, "192.0.2.10")(v.node)
		}}, map[string]string{
			flannelBackendType: "vxlan", flannelBackendData: `{"VNI":4096,"VtepMAC":"00:15:5d:00:00:09"}`, flannelPublicIP: "192.0.2.10", flannelManager: "true",
		}},
		"another host's report": {planner.ModeFlannelVXLAN, []func(*view){func(v *view) {
			v.snap.Report = &plan.Report{APIVersion: plan.ReportVersion, Host: "uid-b", DRMAC: "00:15:5d:00:00:01"}
		}}, nil},
		"no flannel": {planner.ModeL2Bridge, []func(*view){reported("00:15:5d:00:00:01")}, nil},
		"an overlay": {planner.ModeOverlay, []func(*view){reported("00:15:5d:00:00:01")}, nil},
	} {
		p := &pass{view: aView(append([]func(*view){networked(c.mode)}, c.edits...)...)}
		p.managementIP = "192.0.2.10"
		got := p.flannelLease()
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		p.node.Annotations = got
		if !p.hasLease() {
			t.Errorf("%s: the Node does not have what was written", name)
		}
		if len(got) > 0 {
			p.node.Annotations = nil
			if name != "after a restart of the operator" && p.hasLease() {
				t.Errorf("%s: a Node without annotations has it", name)
			}
		}
	}
}

// TestPeersChanged: one change brings every host that depends on other nodes, later; those that follow bring nobody, and neither does a heartbeat.
func TestPeersChanged(t *testing.T) {
	store := &facts.Store{}
	store.Set("bridge", facts.Discovered{Cluster: facts.Cluster{Mode: planner.ModeL2Bridge}})
	store.Set("none", facts.Discovered{Cluster: facts.Cluster{Mode: planner.ModeNone}})
	scheme := newScheme(t)
	hosts := fake.NewClientBuilder().WithScheme(scheme)
	for name, profile := range map[string]string{"a": "bridge", "b": "bridge", "c": "none", "d": "unknown"} {
		hosts = hosts.WithObjects(&v1alpha1.WindowsHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: "wmo", Name: name}, Spec: v1alpha1.WindowsHostSpec{ProfileRef: v1alpha1.ProfileReference{Name: profile}},
		})
	}
	clock := clocktesting.NewFakeClock(at())
	r := &Reconciler{Client: hosts.Build(), Facts: store, Clock: clock, Notifier: &Notifier{}}
	h := r.peersChanged()
	q := &delayed{}
	before, after := aNode("x", "192.0.2.20", "10.244.0.0/24"), aNode("x", "192.0.2.20", "10.244.0.0/24")
	after.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(at())}}
	h.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
	if len(q.added) > 0 {
		t.Errorf("a heartbeat brings %v", q.added)
	}
	after.Spec.PodCIDRs = []string{"10.244.5.0/24"}
	h.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
	if len(q.added) != 2 || q.added["a"] != settlePeers || q.added["b"] != settlePeers {
		t.Errorf("a new range brings %v", q.added)
	}
	q.added = nil
	h.Create(t.Context(), event.CreateEvent{Object: after}, q)
	h.Delete(t.Context(), event.DeleteEvent{Object: after}, q)
	if len(q.added) > 0 {
		t.Errorf("what follows brings %v", q.added)
	}
}

// delayed is a queue that notes what is added for later.
type delayed struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added map[string]time.Duration
}

func (d *delayed) AddAfter(r reconcile.Request, after time.Duration) {
	if d.added == nil {
		d.added = map[string]time.Duration{}
	}
	d.added[r.Name] = after
}

// TestGatherPeers reads Nodes where the plan depends on them only.
func TestGatherPeers(t *testing.T) {
	nodes := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(aNode("b", "192.0.2.21", "10.244.2.0/24"), aNode("win-a", "192.0.2.10", "10.244.1.0/24"), aNode("a", "192.0.2.20", "10.244.0.0/24")).Build()
	for mode, want := range map[string][]string{planner.ModeL2Bridge: {"a", "b"}, planner.ModeFlannelVXLAN: {"a", "b"}, planner.ModeNone: nil, planner.ModeCalico: nil, "": nil} {
		p := &pass{view: aView(networked(mode))}
		r := &Reconciler{Client: nodes, Notifier: &Notifier{}}
		if err := r.gatherPeers(context.Background(), p); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, peer := range p.peers {
			got = append(got, peer.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", mode, diff)
		}
	}
}
