package podcidr

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/podcidr"
)

const (
	kubeSystem        = "kube-system"
	controllerManager = "kube-controller-manager"
	// page is how many objects are read at a time; maxPages bounds how many pages of pods and Nodes there may be.
	page     = 500
	maxPages = 400
	// maxEvents bounds the Events that are read of each reason: one is shown.
	maxEvents = 50
)

// errTooMany: a list has more pages than any cluster.
var errTooMany = errors.New("more than 200000 objects")

// gather reads what a decision rests on. settled reports whether every host of the profile is Ready.
func (r *Reconciler) gather(ctx context.Context, p *v1alpha1.WindowsNodeProfile, c facts.Cluster) (e podcidr.Evidence, settled bool, err error) {
	hosts, err := r.hosts(ctx)
	if err != nil {
		return e, false, err
	}
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return e, false, fmt.Errorf("listing Nodes: %w", err)
	}
	network := p.Spec.Network
	e = podcidr.Evidence{
		Now: r.Clock.Now(), Mode: mode(p, c), Profile: p.Name, Allocation: network.PodCIDRs.Allocation, MaskSize: int(network.PodCIDRs.MaskSize),
		Cluster: podcidr.Prefixes(c.PodCIDRs), Services: podcidr.Prefixes(c.ServiceCIDRs),
	}
	for _, n := range network.Nodes {
		e.Overrides = append(e.Overrides, podcidr.Override{Name: n.Name, Ranges: podcidr.Prefixes(n.PodCIDRs)})
	}
	e.Hosts, settled = waiting(hosts, p.Name)
	was, _ := r.Store.Get(p.Name)
	if err := r.pods.refresh(ctx, r.Reader, e.Now, podsAge(was, e.Hosts, settled)); err != nil {
		return e, false, err
	}
	e.Nodes = r.describe(nodes.Items, ours(hosts))
	if settled {
		return e, true, nil
	}
	e.Controller, err = r.controller(ctx)
	return e, false, err
}

// used reports whether any host has the profile: without one nobody wants to know.
func (r *Reconciler) used(ctx context.Context, profile string) (bool, error) {
	hosts, err := r.hosts(ctx)
	return slices.ContainsFunc(hosts, func(h v1alpha1.WindowsHost) bool { return h.Spec.ProfileRef.Name == profile }), err
}

func (r *Reconciler) hosts(ctx context.Context) ([]v1alpha1.WindowsHost, error) {
	var hosts v1alpha1.WindowsHostList
	if err := r.Client.List(ctx, &hosts, client.InNamespace(r.Namespace)); err != nil {
		return nil, fmt.Errorf("listing WindowsHosts: %w", err)
	}
	return hosts.Items, nil
}

// podsAge is how old the addresses of pods may be: a host that does not become Ready for another reason, such as a machine that is off, shall not have
// them read over and over.
func podsAge(was podcidr.Result, waiting []string, settled bool) time.Duration {
	if settled {
		return every
	}
	refused := false
	for _, j := range was.Nodes {
		refused = refused || j.Refused != (podcidr.Finding{})
	}
	news := slices.ContainsFunc(waiting, func(uid string) bool { return !slices.Contains(was.Hosts, uid) })
	if news || refused || was.Wait != (podcidr.Finding{}) {
		return podsUrgent
	}
	return podsWaiting
}

// waiting are the UIDs of the profile's hosts that have no plan yet, sorted; settled reports whether all its hosts are Ready.
func waiting(hosts []v1alpha1.WindowsHost, profile string) (uids []string, settled bool) {
	settled = true
	for i := range hosts {
		h := &hosts[i]
		if h.Spec.ProfileRef.Name != profile {
			continue
		}
		settled = settled && ready(h)
		if h.Status.Plan == nil {
			uids = append(uids, string(h.UID))
		}
	}
	slices.Sort(uids)
	return uids, settled
}

// ours are the Nodes of our hosts, by name, with their UID where it is known.
func ours(hosts []v1alpha1.WindowsHost) map[string]types.UID {
	out := map[string]types.UID{}
	for i := range hosts {
		if n := hosts[i].Status.Node; n != nil {
			out[n.Name] = types.UID(n.UID)
		}
	}
	return out
}

// oursOf are those that have been told apart already.
func oursOf(nodes []podcidr.Node) map[string]types.UID {
	out := map[string]types.UID{}
	for i := range nodes {
		if nodes[i].Ours {
			out[nodes[i].Name] = types.UID(nodes[i].UID)
		}
	}
	return out
}

// describe says of each Node what matters. One that is being deleted, or of our name and another's, counts as it stands.
func (r *Reconciler) describe(nodes []corev1.Node, mine map[string]types.UID) []podcidr.Node {
	pods := r.pods.of()
	out := make([]podcidr.Node, 0, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		ranges := n.Spec.PodCIDRs
		if len(ranges) == 0 && n.Spec.PodCIDR != "" {
			ranges = []string{n.Spec.PodCIDR}
		}
		given, _ := netip.ParsePrefix(n.Annotations[v1alpha1.PodCIDRAnnotation])
		out = append(out, podcidr.Node{
			Name: n.Name, UID: string(n.UID), Ours: isOurs(n, mine), Given: given, Created: n.CreationTimestamp.Time,
			Ranges: podcidr.Prefixes(ranges), Addresses: nodeAddresses(n), Pods: pods[n.Name],
		})
	}
	slices.SortFunc(out, func(a, b podcidr.Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func isOurs(n *corev1.Node, mine map[string]types.UID) bool {
	uid, ok := mine[n.Name]
	return ok && (uid == "" || uid == n.UID)
}

func nodeAddresses(n *corev1.Node) []netip.Addr {
	var out []netip.Addr
	for _, a := range n.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && (a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP) {
			out = append(out, ip)
		}
	}
	return out
}

// listNodes reads all Nodes past the cache.
func listNodes(ctx context.Context, reader client.Reader) ([]corev1.Node, error) {
	var out []corev1.Node
	err := pages(ctx, reader, func() client.ObjectList { return &corev1.NodeList{} }, func(l client.ObjectList) {
		if nodes, ok := l.(*corev1.NodeList); ok {
			out = append(out, nodes.Items...)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	return out, nil
}

// pages reads a list in pages; of each only what take keeps stays in memory.
func pages(ctx context.Context, reader client.Reader, list func() client.ObjectList, take func(client.ObjectList), opts ...client.ListOption) error {
	next := ""
	for range maxPages {
		l := list()
		if err := reader.List(ctx, l, append([]client.ListOption{client.Limit(page), client.Continue(next)}, opts...)...); err != nil {
			return err
		}
		take(l)
		if next = l.GetContinue(); next == "" {
			return nil
		}
	}
	return errTooMany
}

// addresses are those of running pods by Node.
type addresses struct {
	at     time.Time
	byNode map[string][]netip.Addr
}

func (a *addresses) of() map[string][]netip.Addr { return a.byNode }

// refresh reads them anew when they are older than age.
func (a *addresses) refresh(ctx context.Context, reader client.Reader, now time.Time, age time.Duration) error {
	if a.byNode != nil && now.Sub(a.at) < age {
		return nil
	}
	found := map[string][]netip.Addr{}
	err := pages(ctx, reader, func() client.ObjectList { return &corev1.PodList{} }, func(l client.ObjectList) {
		if pods, ok := l.(*corev1.PodList); ok {
			for i := range pods.Items {
				take(found, &pods.Items[i])
			}
		}
	}, client.MatchingFields{"status.phase": string(corev1.PodRunning)})
	if err != nil {
		return fmt.Errorf("listing Pods: %w", err)
	}
	for _, ips := range found {
		slices.SortFunc(ips, netip.Addr.Compare)
	}
	a.at, a.byNode = now, found
	return nil
}

// take keeps the addresses of a pod that has its own.
func take(found map[string][]netip.Addr, p *corev1.Pod) {
	if p.Spec.HostNetwork || p.Spec.NodeName == "" {
		return
	}
	ips := map[string]bool{p.Status.PodIP: true}
	for _, ip := range p.Status.PodIPs {
		ips[ip.IP] = true
	}
	for ip := range maps.Keys(ips) {
		if a, err := netip.ParseAddr(ip); err == nil {
			found[p.Spec.NodeName] = append(found[p.Spec.NodeName], a)
		}
	}
}

// controller reads what there is of the controller manager. What may not be read is noted.
func (r *Reconciler) controller(ctx context.Context) (podcidr.Controller, error) {
	var c podcidr.Controller
	for _, read := range []func(context.Context, *podcidr.Controller) error{r.lease, r.args, r.events} {
		if err := read(ctx, &c); err != nil {
			return podcidr.Controller{}, err
		}
	}
	return c, nil
}

// outcome notes a refusal; what is not there is no error.
func outcome(c *podcidr.Controller, what string, err error) (found bool, _ error) {
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsForbidden(err):
		c.Forbidden = append(c.Forbidden, what)
		return false, nil
	}
	return false, fmt.Errorf("%s: %w", what, err)
}

func (r *Reconciler) lease(ctx context.Context, c *podcidr.Controller) error {
	var l coordinationv1.Lease
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: kubeSystem, Name: controllerManager}, &l)
	found, err := outcome(c, "get leases.coordination.k8s.io "+kubeSystem+"/"+controllerManager, err)
	if err != nil || !found || l.Spec.HolderIdentity == nil || l.Spec.RenewTime == nil {
		return err
	}
	c.Lease = &podcidr.Lease{Holder: *l.Spec.HolderIdentity, Renewed: l.Spec.RenewTime.Time}
	return nil
}

// args reads the arguments from the mirror pod that a kubelet makes of its static pod; its label is kubeadm's.
func (r *Reconciler) args(ctx context.Context, c *podcidr.Controller) error {
	var pods corev1.PodList
	err := r.Reader.List(ctx, &pods, client.InNamespace(kubeSystem), client.MatchingLabels{"component": controllerManager}, client.Limit(maxEvents))
	found, err := outcome(c, "list pods in "+kubeSystem, err)
	if err != nil || !found {
		return err
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for i := range pods.Items {
		p := &pods.Items[i]
		if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; !mirror || len(p.Spec.Containers) == 0 {
			continue
		}
		args := podcidr.ParseArgs("Pod "+kubeSystem+"/"+p.Name, slices.Concat(p.Spec.Containers[0].Command, p.Spec.Containers[0].Args))
		// Of several the one that gives ranges, since it may lead any time.
		if c.Args == nil || args.Allocate {
			c.Args = &args
		}
	}
	return nil
}

func (r *Reconciler) events(ctx context.Context, c *podcidr.Controller) error {
	for _, reason := range []string{podcidr.EventNotAvailable, podcidr.EventAssignmentFailed} {
		var list corev1.EventList
		err := r.Reader.List(ctx, &list, client.InNamespace(corev1.NamespaceDefault), client.Limit(maxEvents),
			client.MatchingFields{"involvedObject.kind": "Node", "reason": reason})
		found, err := outcome(c, "list events in "+corev1.NamespaceDefault, err)
		if err != nil {
			return err
		}
		if !found {
			return nil
		}
		slices.SortFunc(list.Items, func(a, b corev1.Event) int { return strings.Compare(a.InvolvedObject.Name, b.InvolvedObject.Name) })
		for i := range list.Items {
			ev := &list.Items[i]
			c.Events = append(c.Events, podcidr.Event{Node: ev.InvolvedObject.Name, Reason: ev.Reason, Note: ev.Message})
		}
	}
	return nil
}
