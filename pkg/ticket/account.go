package ticket

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/csr"
)

const (
	// Namespace holds the accounts; config/rbac/bootstrap.yaml makes it.
	Namespace = csr.BootstrapNamespace
	// HostAnnotation on an account is namespace/name of its WindowsHost, for people; v1alpha1.HostUIDAnnotation decides.
	HostAnnotation = v1alpha1.Group + "/host"
	// ManagedByLabel with value ManagedBy marks the accounts that are tickets.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "windows-machine-operator"

	// orphanAge keeps an account that was made a moment ago from looking orphaned to a cache that lags.
	orphanAge = 10 * time.Minute

	maxNamePart = 40
	hashDigits  = 16
)

// AccountName returns the name of the host's account: its name, cut, and a digest of its UID, so that a host that was deleted and
// made again under the same name has another account. It is a DNS label of at most 63 characters.
func AccountName(hostName string, hostUID types.UID) string {
	sum := sha256.Sum256([]byte(hostUID))
	part := strings.ReplaceAll(hostName, ".", "-")
	if len(part) > maxNamePart {
		part = part[:maxNamePart]
	}
	return "host-" + strings.Trim(part, "-") + "-" + hex.EncodeToString(sum[:])[:hashDigits]
}

func account(host *v1alpha1.WindowsHost) *corev1.ServiceAccount {
	no := false
	return &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace,
			Name:      AccountName(host.Name, host.UID),
			Labels:    map[string]string{ManagedByLabel: ManagedBy},
			Annotations: map[string]string{
				v1alpha1.HostUIDAnnotation: string(host.UID),
				HostAnnotation:             host.Namespace + "/" + host.Name,
			},
		},
		AutomountServiceAccountToken: &no,
	}
}

// spent is whether the account is the ticket that the host has used: then another certificate needs another account.
func spent(host *v1alpha1.WindowsHost, sa *corev1.ServiceAccount) bool {
	t := host.Status.Ticket
	return t != nil && t.ApprovedCSR != "" && t.ID == string(sa.UID)
}

// Orphans returns the names of the accounts whose host is gone, in the order given. Accounts that carry no host annotation are
// somebody else's and are never named; neither are accounts that are younger than ten minutes.
func Orphans(accounts []corev1.ServiceAccount, hosts []v1alpha1.WindowsHost, now time.Time) []string {
	alive := map[string]bool{}
	for i := range hosts {
		alive[string(hosts[i].UID)] = true
	}
	var out []string
	for i := range accounts {
		a := &accounts[i]
		uid := a.Annotations[v1alpha1.HostUIDAnnotation]
		if a.Namespace != Namespace || a.Labels[ManagedByLabel] != ManagedBy || uid == "" || alive[uid] {
			continue
		}
		if now.Sub(a.CreationTimestamp.Time) > orphanAge {
			out = append(out, a.Name)
		}
	}
	return out
}
