package csr

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	controller "github.com/windowsmachine/operator/controllers/csr"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/csr"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/ticket"
	"github.com/windowsmachine/operator/test/controlplane"
)

const (
	operatorNamespace = "windows-machine-operator"
	root              = "../../../"
	patience          = 60 * time.Second
)

// env is a control plane with the operator's manifests.
type env struct {
	t      *testing.T
	cp     *controlplane.ControlPlane
	admin  client.Client
	issuer ticket.Issuer
	facts  facts.Cluster
}

func newEnv(t *testing.T) *env {
	t.Helper()
	log.SetLogger(logr.Discard())
	cp := controlplane.StartForTest(t, controlplane.Options{})
	e := &env{t: t, cp: cp, facts: facts.Cluster{APIServer: cp.URL(), APIServerCA: cp.CA()}}
	if err := cp.InstallCRDs(t.Context(), root+"config/crd/bases"); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"manager/namespace.yaml", "manager/service_account.yaml", "rbac/bootstrap.yaml", "rbac/role.yaml", "rbac/bindings.yaml"} {
		b, err := os.ReadFile(root + "config/" + f)
		if err != nil {
			t.Fatal(err)
		}
		if err := cp.Apply(t.Context(), b); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
	}
	e.admin = e.client(cp.RESTConfig())
	operator := e.client(e.operator())
	e.issuer = ticket.Issuer{Client: operator}
	return e
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (e *env) client(cfg *rest.Config) client.Client {
	e.t.Helper()
	c, err := client.New(cfg, client.Options{Scheme: scheme(e.t)})
	if err != nil {
		e.t.Fatal(err)
	}
	return c
}

// operator is the configuration of the operator's own service account.
func (e *env) operator() *rest.Config {
	e.t.Helper()
	b, err := e.cp.ServiceAccountKubeconfig(e.t.Context(), operatorNamespace, "windows-machine-operator")
	if err != nil {
		e.t.Fatal(err)
	}
	return e.config(b)
}

func (e *env) config(kubeconfig []byte) *rest.Config {
	e.t.Helper()
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		e.t.Fatal(err)
	}
	cfg.QPS, cfg.Burst = 200, 400
	return cfg
}

// startOperator runs the reconciler until the test ends or the returned function is called.
func (e *env) startOperator() (stop func()) {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.t.Context())
	mgr, err := ctrl.NewManager(e.operator(), ctrl.Options{
		Scheme: scheme(e.t), Metrics: server.Options{BindAddress: "0"}, Logger: logr.Discard(),
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		e.t.Fatal(err)
	}
	if err := controller.Setup(ctx, mgr, controller.Options{Namespace: operatorNamespace, Registerer: prometheus.NewRegistry()}); err != nil {
		e.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			e.t.Errorf("the manager ended: %v", err)
		}
	}
	e.t.Cleanup(stop)
	return stop
}

// host makes a WindowsHost whose plan has reached the kubelet, with a ticket, and returns the ticket's client.
func (e *env) host(name, address string) (*v1alpha1.WindowsHost, client.Client) {
	e.t.Helper()
	h := &v1alpha1.WindowsHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: name},
		Spec:       v1alpha1.WindowsHostSpec{Address: address, ProfileRef: v1alpha1.ProfileReference{Name: v1alpha1.DefaultProfile}},
	}
	if err := e.admin.Create(e.t.Context(), h); err != nil {
		e.t.Fatal(err)
	}
	return h, e.ticket(h)
}

// ticket issues the host's ticket, or a new one, and writes the status as the host controller does.
func (e *env) ticket(h *v1alpha1.WindowsHost) client.Client {
	e.t.Helper()
	if err := e.admin.Get(e.t.Context(), client.ObjectKeyFromObject(h), h); err != nil {
		e.t.Fatal(err)
	}
	tk, err := e.issuer.Issue(e.t.Context(), h, e.facts)
	if err != nil {
		e.t.Fatal(err)
	}
	h.Status.Ticket = tk.Status(h.Status.Ticket)
	if h.Status.Node == nil {
		h.Status.Node = &v1alpha1.NodeStatus{Name: h.Name, ManagementIP: h.Spec.Address}
	}
	h.Status.Plan = &v1alpha1.PlanStatus{KubeletStarted: ptr.To(metav1.Now())}
	if err := e.admin.Status().Update(e.t.Context(), h); err != nil {
		e.t.Fatal(err)
	}
	return e.client(e.config([]byte(tk.Kubeconfig)))
}

// registered makes the host's Node with the node's own certificate, and records it as the host controller does.
func (e *env) registered(h *v1alpha1.WindowsHost, node client.Client) {
	e.t.Helper()
	ctx := e.t.Context()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.Name}}
	if err := node.Create(ctx, n); err != nil {
		e.t.Fatal(err)
	}
	before := n.DeepCopy()
	n.Annotations = map[string]string{v1alpha1.HostUIDAnnotation: string(h.UID)}
	if err := e.admin.Patch(ctx, n, client.MergeFrom(before)); err != nil {
		e.t.Fatal(err)
	}
	if err := e.admin.Get(ctx, client.ObjectKeyFromObject(h), h); err != nil {
		e.t.Fatal(err)
	}
	h.Status.Node.UID = string(n.UID)
	if err := e.admin.Status().Update(ctx, h); err != nil {
		e.t.Fatal(err)
	}
}

// node is the client of a node's user with a certificate that did not come from the operator.
func (e *env) node(name string) client.Client {
	e.t.Helper()
	return e.user(csr.NodePrefix+name, csr.NodesGroup)
}

func (e *env) user(name string, groups ...string) client.Client {
	e.t.Helper()
	cfg, err := e.cp.UserConfig(name, groups...)
	if err != nil {
		e.t.Fatal(err)
	}
	return e.client(cfg)
}

// requester is a user who may send certificate requests and is in no group.
func (e *env) requester(name string) client.Client {
	e.t.Helper()
	b := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "requester-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
	}
	if err := e.admin.Create(e.t.Context(), b); err != nil {
		e.t.Fatal(err)
	}
	c := e.user(name)
	// The authorizer sees a new binding a moment later.
	err := wait.PollUntilContextTimeout(e.t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		return c.List(ctx, &certificatesv1.CertificateSigningRequestList{}, client.Limit(1)) == nil, nil
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return c
}

// want is a request to be sent.
type want struct {
	name      string
	cn        string
	org       []string
	signer    string
	usages    []certificatesv1.KeyUsage
	dns       []string
	addresses []string
}

func clientOf(name, node string) want {
	return want{
		name: name, cn: csr.NodePrefix + node, org: []string{csr.NodesGroup}, signer: certificatesv1.KubeAPIServerClientKubeletSignerName,
		usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
	}
}

func servingOf(name, node string, addresses ...string) want {
	return want{
		name: name, cn: csr.NodePrefix + node, org: []string{csr.NodesGroup}, signer: certificatesv1.KubeletServingSignerName,
		usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		dns:    []string{node}, addresses: addresses,
	}
}

// send creates the request as the user and returns its key.
func (e *env) send(as client.Client, w want) crypto.Signer {
	e.t.Helper()
	o, key := e.make(w)
	if err := as.Create(e.t.Context(), o); err != nil {
		e.t.Fatalf("sending %s: %v", w.name, err)
	}
	return key
}

// try returns what the API server says to the request.
func (e *env) try(as client.Client, w want) error {
	e.t.Helper()
	o, _ := e.make(w)
	return as.Create(e.t.Context(), o)
}

func (e *env) make(w want) (*certificatesv1.CertificateSigningRequest, crypto.Signer) {
	e.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		e.t.Fatal(err)
	}
	tmpl := &x509.CertificateRequest{Subject: pkix.Name{CommonName: w.cn, Organization: w.org}, DNSNames: w.dns}
	for _, a := range w.addresses {
		tmpl.IPAddresses = append(tmpl.IPAddresses, net.ParseIP(a))
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, tmpl, key)
	if err != nil {
		e.t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: w.signer, Usages: w.usages,
		},
	}, key
}

func (e *env) get(name string) *certificatesv1.CertificateSigningRequest {
	e.t.Helper()
	o := &certificatesv1.CertificateSigningRequest{}
	if err := e.admin.Get(e.t.Context(), types.NamespacedName{Name: name}, o); err != nil {
		e.t.Fatal(err)
	}
	return o
}

// eventually waits until the request is as the test wants it.
func (e *env) eventually(name, what string, ok func(*certificatesv1.CertificateSigningRequest) bool) *certificatesv1.CertificateSigningRequest {
	e.t.Helper()
	var o *certificatesv1.CertificateSigningRequest
	err := wait.PollUntilContextTimeout(e.t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		o = e.get(name)
		return ok(o), nil
	})
	if err != nil {
		e.t.Fatalf("%s was not %s: %v, %+v", name, what, err, o.Status.Conditions)
	}
	return o
}

// issued waits for the certificate and returns a client configuration that uses it.
func (e *env) issued(name string, key crypto.Signer) *rest.Config {
	e.t.Helper()
	o := e.eventually(name, "issued", func(o *certificatesv1.CertificateSigningRequest) bool { return len(o.Status.Certificate) > 0 })
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		e.t.Fatal(err)
	}
	return &rest.Config{Host: e.cp.URL(), TLSClientConfig: rest.TLSClientConfig{
		CAData: e.cp.CA(), CertData: o.Status.Certificate, KeyData: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}}
}

func (e *env) denied(name string, reason csr.Reason) {
	e.t.Helper()
	o := e.eventually(name, "decided", func(o *certificatesv1.CertificateSigningRequest) bool { return len(o.Status.Conditions) > 0 })
	c := o.Status.Conditions[0]
	if c.Type != certificatesv1.CertificateDenied || c.Reason != v1alpha1.FieldManager || len(c.Message) < len(reason) || c.Message[:len(reason)] != string(reason) {
		e.t.Errorf("%s: got %s %s %q, want a denial for %s", name, c.Type, c.Reason, c.Message, reason)
	}
	if len(o.Status.Certificate) > 0 {
		e.t.Errorf("%s was signed", name)
	}
}

// pending checks that nothing was decided.
func (e *env) pending(names ...string) {
	e.t.Helper()
	for _, name := range names {
		if o := e.get(name); len(o.Status.Conditions) > 0 || len(o.Status.Certificate) > 0 {
			e.t.Errorf("%s: %+v", name, o.Status.Conditions)
		}
	}
}

// with returns a copy of the environment that reports to a subtest.
func (e *env) with(t *testing.T) *env {
	c := *e
	c.t = t
	return &c
}
