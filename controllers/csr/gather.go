package csr

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/csr"
)

// input is what one decision rests on.
type input struct {
	request csr.Request
	hosts   []hostView
}

// hostView is a host as it was read, with what is expected of it.
type hostView struct {
	host     *v1alpha1.WindowsHost
	expected csr.Expected
}

func (in input) expected() []csr.Expected {
	out := make([]csr.Expected, 0, len(in.hosts))
	for _, h := range in.hosts {
		out = append(out, h.expected)
	}
	return out
}

// host returns the host of the decision, nil when it is about none.
func (in input) host(uid string) *v1alpha1.WindowsHost {
	for _, h := range in.hosts {
		if uid != "" && h.expected.HostUID == uid {
			return h.host
		}
	}
	return nil
}

// gather reads what the request needs, and nothing for a request that is not ours.
func (r *Reconciler) gather(ctx context.Context, obj *certificatesv1.CertificateSigningRequest) (input, error) {
	in := input{request: csr.FromObject(obj)}
	if r.options.Clock.Since(obj.CreationTimestamp.Time) > csr.MaxAge {
		return in, nil
	}
	names, err := r.candidates(ctx, csr.Keys(in.request))
	if err != nil {
		return in, err
	}
	for _, name := range names {
		h := &v1alpha1.WindowsHost{}
		if err := r.Live.Get(ctx, name, h); client.IgnoreNotFound(err) != nil {
			return in, fmt.Errorf("getting WindowsHost %s: %w", name, err)
		} else if err != nil {
			continue
		}
		e, err := r.expect(ctx, h, in.request)
		if err != nil {
			return in, err
		}
		in.hosts = append(in.hosts, hostView{host: h, expected: e})
	}
	if len(in.hosts) > 0 {
		in.request.Superseded, err = r.superseded(ctx, in.request)
	}
	return in, err
}

// candidates finds the hosts with one of the keys, each once.
func (r *Reconciler) candidates(ctx context.Context, keys []string) ([]types.NamespacedName, error) {
	var out []types.NamespacedName
	seen := map[types.NamespacedName]bool{}
	for _, k := range keys {
		var list v1alpha1.WindowsHostList
		err := r.Client.List(ctx, &list, client.InNamespace(r.options.Namespace), client.MatchingFields{keysField: k})
		if err != nil {
			return nil, fmt.Errorf("listing WindowsHosts: %w", err)
		}
		for i := range list.Items {
			if name := client.ObjectKeyFromObject(&list.Items[i]); !seen[name] {
				seen[name] = true
				out = append(out, name)
			}
		}
	}
	return out, nil
}

// expect reads Node, lease and others' claims, each only where a rule looks at it.
func (r *Reconciler) expect(ctx context.Context, h *v1alpha1.WindowsHost, req csr.Request) (csr.Expected, error) {
	e := expected(h, r.options.AllowLoopback)
	if e.NodeName == "" {
		return e, nil
	}
	node := &corev1.Node{}
	err := r.Live.Get(ctx, types.NamespacedName{Name: e.NodeName}, node)
	if apierrors.IsNotFound(err) {
		return e, nil
	}
	if err != nil {
		return e, fmt.Errorf("getting Node %s: %w", e.NodeName, err)
	}
	serving := req.SignerName == certificatesv1.KubeletServingSignerName
	var lease *coordinationv1.Lease
	if !serving {
		if lease, err = r.lease(ctx, e.NodeName); err != nil {
			return e, err
		}
	}
	e.Node = seen(node, lease)
	if serving {
		e.Claims, err = r.claims(ctx, h)
	}
	return e, err
}

// lease reads the node's heartbeat (kubernetes.io/docs/concepts/architecture/leases), nil when there is none. It is read and
// not watched: leases change every ten seconds a node.
func (r *Reconciler) lease(ctx context.Context, node string) (*coordinationv1.Lease, error) {
	l := &coordinationv1.Lease{}
	key := types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: node}
	err := r.Live.Get(ctx, key, l)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting Lease %s: %w", key, err)
	}
	return l, nil
}

// superseded looks for a newer pending request of the same requester and signer. The requester is its UID: what an earlier
// ticket's account of the same name still sends overtakes nothing.
func (r *Reconciler) superseded(ctx context.Context, req csr.Request) (bool, error) {
	var list certificatesv1.CertificateSigningRequestList
	if err := r.Client.List(ctx, &list, client.MatchingFields{keysField: csr.UserKey(req.Username)}); err != nil {
		return false, fmt.Errorf("listing certificate requests: %w", err)
	}
	for i := range list.Items {
		o := csr.FromObject(&list.Items[i])
		if o.Kubelet() && o.SignerName == req.SignerName && o.UserUID == req.UserUID && newer(o, req) {
			return true, nil
		}
	}
	return false, nil
}

// newer orders by creation, and by name within a second, which is all that the API server keeps.
func newer(a, b csr.Request) bool {
	if a.Created.Equal(b.Created) {
		return a.Name > b.Name
	}
	return a.Created.After(b.Created)
}
