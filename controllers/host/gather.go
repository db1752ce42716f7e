package host

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/transport"
	"github.com/windowsmachine/operator/pkg/transport/ssh"
)

// privateKey is the Secret's key that holds the private key.
const privateKey = "private-key.pem"

// gather reads all that a pass rests on.
func (r *Reconciler) gather(ctx context.Context, h *v1alpha1.WindowsHost) (*pass, error) {
	p := &pass{view: view{settings: r.settings(), now: r.Clock.Now(), host: h, before: *h.Status.DeepCopy()}}
	profile := &v1alpha1.WindowsNodeProfile{}
	switch err := r.Client.Get(ctx, types.NamespacedName{Name: h.Spec.ProfileRef.Name}, profile); {
	case err == nil:
		p.profile = profile
		if d, ok := r.Facts.Get(profile.Name); ok {
			p.cluster = &d
		}
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("getting WindowsNodeProfile %s: %w", h.Spec.ProfileRef.Name, err)
	}
	r.gatherRanges(p)
	if err := r.gatherCredentials(ctx, p); err != nil {
		return nil, err
	}
	if err := r.gatherNode(ctx, p); err != nil {
		return nil, err
	}
	if err := r.gatherPeers(ctx, p); err != nil {
		return nil, err
	}
	p.snap = r.Pool.Session(sessionKey(h)).Snapshot()
	return p, r.gatherRival(ctx, p)
}

// gatherRival finds out whether the machine is another living host's: two objects with one address would take it from each other for
// ever.
func (r *Reconciler) gatherRival(ctx context.Context, p *pass) error {
	f := p.snap.Facts
	if f == nil || f.Report.Host == "" || f.Report.Host == string(p.host.UID) {
		return nil
	}
	var all v1alpha1.WindowsHostList
	if err := r.Client.List(ctx, &all, client.InNamespace(r.Namespace)); err != nil {
		return fmt.Errorf("listing WindowsHosts: %w", err)
	}
	for i := range all.Items {
		if string(all.Items[i].UID) == f.Report.Host {
			p.rival = all.Items[i].Name
		}
	}
	return nil
}

func (r *Reconciler) gatherCredentials(ctx context.Context, p *pass) error {
	if p.profile == nil {
		return nil
	}
	name := p.profile.Spec.Connection.CredentialsRef.Name
	if ref := p.host.Spec.CredentialsRef; ref != nil {
		name = ref.Name
	}
	p.creds.secret = name
	var s corev1.Secret
	switch err := r.Client.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: name}, &s); {
	case apierrors.IsNotFound(err):
		p.creds.problem = no(v1alpha1.ReasonCredentialsMissing, fmt.Sprintf(
			"Secret %s/%s does not exist: kubectl create secret generic -n %s %s --from-file=%s=<private key>", r.Namespace, name, r.Namespace, name, privateKey))
		return nil
	case err != nil:
		return fmt.Errorf("getting Secret %s/%s: %w", r.Namespace, name, err)
	}
	p.creds = readCredentials(r.Namespace, name, s.Data)
	return nil
}

// readCredentials checks the key in a Secret; its messages never hold key material.
func readCredentials(namespace, name string, data map[string][]byte) credentials {
	c := credentials{secret: name}
	key, ok := data[privateKey]
	if !ok {
		c.problem = no(v1alpha1.ReasonCredentialsMissing, fmt.Sprintf("Secret %s/%s has no key %s; put the private key under that name", namespace, name, privateKey))
		return c
	}
	signer, err := ssh.ParseKey(key)
	if err != nil {
		c.problem = no(v1alpha1.ReasonCredentialsInvalid, fmt.Sprintf("Secret %s/%s, key %s: %v", namespace, name, privateKey, err))
		return c
	}
	c.keys = [][]byte{key}
	c.authorized = formatPin(transport.HostKey{Algorithm: signer.PublicKey().Type(), Key: signer.PublicKey().Marshal()})
	c.winrm = readWinRM(namespace, name, data)
	return c
}

// gatherNode reads the Node of the host and finds out who else has its name.
func (r *Reconciler) gatherNode(ctx context.Context, p *pass) error {
	name := p.host.Spec.NodeName
	if s := p.host.Status.Node; s != nil {
		name = s.Name
	}
	if name == "" {
		return nil
	}
	n := &corev1.Node{}
	switch err := r.Client.Get(ctx, types.NamespacedName{Name: name}, n); {
	case err == nil:
		p.node = n
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("getting Node %s: %w", name, err)
	}
	var others v1alpha1.WindowsHostList
	if err := r.Client.List(ctx, &others, append(matchingNodeName(name), client.InNamespace(r.Namespace))...); err != nil {
		return fmt.Errorf("listing WindowsHosts with Node %s: %w", name, err)
	}
	p.taken = owner(p.host, others.Items)
	return nil
}

// owner is the other host that has the node name: the one that was made first, or the lower UID among equals.
func owner(h *v1alpha1.WindowsHost, all []v1alpha1.WindowsHost) string {
	for i := range all {
		o := &all[i]
		if o.UID == h.UID {
			continue
		}
		if o.CreationTimestamp.Before(&h.CreationTimestamp) ||
			o.CreationTimestamp.Equal(&h.CreationTimestamp) && o.UID < h.UID {
			return o.Name
		}
	}
	return ""
}
