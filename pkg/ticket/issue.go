package ticket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
)

const (
	// Lifetime is asked for each token. The API server gives at least 600 seconds and may give another time.
	Lifetime = 30 * time.Minute
	// MaxKubeconfig bounds the kubeconfig, in bytes; a CA bundle is the large part of it.
	MaxKubeconfig = 64 << 10

	maxToken = 16 << 10
)

var (
	// ErrForeignAccount: an account of the host's name exists and was not made for this host.
	ErrForeignAccount = errors.New("the account belongs to another host")
	// ErrIncomplete: the cluster's facts lack what a kubeconfig needs.
	ErrIncomplete = errors.New("cluster facts are missing")
	// ErrTooLarge: what the API server answered, or the kubeconfig made of it, is above its bound.
	ErrTooLarge = errors.New("larger than allowed")
)

// Ticket is a bootstrap credential that is out.
type Ticket struct {
	// ServiceAccount is the account's name in Namespace, ID its UID. Both go to status.ticket before the kubeconfig goes to
	// the machine; a status.ticket whose ID changes starts with an empty approvedCSR.
	ServiceAccount string
	ID             string
	// Expires is when the token ends, as the API server says.
	Expires time.Time
	// Kubeconfig is the bootstrap kubeconfig with the token.
	Kubeconfig Secret
}

// Status returns the ticket as it stands in status.ticket: the use of previous is kept as long as it is the same ticket,
// and remembered when it is another one.
func (t Ticket) Status(previous *v1alpha1.TicketStatus) *v1alpha1.TicketStatus {
	out := &v1alpha1.TicketStatus{ServiceAccount: t.ServiceAccount, ID: t.ID, Expires: metav1.NewTime(t.Expires)}
	if previous == nil {
		return out
	}
	out.EarlierCSR = previous.EarlierCSR
	if previous.ID != t.ID {
		out.EarlierCSR = cmp.Or(previous.ApprovedCSR, previous.EarlierCSR)
		return out
	}
	out.ApprovedCSR, out.ApprovedAt, out.ApprovedBoot = previous.ApprovedCSR, previous.ApprovedAt, previous.ApprovedBoot
	return out
}

// Issuer makes tickets.
type Issuer struct {
	// Client writes; it needs rights in Namespace only (rbac.go).
	Client client.Client
	// Reader reads accounts; Client when nil. A manager's API reader keeps all accounts of the cluster out of its cache.
	Reader client.Reader
}

func (i Issuer) reader() client.Reader {
	if i.Reader != nil {
		return i.Reader
	}
	return i.Client
}

// Issue makes the host's ticket, or a further token for the one that is out. A ticket whose certificate was approved
// (status.ticket.approvedCSR) is spent: its account is deleted, which ends its tokens, and made again. Issue may be called again
// after any failure.
func (i Issuer) Issue(ctx context.Context, host *v1alpha1.WindowsHost, cluster facts.Cluster) (Ticket, error) {
	if err := complete(host, cluster); err != nil {
		return Ticket{}, err
	}
	sa, err := i.ensure(ctx, host)
	if err != nil {
		return Ticket{}, fmt.Errorf("making account %s/%s: %w", Namespace, AccountName(host.Name, host.UID), err)
	}
	token, expires, err := i.token(ctx, sa)
	if err != nil {
		return Ticket{}, fmt.Errorf("requesting a token for account %s/%s: %w", Namespace, sa.Name, err)
	}
	kubeconfig, err := render(cluster, sa.Name, token)
	if err != nil {
		return Ticket{}, fmt.Errorf("writing the bootstrap kubeconfig: %w", err)
	}
	return Ticket{ServiceAccount: sa.Name, ID: string(sa.UID), Expires: expires, Kubeconfig: kubeconfig}, nil
}

// Revoke deletes the host's account; its tokens end with it. A host that has none is fine.
func (i Issuer) Revoke(ctx context.Context, host *v1alpha1.WindowsHost) error {
	return i.RevokeAccount(ctx, AccountName(host.Name, host.UID))
}

// RevokeAccount deletes an account by its name, for Orphans.
func (i Issuer) RevokeAccount(ctx context.Context, name string) error {
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}}
	if err := i.Client.Delete(ctx, sa); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting account %s/%s: %w", Namespace, name, err)
	}
	return nil
}

// Orphans lists the accounts whose host is gone.
func (i Issuer) Orphans(ctx context.Context, hosts []v1alpha1.WindowsHost, now time.Time) ([]string, error) {
	var list corev1.ServiceAccountList
	err := i.reader().List(ctx, &list, client.InNamespace(Namespace), client.MatchingLabels{ManagedByLabel: ManagedBy})
	if err != nil {
		return nil, fmt.Errorf("listing accounts in %s: %w", Namespace, err)
	}
	return Orphans(list.Items, hosts, now), nil
}

// ensure returns the account that is the host's present ticket.
func (i Issuer) ensure(ctx context.Context, host *v1alpha1.WindowsHost) (*corev1.ServiceAccount, error) {
	sa := &corev1.ServiceAccount{}
	key := types.NamespacedName{Namespace: Namespace, Name: AccountName(host.Name, host.UID)}
	err := i.reader().Get(ctx, key, sa)
	switch {
	case apierrors.IsNotFound(err):
		return i.create(ctx, host)
	case err != nil:
		return nil, err
	case sa.Annotations[v1alpha1.HostUIDAnnotation] != string(host.UID):
		return nil, ErrForeignAccount
	case !spent(host, sa) && sa.DeletionTimestamp.IsZero():
		return sa, nil
	}
	uid := sa.UID
	if err := i.Client.Delete(ctx, sa, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	return i.create(ctx, host)
}

func (i Issuer) create(ctx context.Context, host *v1alpha1.WindowsHost) (*corev1.ServiceAccount, error) {
	sa := account(host)
	if err := i.Client.Create(ctx, sa); err != nil {
		return nil, err
	}
	return sa, nil
}

func (i Issuer) token(ctx context.Context, sa *corev1.ServiceAccount) (string, time.Time, error) {
	seconds := int64(Lifetime / time.Second)
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if err := i.Client.SubResource("token").Create(ctx, sa, req); err != nil {
		return "", time.Time{}, err
	}
	if n := len(req.Status.Token); n == 0 || n > maxToken {
		return "", time.Time{}, fmt.Errorf("a token of %d bytes: %w", n, ErrTooLarge)
	}
	return req.Status.Token, req.Status.ExpirationTimestamp.Time, nil
}

// complete checks what a kubeconfig needs. There is no way to leave out the CA: a machine that does not verify the API
// server hands its ticket to whoever answers.
func complete(host *v1alpha1.WindowsHost, c facts.Cluster) error {
	if host.UID == "" {
		return fmt.Errorf("host %s has no UID: %w", host.Name, ErrIncomplete)
	}
	u, err := url.Parse(c.APIServer)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%s %q is no https URL: %w", facts.APIServer, c.APIServer, ErrIncomplete)
	}
	if _, err := certutil.ParseCertsPEM(c.APIServerCA); err != nil {
		return fmt.Errorf("%s holds no certificate: %w", facts.APIServerCA, ErrIncomplete)
	}
	return nil
}

func render(c facts.Cluster, user, token string) (Secret, error) {
	const name = "cluster"
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[name] = &clientcmdapi.Cluster{Server: c.APIServer, CertificateAuthorityData: c.APIServerCA}
	cfg.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	cfg.CurrentContext = name
	b, err := clientcmd.Write(*cfg)
	if err != nil {
		return nil, err
	}
	if len(b) > MaxKubeconfig {
		return nil, fmt.Errorf("%d bytes of at most %d: %w", len(b), MaxKubeconfig, ErrTooLarge)
	}
	return b, nil
}
