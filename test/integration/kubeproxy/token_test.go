package kubeproxy

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	product "github.com/windowsmachine/operator/pkg/kubeproxy"
	"github.com/windowsmachine/operator/pkg/proxytoken"
	"github.com/windowsmachine/operator/test/controlplane"
)

const (
	namespace = "windows-machine-operator"
	root      = "../../../config/"
	patience  = 60 * time.Second
)

// env is a control plane with the operator's manifests and the Node of a Windows machine.
type env struct {
	t      *testing.T
	cp     *controlplane.ControlPlane
	admin  kubernetes.Interface
	issuer proxytoken.Issuer
	server string
	node   *corev1.Node
}

func newEnv(t *testing.T, args ...string) *env {
	t.Helper()
	e := &env{t: t, cp: controlplane.StartForTest(t, controlplane.Options{APIServerArgs: args})}
	files, err := filepath.Glob(root + "rbac/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == "kustomization.yaml" })
	for _, f := range append([]string{root + "manager/namespace.yaml", root + "manager/service_account.yaml", root + "rbac/bootstrap.yaml"}, files...) {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.cp.Apply(t.Context(), b); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
	}
	e.admin = clientset(t, e.cp.RESTConfig())
	v, err := e.admin.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	e.server = v.GitVersion
	if e.node, err = e.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(e.operator(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e.issuer = proxytoken.Issuer{Client: c, Namespace: namespace}
	return e
}

func clientset(t *testing.T, c *rest.Config) kubernetes.Interface {
	t.Helper()
	out, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// operator is the configuration of the operator's own service account.
func (e *env) operator() *rest.Config {
	e.t.Helper()
	b, err := e.cp.ServiceAccountKubeconfig(e.t.Context(), namespace, "windows-machine-operator")
	if err != nil {
		e.t.Fatal(err)
	}
	c, err := clientcmd.RESTConfigFromKubeConfig(b)
	if err != nil {
		e.t.Fatal(err)
	}
	return c
}

func (e *env) issue() proxytoken.Token {
	e.t.Helper()
	got, err := e.issuer.Issue(e.t.Context(), proxytoken.Node{Name: e.node.Name, UID: e.node.UID}, e.server, time.Now())
	if err != nil {
		e.t.Fatal(err)
	}
	return got
}

// proxy is a client with the kubeconfig that the machine gets, and the token in the file that it names.
func (e *env) proxy(t proxytoken.Token) kubernetes.Interface {
	e.t.Helper()
	file := filepath.Join(e.t.TempDir(), "kube-proxy.token")
	if err := os.WriteFile(file, t.Value, 0o600); err != nil {
		e.t.Fatal(err)
	}
	b, err := product.Kubeconfig(e.cp.URL(), e.cp.CA(), file)
	if err != nil {
		e.t.Fatal(err)
	}
	c, err := clientcmd.RESTConfigFromKubeConfig(b)
	if err != nil {
		e.t.Fatal(err)
	}
	return clientset(e.t, c)
}

// A token has the life that was asked for, may do what kube-proxy needs and nothing else, and ends with its Node.
func TestToken(t *testing.T) {
	e := newEnv(t)
	token := e.issue()
	if token.Lifetime != proxytoken.Lifetime || token.NodeUID != string(e.node.UID) || proxytoken.Short(token.Status()) {
		t.Errorf("granted %s, bound to %q", token.Lifetime, token.NodeUID)
	}
	if left := time.Until(token.Expires); left < proxytoken.Lifetime-time.Minute || left > proxytoken.Lifetime+time.Minute {
		t.Errorf("ends in %s", left)
	}
	proxy := e.proxy(token)
	self, err := proxy.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || self.Status.UserInfo.Username != "system:serviceaccount:windows-machine-operator:windows-kube-proxy" {
		t.Fatalf("is %q, %v", self.Status.UserInfo.Username, err)
	}
	if got := self.Status.UserInfo.Extra["authentication.kubernetes.io/node-name"]; !slices.Equal(got, []string{e.node.Name}) {
		t.Errorf("audit logs see Node %q", got)
	}
	if _, err := proxy.CoreV1().Services("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := proxy.DiscoveryV1().EndpointSlices("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := proxy.CoreV1().Nodes().Get(t.Context(), e.node.Name, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	for what, a := range map[string]authorizationv1.ResourceAttributes{
		"read Secrets":            {Verb: "get", Resource: "secrets", Namespace: namespace, Name: "x"},
		"list Secrets":            {Verb: "list", Resource: "secrets"},
		"read ConfigMaps":         {Verb: "get", Resource: "configmaps", Namespace: "kube-system"},
		"list pods":               {Verb: "list", Resource: "pods"},
		"make pods":               {Verb: "create", Resource: "pods", Namespace: namespace},
		"change Nodes":            {Verb: "patch", Resource: "nodes"},
		"delete Nodes":            {Verb: "delete", Resource: "nodes"},
		"change Services":         {Verb: "update", Resource: "services"},
		"make tokens":             {Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: namespace, Name: proxytoken.Account},
		"ask for certificates":    {Verb: "create", Group: "certificates.k8s.io", Resource: "certificatesigningrequests"},
		"approve certificates":    {Verb: "update", Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Subresource: "approval"},
		"use kubelets":            {Verb: "get", Resource: "nodes", Subresource: "proxy"},
		"read WindowsHosts":       {Verb: "get", Group: "windowsmachine.dev", Resource: "windowshosts", Namespace: namespace},
		"change ClusterRoles":     {Verb: "update", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		"impersonate a user":      {Verb: "impersonate", Resource: "users"},
		"take the operator's job": {Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: namespace},
	} {
		review, err := proxy.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
			&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed {
			t.Errorf("may %s: %s", what, review.Status.Reason)
		}
	}
	// A new token does not end the old one, so that there is no gap.
	if _, err := e.proxy(e.issue()).CoreV1().Services("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := proxy.CoreV1().Services("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if err := e.admin.CoreV1().Nodes().Delete(t.Context(), e.node.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The API server remembers for some seconds whom a token belongs to.
	err = wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		_, err := proxy.CoreV1().Services("").List(ctx, metav1.ListOptions{})
		return apierrors.IsUnauthorized(err), nil
	})
	if err != nil {
		t.Errorf("the token outlives its Node: %v", err)
	}
	if _, err := e.issuer.Issue(t.Context(), proxytoken.Node{Name: e.node.Name, UID: e.node.UID}, e.server, time.Now()); !apierrors.IsNotFound(err) {
		t.Errorf("a token for a Node that is gone: %v", err)
	}
}

// The operator may make tokens of this account and of no other one in its namespace.
func TestOperatorMakesTokensOfThisAccountOnly(t *testing.T) {
	e := newEnv(t)
	operator := clientset(t, e.operator())
	for name, want := range map[string]bool{proxytoken.Account: true, "windows-machine-operator": false, "default": false} {
		_, err := operator.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if got := err == nil; got != want || !want && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := e.issuer.Issue(t.Context(), proxytoken.Node{Name: e.node.Name, UID: "another"}, e.server, time.Now()); !apierrors.IsConflict(err) {
		t.Errorf("a Node that was made anew: %v", err)
	}
}

// What an API server grants that allows less is seen, and is what the token really has.
func TestShorterLife(t *testing.T) {
	e := newEnv(t, "--service-account-max-token-expiration=1h")
	token := e.issue()
	if token.Lifetime != time.Hour || !proxytoken.Short(token.Status()) {
		t.Fatalf("granted %s", token.Lifetime)
	}
	if left := time.Until(token.Expires); left > time.Hour+time.Minute {
		t.Errorf("ends in %s", left)
	}
	if due := proxytoken.Due(token.Status(), string(e.node.UID)); !due.IsZero() {
		t.Errorf("not handed over, and due %s", due)
	}
	s := token.Status()
	now := metav1.Now()
	s.HandedOver = &now
	if left := time.Until(proxytoken.Due(s, string(e.node.UID))); left > 20*time.Minute || left < 19*time.Minute {
		t.Errorf("replaced in %s", left)
	}
}
