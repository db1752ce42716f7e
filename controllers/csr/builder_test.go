package csr

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/csr"
)

const operatorNamespace = "windows-machine-operator"

func clockNow() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// world is a reconciler over a fake API server that refuses stale writes and serves the indexes, and counts what is read live.
type world struct {
	t         *testing.T
	client    client.WithWatch
	clock     *clocktesting.FakePassiveClock
	recorder  *events.FakeRecorder
	registry  *prometheus.Registry
	reconcile *Reconciler
	live      map[string]int
}

// newWorld takes hooks that stand between the reconciler's writes and the API server; nil for none.
func newWorld(t *testing.T, hooks interceptor.Funcs, objects ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	base := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.WindowsHost{}, &certificatesv1.CertificateSigningRequest{}).
		WithIndex(&certificatesv1.CertificateSigningRequest{}, keysField, requestKeys).
		WithIndex(&v1alpha1.WindowsHost{}, keysField, hostKeys).Build()
	w := &world{
		t: t, client: base, clock: clocktesting.NewFakePassiveClock(clockNow()), recorder: events.NewFakeRecorder(1000),
		registry: prometheus.NewRegistry(), live: map[string]int{},
	}
	count := interceptor.NewClient(base, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			w.live[kind(obj)]++
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			w.live[kind(list)]++
			return c.List(ctx, list, opts...)
		},
	})
	r, err := NewReconciler(interceptor.NewClient(base, hooks), count, w.recorder, Options{
		Namespace: operatorNamespace, Registerer: w.registry, Clock: w.clock,
		ServerNames: func(context.Context) ([]string, error) { return []string{"api.example.test", "192.0.2.3"}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.reconcile = r
	return w
}

func kind(o runtime.Object) string {
	switch o.(type) {
	case *v1alpha1.WindowsHost:
		return "host"
	case *corev1.Node:
		return "node"
	case *coordinationv1.Lease:
		return "lease"
	case *corev1.ServiceList:
		return "services"
	case *certificatesv1.CertificateSigningRequest:
		return "csr"
	}
	return "other"
}

// run reconciles the request once.
func (w *world) run(name string) ctrl.Result {
	w.t.Helper()
	res, err := w.reconcile.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
	if err != nil {
		w.t.Fatalf("reconciling %s: %v", name, err)
	}
	return res
}

func (w *world) csr(name string) *certificatesv1.CertificateSigningRequest {
	w.t.Helper()
	o := &certificatesv1.CertificateSigningRequest{}
	if err := w.client.Get(w.t.Context(), types.NamespacedName{Name: name}, o); err != nil {
		w.t.Fatal(err)
	}
	return o
}

func (w *world) host(name string) *v1alpha1.WindowsHost {
	w.t.Helper()
	o := &v1alpha1.WindowsHost{}
	if err := w.client.Get(w.t.Context(), types.NamespacedName{Namespace: operatorNamespace, Name: name}, o); err != nil {
		w.t.Fatal(err)
	}
	return o
}

// verdict is what stands on the request: "" for pending, or the condition's type.
func (w *world) verdict(name string) string {
	w.t.Helper()
	switch c := w.csr(name).Status.Conditions; len(c) {
	case 0:
		return ""
	case 1:
		return string(c[0].Type)
	default:
		w.t.Fatalf("%s has %d conditions", name, len(c))
		return ""
	}
}

func (w *world) wantVerdict(name, want string) {
	w.t.Helper()
	if got := w.verdict(name); got != want {
		w.t.Errorf("%s: got %q, want %q (%v)", name, got, want, w.csr(name).Status.Conditions)
	}
}

// events empties the recorder.
func (w *world) events() []string {
	var out []string
	for {
		select {
		case e := <-w.recorder.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// windowsHost is a host whose kubelet was started and whose ticket is open.
func windowsHost(name, address string) *v1alpha1.WindowsHost {
	started := metav1.NewTime(clockNow().Add(-time.Minute))
	return &v1alpha1.WindowsHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: name, UID: types.UID("host-" + name)},
		Spec:       v1alpha1.WindowsHostSpec{Address: address},
		Status: v1alpha1.WindowsHostStatus{
			Node:   &v1alpha1.NodeStatus{Name: name, ManagementIP: address},
			BootID: "b1",
			Plan:   &v1alpha1.PlanStatus{KubeletStarted: &started},
			Ticket: &v1alpha1.TicketStatus{
				ServiceAccount: "host-" + name, ID: "sa-" + name, Expires: metav1.NewTime(clockNow().Add(20 * time.Minute)),
			},
		},
	}
}

// node is the registered Node of windowsHost(name), alive.
func node(name, address string) (*corev1.Node, *coordinationv1.Lease) {
	renewed := metav1.NewMicroTime(clockNow().Add(-5 * time.Second))
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("node-" + name), Annotations: map[string]string{v1alpha1.HostUIDAnnotation: "host-" + name},
		},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
	}
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed},
	}
	return n, l
}

func request(t *testing.T, name, cn string, dns []string, addresses ...string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.CertificateRequest{Subject: pkix.Name{CommonName: cn, Organization: []string{csr.NodesGroup}}, DNSNames: dns}
	for _, a := range addresses {
		tmpl.IPAddresses = append(tmpl.IPAddresses, net.ParseIP(a))
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, tmpl, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(clockNow().Add(-10 * time.Second))},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	}
}

// firstClient is what the kubelet of the node sends with the ticket of its host.
func firstClient(t *testing.T, name, nodeName string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	o := request(t, name, csr.NodePrefix+nodeName, nil)
	o.Spec.SignerName = certificatesv1.KubeAPIServerClientKubeletSignerName
	o.Spec.Username, o.Spec.UID = csr.TicketUser("host-"+nodeName), "sa-"+nodeName
	o.Spec.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + csr.BootstrapNamespace, "system:authenticated"}
	o.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	return o
}

// serving is what the registered kubelet of the node sends for its own names.
func serving(t *testing.T, name, nodeName string, addresses ...string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	o := request(t, name, csr.NodePrefix+nodeName, []string{nodeName}, addresses...)
	o.Spec.SignerName = certificatesv1.KubeletServingSignerName
	o.Spec.Username = csr.NodePrefix + nodeName
	o.Spec.Groups = []string{csr.NodesGroup, "system:authenticated"}
	o.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	return o
}
