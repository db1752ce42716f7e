package ticket

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
)

func now() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// server is a fake API server: it gives accounts their UIDs and answers token requests as it is told.
type server struct {
	client.Client
	token string
	asked []int64
}

func newServer(t *testing.T, objects ...client.Object) *server {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &server{token: "canary-token"}
	s.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			o.SetUID(uuid.NewUUID())
			return c.Create(ctx, o, opts...)
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, r client.Object, opts ...client.SubResourceCreateOption) error {
			tr, ok := r.(*authenticationv1.TokenRequest)
			if sub != "token" || !ok {
				return errors.New("not a token request")
			}
			if err := c.SubResource(sub).Create(ctx, o, r, opts...); err != nil {
				return err
			}
			s.asked = append(s.asked, *tr.Spec.ExpirationSeconds)
			tr.Status = authenticationv1.TokenRequestStatus{Token: s.token, ExpirationTimestamp: metav1.NewTime(now().Add(Lifetime))}
			return nil
		},
	}).Build()
	return s
}

func (s *server) account(t *testing.T, h *v1alpha1.WindowsHost) *corev1.ServiceAccount {
	t.Helper()
	sa := &corev1.ServiceAccount{}
	err := s.Get(t.Context(), types.NamespacedName{Namespace: Namespace, Name: AccountName(h.Name, h.UID)}, sa)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return sa
}

func host() *v1alpha1.WindowsHost {
	return &v1alpha1.WindowsHost{ObjectMeta: metav1.ObjectMeta{Namespace: "windows-machine-operator", Name: "win-a", UID: "1b4e28ba-2fa1-11d2-883f-0016d3cca427"}}
}

func cluster(t *testing.T) facts.Cluster {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return facts.Cluster{
		APIServer:   "https://api-int.example.test:6443",
		APIServerCA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}
}

func TestIssue(t *testing.T) {
	s, h, c := newServer(t), host(), cluster(t)
	got, err := Issuer{Client: s}.Issue(t.Context(), h, c)
	if err != nil {
		t.Fatal(err)
	}
	sa := s.account(t, h)
	if sa == nil || sa.AutomountServiceAccountToken == nil || *sa.AutomountServiceAccountToken {
		t.Fatalf("account %+v: its token must not be mounted into pods", sa)
	}
	if sa.Annotations[v1alpha1.HostUIDAnnotation] != string(h.UID) || got.ID != string(sa.UID) || got.ServiceAccount != sa.Name {
		t.Errorf("ticket %s %s, account %s %s %v", got.ServiceAccount, got.ID, sa.Name, sa.UID, sa.Annotations)
	}
	if !got.Expires.Equal(now().Add(Lifetime)) || len(s.asked) != 1 || s.asked[0] != 1800 {
		t.Errorf("expires %s, asked for %v seconds", got.Expires, s.asked)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig([]byte(got.Kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != c.APIServer || cfg.BearerToken != "canary-token" || cfg.Insecure {
		t.Errorf("kubeconfig for %s", cfg.Host)
	}
	if diff := cmp.Diff(c.APIServerCA, cfg.CAData); diff != "" {
		t.Errorf("CA: %s", diff)
	}
}

// A further token belongs to the same ticket; a ticket whose certificate was approved is made anew, once.
func TestIssueAgain(t *testing.T) {
	s, h, c := newServer(t), host(), cluster(t)
	i := Issuer{Client: s, Reader: s}
	issue := func() Ticket {
		t.Helper()
		got, err := i.Issue(t.Context(), h, c)
		if err != nil {
			t.Fatal(err)
		}
		h.Status.Ticket = got.Status(h.Status.Ticket)
		return got
	}
	first := issue()
	if again := issue(); again.ID != first.ID {
		t.Errorf("an unused ticket was replaced")
	}
	h.Status.Ticket.ApprovedCSR = "csr-1"
	// The status of the new ticket is lost, as when the operator ends before writing it: it is not replaced once more.
	lost, err := i.Issue(t.Context(), h, c)
	if err != nil {
		t.Fatal(err)
	}
	second := issue()
	if second.ID == first.ID || second.ID == lost.ID && h.Status.Ticket.ApprovedCSR != "" {
		t.Errorf("first %s, lost %s, second %s, used for %q", first.ID, lost.ID, second.ID, h.Status.Ticket.ApprovedCSR)
	}
	if second.ID != lost.ID {
		t.Error("a ticket that nobody used was replaced")
	}
	if h.Status.Ticket.ID != second.ID || h.Status.Ticket.ApprovedCSR != "" {
		t.Errorf("status %+v", h.Status.Ticket)
	}
}

func TestStatusKeepsTheUseOfTheSameTicket(t *testing.T) {
	tk := Ticket{ServiceAccount: "a", ID: "1", Expires: now()}
	when := metav1.NewTime(now())
	if got := tk.Status(&v1alpha1.TicketStatus{ID: "1", ApprovedCSR: "csr-1", ApprovedAt: &when, ApprovedBoot: "b1"}); got.ApprovedCSR != "csr-1" || !got.ApprovedAt.Equal(&when) || got.ApprovedBoot != "b1" {
		t.Errorf("lost: %+v", got)
	}
	if got := tk.Status(&v1alpha1.TicketStatus{ID: "0", ApprovedCSR: "csr-1", ApprovedAt: &when, ApprovedBoot: "b1"}); got.ApprovedCSR != "" || got.ApprovedAt != nil || got.ApprovedBoot != "" {
		t.Errorf("carried over: %+v", got)
	}
	for name, c := range map[string]struct {
		previous v1alpha1.TicketStatus
		want     string
	}{
		"another ticket was used":                 {v1alpha1.TicketStatus{ID: "0", ApprovedCSR: "csr-1"}, "csr-1"},
		"another one, and one before it":          {v1alpha1.TicketStatus{ID: "0", ApprovedCSR: "csr-2", EarlierCSR: "csr-1"}, "csr-2"},
		"another one was not, the one before was": {v1alpha1.TicketStatus{ID: "0", EarlierCSR: "csr-1"}, "csr-1"},
		"the same, and one before it":             {v1alpha1.TicketStatus{ID: "1", ApprovedCSR: "csr-2", EarlierCSR: "csr-1"}, "csr-1"},
		"none was used":                           {v1alpha1.TicketStatus{ID: "0"}, ""},
	} {
		if got := tk.Status(&c.previous); got.EarlierCSR != c.want {
			t.Errorf("%s: earlier request %q, want %q", name, got.EarlierCSR, c.want)
		}
	}
	if got := tk.Status(nil); got.ID != "1" || got.ServiceAccount != "a" {
		t.Errorf("%+v", got)
	}
}

func TestIssueRefuses(t *testing.T) {
	good := cluster(t)
	with := func(f func(*facts.Cluster)) facts.Cluster { c := good; f(&c); return c }
	foreign := account(host())
	foreign.Annotations = nil
	for _, tc := range []struct {
		name    string
		objects []client.Object
		cluster facts.Cluster
		token   string
		want    error
	}{
		{"no API server", nil, with(func(c *facts.Cluster) { c.APIServer = "" }), "t", ErrIncomplete},
		{"plain http", nil, with(func(c *facts.Cluster) { c.APIServer = "http://192.0.2.2" }), "t", ErrIncomplete},
		{"no CA", nil, with(func(c *facts.Cluster) { c.APIServerCA = nil }), "t", ErrIncomplete},
		{"a CA that is none", nil, with(func(c *facts.Cluster) { c.APIServerCA = []byte("x") }), "t", ErrIncomplete},
		{"somebody else's account", []client.Object{foreign}, good, "t", ErrForeignAccount},
		{"no token", nil, good, "", ErrTooLarge},
		{"a huge token", nil, good, strings.Repeat("x", maxToken+1), ErrTooLarge},
		{"a huge CA", nil, with(func(c *facts.Cluster) {
			c.APIServerCA = []byte(strings.Repeat(string(good.APIServerCA), MaxKubeconfig/len(good.APIServerCA)))
		}), "t", ErrTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t, tc.objects...)
			s.token = tc.token
			got, err := Issuer{Client: s}.Issue(t.Context(), host(), tc.cluster)
			if !errors.Is(err, tc.want) || got.Kubeconfig != nil {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if err != nil && tc.token != "t" && tc.token != "" && strings.Contains(err.Error(), tc.token) {
				t.Error("the error shows the token")
			}
		})
	}
	h := host()
	h.UID = ""
	if _, err := (Issuer{Client: newServer(t)}).Issue(t.Context(), h, good); !errors.Is(err, ErrIncomplete) {
		t.Errorf("a host without UID: %v", err)
	}
}

func TestRevoke(t *testing.T) {
	s, h := newServer(t), host()
	i := Issuer{Client: s}
	if _, err := i.Issue(t.Context(), h, cluster(t)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := i.Revoke(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if s.account(t, h) != nil {
			t.Fatal("the account is still there")
		}
	}
}
