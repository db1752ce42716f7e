package csr

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/csr"
)

const (
	// serverMaxAge is how old the list of Services' addresses may be; they are listed, not watched.
	serverMaxAge = 30 * time.Second
	pageSize     = 500
	// maxServices bounds the list; above it no serving certificate is approved.
	maxServices = 100_000

	theServer = "the API server"
)

var errTooMany = errors.New("more Services than can be looked at")

// claims gathers whose names and addresses are not the host's.
func (r *Reconciler) claims(ctx context.Context, host *v1alpha1.WindowsHost) (*csr.Claims, error) {
	server, err := r.server.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("gathering the addresses of API server and Services: %w", err)
	}
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	var hosts v1alpha1.WindowsHostList
	if err := r.Client.List(ctx, &hosts, client.InNamespace(host.Namespace)); err != nil {
		return nil, fmt.Errorf("listing WindowsHosts: %w", err)
	}
	c := &csr.Claims{
		ServerNames: server.ServerNames, ServerAddresses: server.ServerAddresses, ServerPrefixes: server.ServerPrefixes,
		OtherNames: map[string]string{}, OtherAddresses: map[netip.Addr]string{},
	}
	addOthers(c, host, nodes.Items, hosts.Items)
	return c, nil
}

// addOthers adds what other nodes and hosts claim. Two hosts that expect the same node name are one machine written down
// twice, and no strangers to each other.
func addOthers(c *csr.Claims, host *v1alpha1.WindowsHost, nodes []corev1.Node, hosts []v1alpha1.WindowsHost) {
	own := nodeName(host)
	add := func(owner string, texts ...string) {
		names, addresses := split(texts)
		for _, n := range names {
			c.OtherNames[strings.ToLower(n)] = owner
		}
		for _, a := range addresses {
			c.OtherAddresses[a] = owner
		}
	}
	for i := range nodes {
		n := &nodes[i]
		if n.Name == own {
			continue
		}
		add("Node "+n.Name, n.Name)
		for _, a := range n.Status.Addresses {
			add("Node "+n.Name, a.Address)
		}
	}
	for i := range hosts {
		h := &hosts[i]
		if name := nodeName(h); h.UID != host.UID && name != own {
			add("WindowsHost "+h.Name, append(ownAddresses(h), name)...)
		}
	}
}

// serverClaims keeps what belongs to the API server and to Services for a while.
type serverClaims struct {
	live   client.Reader
	client client.Reader
	extra  func(context.Context) ([]string, error)
	clock  clock.PassiveClock

	mu  sync.Mutex
	at  time.Time
	now *csr.Claims
}

// get returns the claims; the maps in it are shared and must not be written. One call reads while others wait for it.
func (s *serverClaims) get(ctx context.Context) (*csr.Claims, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil && s.clock.Since(s.at) < serverMaxAge {
		return s.now, nil
	}
	at := s.clock.Now()
	c := &csr.Claims{ServerNames: map[string]string{}, ServerAddresses: map[netip.Addr]string{}}
	for _, read := range []func(context.Context, *csr.Claims) error{s.services, s.endpoints, s.prefixes, s.profiles, s.others} {
		if err := read(ctx, c); err != nil {
			return nil, err
		}
	}
	s.now, s.at = c, at
	return c, nil
}

func addServer(c *csr.Claims, owner string, texts ...string) {
	names, addresses := split(texts)
	for _, n := range names {
		c.ServerNames[strings.ToLower(n)] = owner
	}
	for _, a := range addresses {
		c.ServerAddresses[a] = owner
	}
}

// addPrefix adds a service network; text that is none was refused by the API's validation.
func addPrefix(c *csr.Claims, texts ...string) {
	for _, t := range texts {
		if p, err := netip.ParsePrefix(t); err == nil {
			c.ServerPrefixes = append(c.ServerPrefixes, p.Masked())
		}
	}
}

func (s *serverClaims) services(ctx context.Context, c *csr.Claims) error {
	token := ""
	for n := 0; ; {
		var list corev1.ServiceList
		if err := s.live.List(ctx, &list, client.Limit(pageSize), client.Continue(token)); err != nil {
			return fmt.Errorf("listing Services: %w", err)
		}
		for i := range list.Items {
			svc := &list.Items[i]
			owner := "Service " + svc.Namespace + "/" + svc.Name
			addServer(c, owner, serviceAddresses(svc)...)
		}
		n += len(list.Items)
		if token = list.Continue; token == "" {
			return nil
		}
		if n > maxServices {
			return errTooMany
		}
	}
}

// serviceAddresses are the addresses that the API server gave out. External and load balancer addresses do not count: whoever
// may make a Service could name a node's own address there, and so keep it from its certificate.
func serviceAddresses(svc *corev1.Service) []string {
	var out []string
	for _, a := range append([]string{svc.Spec.ClusterIP}, svc.Spec.ClusterIPs...) {
		if a != corev1.ClusterIPNone {
			out = append(out, a)
		}
	}
	return out
}

// endpoints adds the API servers themselves.
func (s *serverClaims) endpoints(ctx context.Context, c *csr.Claims) error {
	var list discoveryv1.EndpointSliceList
	err := s.live.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{discoveryv1.LabelServiceName: "kubernetes"})
	if err != nil {
		return fmt.Errorf("listing EndpointSlices of Service %s/kubernetes: %w", metav1.NamespaceDefault, err)
	}
	for i := range list.Items {
		for _, e := range list.Items[i].Endpoints {
			addServer(c, theServer, e.Addresses...)
		}
	}
	return nil
}

// prefixes adds the service networks of clusters that have them as objects (since Kubernetes 1.33).
func (s *serverClaims) prefixes(ctx context.Context, c *csr.Claims) error {
	var list networkingv1.ServiceCIDRList
	err := s.live.List(ctx, &list)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	for i := range list.Items {
		addPrefix(c, list.Items[i].Spec.CIDRs...)
	}
	return nil
}

// profiles adds what was discovered or set.
func (s *serverClaims) profiles(ctx context.Context, c *csr.Claims) error {
	var list v1alpha1.WindowsNodeProfileList
	if err := s.client.List(ctx, &list); err != nil {
		return fmt.Errorf("listing WindowsNodeProfiles: %w", err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		addPrefix(c, p.Spec.Cluster.ServiceCIDRs...)
		addServer(c, theServer, hostOf(p.Spec.Cluster.APIServer))
		if d := p.Status.Discovered; d != nil {
			addPrefix(c, d.ServiceCIDRs...)
			addServer(c, theServer, hostOf(d.APIServer))
		}
	}
	return nil
}

func (s *serverClaims) others(ctx context.Context, c *csr.Claims) error {
	if s.extra == nil {
		return nil
	}
	names, err := s.extra(ctx)
	if err != nil {
		return fmt.Errorf("reading the API server's names: %w", err)
	}
	addServer(c, theServer, names...)
	return nil
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
