package proxytoken

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

func now() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// server answers requests for tokens as the API server does: what is granted stands in the answer's spec.
type server struct {
	// granted at most, 0 is no limit.
	granted time.Duration
	// refuse is the answer to a request for a token that is bound to a Node.
	refuse error
	token  string
	asked  []authenticationv1.TokenRequestSpec
	names  []string
}

func (s *server) issuer(t *testing.T) Issuer {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, sub string, o, r client.Object, _ ...client.SubResourceCreateOption) error {
			req, ok := r.(*authenticationv1.TokenRequest)
			if _, sa := o.(*corev1.ServiceAccount); !ok || !sa || sub != "token" {
				return errors.New("not a request for a token")
			}
			s.asked, s.names = append(s.asked, *req.Spec.DeepCopy()), append(s.names, o.GetNamespace()+"/"+o.GetName())
			if req.Spec.BoundObjectRef != nil && s.refuse != nil {
				return s.refuse
			}
			life := time.Duration(*req.Spec.ExpirationSeconds) * time.Second
			if s.granted != 0 {
				life = min(life, s.granted)
			}
			seconds := int64(life / time.Second)
			req.Spec.ExpirationSeconds = &seconds
			req.Status = authenticationv1.TokenRequestStatus{Token: s.token, ExpirationTimestamp: metav1.NewTime(now().Add(life))}
			return nil
		},
	}).Build()
	return Issuer{Client: c, Namespace: "windows-machine-operator"}
}

func node() Node { return Node{Name: "win-1", UID: "u1"} }

func TestIssue(t *testing.T) {
	s := &server{token: "canary"}
	got, err := s.issuer(t).Issue(t.Context(), node(), "v1.37.2", now())
	if err != nil {
		t.Fatal(err)
	}
	if string([]byte(got.Value)) != "canary" || got.Lifetime != Lifetime || !got.Expires.Equal(now().Add(Lifetime)) || got.NodeUID != "u1" {
		t.Errorf("%+v", got)
	}
	seconds := int64(7776000)
	want := []authenticationv1.TokenRequestSpec{{
		ExpirationSeconds: &seconds, BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: "win-1", UID: "u1"},
	}}
	if diff := cmp.Diff(want, s.asked); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"windows-machine-operator/windows-kube-proxy"}, s.names); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(fmt.Sprintf("%+v %v", got, got.Status()), "canary") {
		t.Error("the token is shown")
	}
	if st := got.Status(); st.LifetimeSeconds != 7776000 || st.NodeUID != "u1" || st.HandedOver != nil || Short(st) {
		t.Errorf("%+v", st)
	}
}

// An API server with --service-account-max-token-expiration grants less, and its word counts.
func TestIssueShort(t *testing.T) {
	s := &server{token: "canary", granted: time.Hour}
	got, err := s.issuer(t).Issue(t.Context(), node(), "v1.37.2", now())
	if err != nil {
		t.Fatal(err)
	}
	if got.Lifetime != time.Hour || !Short(got.Status()) {
		t.Errorf("%s, short %t", got.Lifetime, Short(got.Status()))
	}
}

func TestIssueFallsBack(t *testing.T) {
	bad := apierrors.NewBadRequest(`cannot bind token to a Node object as the "ServiceAccountTokenNodeBinding" feature-gate is disabled`)
	forbidden := apierrors.NewForbidden(corev1.Resource("serviceaccounts"), Account, nil)
	for _, tc := range []struct {
		name, version string
		refuse        error
		want          error
		asked         int
		bound         bool
	}{
		{"before there was binding", "v1.28.3", bad, nil, 1, false},
		{"gate off", "v1.30.14", bad, nil, 2, false},
		{"gate on", "v1.31.14", nil, nil, 1, true},
		{"turned off", "v1.32.9", bad, nil, 2, false},
		{"version unknown", "", bad, nil, 2, false},
		{"never from 1.33 on", "v1.33.5", bad, bad, 1, false},
		{"not allowed", "v1.30.14", forbidden, forbidden, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &server{token: "canary", refuse: tc.refuse}
			got, err := s.issuer(t).Issue(t.Context(), node(), tc.version, now())
			if !errors.Is(err, tc.want) || len(s.asked) != tc.asked || (got.NodeUID != "") != tc.bound {
				t.Errorf("%v after %d requests, bound to %q", err, len(s.asked), got.NodeUID)
			}
			if err == nil && len(got.Value) == 0 {
				t.Error("no token")
			}
		})
	}
}

func TestIssueRefusesWhatIsNoToken(t *testing.T) {
	for name, token := range map[string]string{"none": "", "huge": strings.Repeat("x", maxToken+1)} {
		s := &server{token: token}
		got, err := s.issuer(t).Issue(t.Context(), node(), "v1.37.2", now())
		if !errors.Is(err, ErrToken) || got.Value != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "xxx") {
			t.Errorf("%s: the error shows the token", name)
		}
	}
	// A lifetime of nothing would be asked for again and again.
	s := &server{token: "canary", granted: time.Nanosecond}
	if _, err := s.issuer(t).Issue(t.Context(), node(), "v1.37.2", now()); !errors.Is(err, ErrToken) {
		t.Errorf("no lifetime: %v", err)
	}
}

func TestDue(t *testing.T) {
	status := func(bend func(*v1alpha1.KubeProxyTokenStatus)) *v1alpha1.KubeProxyTokenStatus {
		when := metav1.NewTime(now())
		s := &v1alpha1.KubeProxyTokenStatus{
			Issued: metav1.NewMicroTime(now()), Expires: metav1.NewTime(now().Add(Lifetime)), LifetimeSeconds: int64(Lifetime / time.Second),
			NodeUID: "u1", HandedOver: &when,
		}
		if bend != nil {
			bend(s)
		}
		return s
	}
	for _, tc := range []struct {
		name string
		s    *v1alpha1.KubeProxyTokenStatus
		want time.Time
	}{
		{"none yet", nil, time.Time{}},
		{"never arrived", status(func(s *v1alpha1.KubeProxyTokenStatus) { s.HandedOver = nil }), time.Time{}},
		{"another Node", status(func(s *v1alpha1.KubeProxyTokenStatus) { s.NodeUID = "u0" }), time.Time{}},
		{"bound to none", status(func(s *v1alpha1.KubeProxyTokenStatus) { s.NodeUID = "" }), now().Add(30 * 24 * time.Hour)},
		{"a third of 90 days", status(nil), now().Add(30 * 24 * time.Hour)},
		{"a third of what was granted", status(func(s *v1alpha1.KubeProxyTokenStatus) { s.LifetimeSeconds = 3600 }), now().Add(20 * time.Minute)},
	} {
		if got := Due(tc.s, "u1"); !got.Equal(tc.want) {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	if Ended(nil, now()) || Ended(status(nil), now().Add(Lifetime-time.Second)) || !Ended(status(nil), now().Add(Lifetime)) {
		t.Error("Ended")
	}
}
