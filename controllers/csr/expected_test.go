package csr

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/csr"
)

func addr(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

// compareAddr lets cmp look at netip.Addr and Prefix, which have unexported fields.
func compareAddr() cmp.Options {
	return cmp.Options{
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	}
}

func TestExpected(t *testing.T) {
	full := windowsHost("a", "winhost.example.test")
	full.Spec.NodeIP = "192.0.2.11"
	full.Spec.MachineRef = &v1alpha1.MachineReference{Name: "a"}
	full.Status.MachineAddresses = []string{"192.0.2.10", "win-a.example.internal", "fe80::1%eth0"}
	full.Status.Node = &v1alpha1.NodeStatus{Name: "win-a", UID: "node-1", ManagementIP: "192.0.2.12"}
	full.Status.Ticket.ApprovedCSR = "csr-0"
	bare := &v1alpha1.WindowsHost{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "host-b"}, Spec: v1alpha1.WindowsHostSpec{Address: "192.0.2.20", NodeName: "win-b"}}
	unread := &v1alpha1.WindowsHost{Spec: v1alpha1.WindowsHostSpec{MachineRef: &v1alpha1.MachineReference{Name: "c"}}}
	for _, tc := range []struct {
		name string
		host *v1alpha1.WindowsHost
		want csr.Expected
	}{
		{"all there", full, csr.Expected{
			Host: "WindowsHost a", HostUID: "host-a", NodeName: "win-a", KubeletReached: true, NodeUID: "node-1",
			TicketUser: "system:serviceaccount:windows-machine-bootstrap:host-a", TicketID: "sa-a",
			TicketExpires: clockNow().Add(20 * time.Minute), TicketApprovedCSR: "csr-0",
			Names: []string{"winhost.example.test", "win-a.example.internal"}, Addresses: addr("192.0.2.11", "192.0.2.10", "fe80::1", "192.0.2.12"),
			AddressesComplete: true, AllowLoopback: true,
		}},
		{"new", bare, csr.Expected{
			Host: "WindowsHost b", HostUID: "host-b", NodeName: "win-b", Addresses: addr("192.0.2.20"), AddressesComplete: true, AllowLoopback: true,
		}},
		{"a Machine that was not read", unread, csr.Expected{Host: "WindowsHost ", AllowLoopback: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, expected(tc.host, true), compareAddr()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestSeen(t *testing.T) {
	early, late := clockNow().Add(-time.Hour), clockNow()
	lease := func(at time.Time) *coordinationv1.Lease {
		m := metav1.NewMicroTime(at)
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &m}}
	}
	ready := func(reason string, at time.Time) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, LastHeartbeatTime: metav1.NewTime(late)},
			{Type: corev1.NodeReady, Reason: reason, LastHeartbeatTime: metav1.NewTime(at)},
		}}}
	}
	for _, tc := range []struct {
		name  string
		node  *corev1.Node
		lease *coordinationv1.Lease
		want  time.Time
	}{
		{"nothing", &corev1.Node{}, nil, time.Time{}},
		{"a lease without time", &corev1.Node{}, &coordinationv1.Lease{}, time.Time{}},
		{"lease only", &corev1.Node{}, lease(late), late},
		{"status newer", ready("KubeletReady", late), lease(early), late},
		{"lease newer", ready("KubeletReady", early), lease(late), late},
		{"stopped reporting", ready("NodeStatusUnknown", early), nil, early},
		{"never reported", ready(neverUpdated, late), nil, time.Time{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := seen(tc.node, tc.lease)
			if !got.LastSeen.Equal(tc.want) || !got.Exists {
				t.Errorf("got %+v, want %s", got, tc.want)
			}
		})
	}
}

// TestW25TwoEntriesForOneMachine: a machine that is written down twice is no stranger to itself.
func TestW25TwoEntriesForOneMachine(t *testing.T) {
	mine := windowsHost("by-name", "winhost.example.test")
	mine.Status.Node = &v1alpha1.NodeStatus{Name: "win-a", ManagementIP: "192.0.2.10"}
	twin := windowsHost("by-address", "192.0.2.10")
	twin.Status.Node = nil
	twin.Spec.NodeName = "win-a"
	other := windowsHost("win-b", "192.0.2.20")
	c := &csr.Claims{OtherNames: map[string]string{}, OtherAddresses: map[netip.Addr]string{}}
	own, _ := node("win-a", "192.0.2.10")
	linux := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "linux-1"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "192.0.2.30"}, {Type: corev1.NodeHostName, Address: "Linux-1.example.test"},
	}}}
	addOthers(c, mine, []corev1.Node{*own, linux}, []v1alpha1.WindowsHost{*mine, *twin, *other})
	want := &csr.Claims{
		OtherNames: map[string]string{"linux-1": "Node linux-1", "linux-1.example.test": "Node linux-1", "win-b": "WindowsHost win-b"},
		OtherAddresses: map[netip.Addr]string{
			netip.MustParseAddr("192.0.2.30"): "Node linux-1", netip.MustParseAddr("192.0.2.20"): "WindowsHost win-b",
		},
	}
	if diff := cmp.Diff(want, c, compareAddr()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestServerClaims(t *testing.T) {
	profile := &v1alpha1.WindowsNodeProfile{
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec:       v1alpha1.WindowsNodeProfileSpec{Cluster: v1alpha1.ClusterSpec{APIServer: "https://api-int.example.test:6443"}},
		Status:     v1alpha1.WindowsNodeProfileStatus{Discovered: &v1alpha1.DiscoveredStatus{APIServer: "https://192.0.2.4:6443", ServiceCIDRs: []string{"172.30.0.0/16"}}},
	}
	w := newWorld(t, interceptor.Funcs{}, profile,
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1", "fd00::1"}, ExternalIPs: []string{"192.0.2.10"}},
		},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "headless"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}},
		&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.2"}}},
		},
		&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}}},
	)
	want := &csr.Claims{
		ServerNames: map[string]string{"api-int.example.test": theServer, "api.example.test": theServer},
		ServerAddresses: map[netip.Addr]string{
			netip.MustParseAddr("10.96.0.1"): "Service default/kubernetes", netip.MustParseAddr("fd00::1"): "Service default/kubernetes",
			netip.MustParseAddr("192.0.2.2"): theServer, netip.MustParseAddr("192.0.2.3"): theServer, netip.MustParseAddr("192.0.2.4"): theServer,
		},
		ServerPrefixes: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("172.30.0.0/16")},
	}
	for range 3 {
		got, err := w.reconcile.server.get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, compareAddr()); diff != "" {
			t.Fatalf("-want +got\n%s", diff)
		}
	}
	if w.live["services"] != 1 {
		t.Errorf("Services were listed %d times", w.live["services"])
	}
	w.clock.SetTime(clockNow().Add(serverMaxAge))
	if _, err := w.reconcile.server.get(t.Context()); err != nil || w.live["services"] != 2 {
		t.Errorf("after a while: listed %d times, %v", w.live["services"], err)
	}
}

// What cannot be read is no reason to approve.
func TestServerClaimsFail(t *testing.T) {
	n, l := node("win-a", "192.0.2.10")
	w := newWorld(t, interceptor.Funcs{}, windowsHost("win-a", "192.0.2.10"), n, l, serving(t, "csr-1", "win-a", "192.0.2.10"))
	w.reconcile.server.extra = func(context.Context) ([]string, error) { return nil, errors.New("boom") }
	if _, err := w.reconcile.once(t.Context(), w.csr("csr-1")); err == nil {
		t.Error("no error")
	}
	w.wantVerdict("csr-1", "")
}

// endlessServices is an API server that never comes to the end of its Services.
type endlessServices struct {
	client.Reader
	pages int
}

// List implements client.Reader.
func (e *endlessServices) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	e.pages++
	services, ok := list.(*corev1.ServiceList)
	if !ok {
		return errors.New("not a list of Services")
	}
	services.Items = make([]corev1.Service, pageSize)
	services.Continue = "more"
	return nil
}

// A cluster with more Services than are looked at approves nothing, and the looking ends.
func TestTooManyServices(t *testing.T) {
	live := &endlessServices{}
	s := &serverClaims{live: live}
	err := s.services(t.Context(), &csr.Claims{ServerNames: map[string]string{}, ServerAddresses: map[netip.Addr]string{}})
	if !errors.Is(err, errTooMany) || live.pages != maxServices/pageSize+1 {
		t.Errorf("%v after %d pages", err, live.pages)
	}
}

// A long decision leaves room in an event and in a condition.
func TestMessageIsBounded(t *testing.T) {
	got := message(csr.Decision{Reason: csr.WrongSubject, Message: strings.Repeat("\u00e9", maxMessage)})
	if len(got) > maxMessage || len(got) > v1alpha1.MaxNote || !strings.HasPrefix(got, string(csr.WrongSubject)) || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %.40q", len(got), got)
	}
}

func TestPredicates(t *testing.T) {
	n, _ := node("win-a", "192.0.2.10")
	beat := n.DeepCopy()
	beat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	moved := n.DeepCopy()
	moved.Status.Addresses[0].Address = "192.0.2.11"
	claimed := n.DeepCopy()
	claimed.Annotations[v1alpha1.HostUIDAnnotation] = "other"
	for name, tc := range map[string]struct {
		node *corev1.Node
		want bool
	}{"heartbeat": {beat, false}, "address": {moved, true}, "annotation": {claimed, true}} {
		if got := nodeChanged().Update(event.UpdateEvent{ObjectOld: n, ObjectNew: tc.node}); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	p := pending()
	mine := firstClient(t, "csr-1", "win-a")
	done := mine.DeepCopy()
	done.Status.Certificate = []byte("x")
	other := mine.DeepCopy()
	other.Spec.SignerName = certificatesv1.KubeAPIServerClientSignerName
	if !p.Create(event.CreateEvent{Object: mine}) || p.Create(event.CreateEvent{Object: done}) || p.Create(event.CreateEvent{Object: other}) || p.Delete(event.DeleteEvent{Object: mine}) {
		t.Error("the wrong requests are looked at")
	}
}
