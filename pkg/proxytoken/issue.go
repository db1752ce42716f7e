package proxytoken

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/kubelet"
	"github.com/windowsmachine/operator/pkg/ticket"
)

const (
	// Account is the ServiceAccount in the operator's namespace; config/rbac/kube-proxy.yaml makes it.
	Account = "windows-kube-proxy"
	// Lifetime is asked for each token.
	Lifetime = 90 * 24 * time.Hour

	maxToken = 16 << 10
)

// ErrToken: the API server answered with something that is no token.
var ErrToken = errors.New("no usable token")

// Node is what a token is bound to.
type Node struct {
	Name string
	UID  types.UID
}

// Token is a credential with what is known of it.
type Token struct {
	// Value is the token itself.
	Value ticket.Secret
	// Issued by the operator's clock, Expires by the API server's.
	Issued, Expires time.Time
	// Lifetime that was granted.
	Lifetime time.Duration
	// NodeUID is the UID of the Node that the token ends with, "" when it is bound to none.
	NodeUID string
}

// Status returns the token as it stands in status.kubeProxyToken before the machine has it.
func (t Token) Status() *v1alpha1.KubeProxyTokenStatus {
	return &v1alpha1.KubeProxyTokenStatus{
		Issued: metav1.NewMicroTime(t.Issued), Expires: metav1.NewTime(t.Expires), LifetimeSeconds: int64(t.Lifetime / time.Second), NodeUID: t.NodeUID,
	}
}

// Issuer makes tokens.
type Issuer struct {
	// Client may create tokens of Account in Namespace.
	Client client.Client
	// Namespace of the operator.
	Namespace string
}

// Issue returns a new token for the kube-proxy of a node. server is the API server's version, "" when it is not known. Errors are those of the API
// server, and ErrToken; none of them holds the token.
func (i Issuer) Issue(ctx context.Context, node Node, server string, now time.Time) (Token, error) {
	var errs []error
	for _, bound := range Bindings(server) {
		t, err := i.request(ctx, node, bound, now)
		if err == nil {
			return t, nil
		}
		errs = append(errs, err)
		// A server that cannot bind tokens to Nodes says so with "bad request" (pkg/registry/core/serviceaccount/storage/token.go).
		if !apierrors.IsBadRequest(err) {
			break
		}
	}
	return Token{}, fmt.Errorf("requesting a token for account %s/%s: %w", i.Namespace, Account, errors.Join(errs...))
}

// Bindings says, in the order of the attempts, whether a token is asked for that is bound to the Node. Servers can from 1.29 on with a feature
// gate, which is on from 1.31 on and cannot be turned off from 1.33 on (ServiceAccountTokenNodeBinding in pkg/features/kube_features.go); from
// then on there is no falling back to a token that outlives its Node.
func Bindings(server string) []bool {
	v, err := kubelet.ParseVersion(server)
	switch {
	case err == nil && v.Before(1, 29):
		return []bool{false}
	case err == nil && !v.Before(1, 33):
		return []bool{true}
	}
	return []bool{true, false}
}

func (i Issuer) request(ctx context.Context, node Node, bound bool, now time.Time) (Token, error) {
	seconds := int64(Lifetime / time.Second)
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	out := Token{Issued: now}
	if bound {
		req.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: node.Name, UID: node.UID}
		out.NodeUID = string(node.UID)
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: Account}}
	if err := i.Client.SubResource("token").Create(ctx, sa, req); err != nil {
		return Token{}, err
	}
	out.Value, out.Expires = ticket.Secret(req.Status.Token), req.Status.ExpirationTimestamp.Time
	if n := len(out.Value); n == 0 || n > maxToken {
		return Token{}, fmt.Errorf("%w: %d bytes, must be 1 to %d", ErrToken, n, maxToken)
	}
	// The answer's spec has what was granted.
	if s := req.Spec.ExpirationSeconds; s != nil {
		out.Lifetime = time.Duration(*s) * time.Second
	}
	if out.Lifetime <= 0 {
		return Token{}, fmt.Errorf("%w: its lifetime is %s", ErrToken, out.Lifetime)
	}
	return out, nil
}
