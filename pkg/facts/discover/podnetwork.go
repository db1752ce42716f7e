package discover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/facts"
)

// Components of a control plane, as kubeadm labels their mirror pods.
const (
	controllerManager = "kube-controller-manager"
	apiServer         = "kube-apiserver"
)

// planeConfigMaps are the ConfigMaps by which pod networks show themselves, by the names of their projects' manifests.
func planeConfigMaps() []client.ObjectKey {
	out := slices.Clone(flannelConfigMaps())
	for _, o := range otherPlanes() {
		out = append(out, client.ObjectKey{Namespace: kubeSystem, Name: o.configMap})
	}
	return out
}

// podNetwork reads what pod networks leave in the API. OpenShift names its own in Network cluster.
func (g *gatherer) podNetwork(ctx context.Context, _ Input, s *sources) error {
	if s.infra != nil {
		return nil
	}
	before := len(g.forbidden)
	if err := g.maps(ctx, s, planeConfigMaps()); err != nil {
		return err
	}
	if err := g.calico(ctx, s); err != nil {
		return err
	}
	s.blind = slices.Clone(g.forbidden[before:])
	return nil
}

func (g *gatherer) calico(ctx context.Context, s *sources) error {
	pools := &unstructured.UnstructuredList{}
	pools.SetGroupVersionKind(calicoKind("IPPoolList"))
	if _, err := g.list(ctx, "ippools.crd.projectcalico.org", pools); err != nil {
		return err
	}
	var err error
	if s.calico.pools, err = fromList[calicoPool](pools); err != nil {
		return err
	}
	if s.calico.installation, err = readAs[calicoInstallation](ctx, g, "installations.operator.tigera.io", tigeraKind("Installation")); err != nil {
		return err
	}
	if len(s.calico.pools) == 0 && s.calico.installation == nil {
		return nil
	}
	if s.calico.felix, err = readAs[calicoFelix](ctx, g, "felixconfigurations.crd.projectcalico.org", calicoKind("FelixConfiguration")); err != nil {
		return err
	}
	s.calico.ipam, err = readAs[calicoIPAM](ctx, g, "ipamconfigs.crd.projectcalico.org", calicoKind("IPAMConfig"))
	return err
}

func calicoKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "crd.projectcalico.org", Version: "v1", Kind: kind}
}

func tigeraKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "operator.tigera.io", Version: "v1", Kind: kind}
}

// readAs reads the object "default" of a kind that no Go type of ours stands for; nil when there is none. An object of another shape than
// the fields of T is as good as none.
func readAs[T any](ctx context.Context, g *gatherer, resource string, kind schema.GroupVersionKind) (*T, error) {
	var u unstructured.Unstructured
	u.SetGroupVersionKind(kind)
	found, err := g.get(ctx, resource, "", "default", &u)
	if err != nil || !found {
		return nil, err
	}
	out := new(T)
	if convert(u.Object, out) != nil {
		out = nil
	}
	return out, nil
}

func fromList[T any](list *unstructured.UnstructuredList) ([]T, error) {
	var out []T
	for i := range list.Items {
		var v T
		if err := convert(list.Items[i].Object, &v); err != nil {
			return nil, fmt.Errorf("%s %s: %w", list.Items[i].GetKind(), list.Items[i].GetName(), err)
		}
		out = append(out, v)
	}
	return out, nil
}

// nodeView is what counts of a Node.
type nodeView struct {
	name     string
	podCIDRs []string
	// backend, data and publicIP are flannel's annotations; "" on Windows nodes, where this operator writes them.
	backend, data, publicIP string
	// addresses are those of the Node's status.
	addresses []string
}

// nodes reads the Nodes. OpenShift's own objects say more than they do.
func (g *gatherer) nodes(ctx context.Context, in Input, s *sources) error {
	if s.infra != nil {
		return nil
	}
	for next, more := "", true; more; more = next != "" {
		var list corev1.NodeList
		var err error
		if in.Nodes != nil {
			err = in.Nodes.List(ctx, &list, client.UnsafeDisableDeepCopy)
		} else {
			err = g.reader.List(ctx, &list, client.Limit(maxSlices), client.Continue(next))
		}
		if found, err := g.outcome("list", "nodes", err); err != nil || !found {
			return err
		}
		for i := range list.Items {
			s.nodes = append(s.nodes, viewOf(&list.Items[i]))
		}
		// A cache gives all at once, and a mark that is no page (controller-runtime's "continue-not-supported").
		if in.Nodes == nil {
			next = list.Continue
		}
	}
	slices.SortFunc(s.nodes, func(a, b nodeView) int { return strings.Compare(a.name, b.name) })
	return nil
}

func viewOf(n *corev1.Node) nodeView {
	v := nodeView{name: n.Name, podCIDRs: slices.Clone(n.Spec.PodCIDRs)}
	if len(v.podCIDRs) == 0 && n.Spec.PodCIDR != "" {
		v.podCIDRs = []string{n.Spec.PodCIDR}
	}
	if n.Labels[corev1.LabelOSStable] != "windows" {
		v.backend, v.data, v.publicIP = n.Annotations[flannelBackend], n.Annotations[flannelData], n.Annotations[flannelPublicIP]
	}
	for _, a := range n.Status.Addresses {
		v.addresses = append(v.addresses, a.Address)
	}
	return v
}

// arguments are the flags of one pod of the control plane.
type arguments struct {
	pod   string
	flags map[string]string
}

// controlPlane reads the arguments of the control plane where kubelets run it as static pods. Only mirror pods count: the API server lets
// nobody but a kubelet make one.
func (g *gatherer) controlPlane(ctx context.Context, _ Input, s *sources) error {
	s.arguments = map[string][]arguments{}
	if s.infra != nil {
		return nil
	}
	for _, component := range []string{controllerManager, apiServer} {
		var pods corev1.PodList
		_, err := g.list(ctx, "pods in "+kubeSystem, &pods, client.InNamespace(kubeSystem), client.MatchingLabels{"component": component})
		if err != nil {
			return err
		}
		for i := range pods.Items {
			if p := &pods.Items[i]; p.Annotations[corev1.MirrorPodAnnotationKey] != "" {
				s.arguments[component] = append(s.arguments[component], arguments{p.Name, flagsOf(p, component)})
			}
		}
		slices.SortFunc(s.arguments[component], func(a, b arguments) int { return strings.Compare(a.pod, b.pod) })
	}
	return nil
}

// flagsOf are the flags of the component's container, by name without dashes. Both forms are read, --flag=value and --flag value, also
// where a shell starts the program; the last one counts, as it does for the program.
func flagsOf(p *corev1.Pod, component string) map[string]string {
	out := map[string]string{}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if c.Name != component && len(p.Spec.Containers) > 1 {
			continue
		}
		words := strings.Fields(strings.Join(append(slices.Clone(c.Command), c.Args...), " "))
		for n, word := range words {
			name, isFlag := strings.CutPrefix(word, "--")
			name, value, joined := strings.Cut(name, "=")
			if isFlag && !joined && n+1 < len(words) && !strings.HasPrefix(words[n+1], "-") {
				value = words[n+1]
			}
			if isFlag {
				out[name] = strings.Trim(value, `"'`)
			}
		}
	}
	return out
}

// outsiders are addresses that belong to no cluster (RFC 5737 and RFC 3849), so that no service range holds them.
func outsiders() []string { return []string{"192.0.2.1", "2001:db8::1"} }

// offer asks the API server for its service range when nothing else says it: a Service with an address outside of it is refused, and before
// Kubernetes 1.33 the refusal names the range. It is read from the cause of the field; whatever else comes back tells nothing.
func (g *gatherer) offer(ctx context.Context, in Input, s *sources) error {
	if in.Create == nil || s.infra != nil || len(in.Profile.Cluster.ServiceCIDRs) > 0 || knowServiceRange(*s) {
		return nil
	}
	for _, ip := range outsiders() {
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: in.Namespace, Name: "service-range"},
			Spec:       corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Port: 443}}},
		}
		err := in.Create(ctx, svc, client.DryRunAll)
		if ctx.Err() != nil {
			return fmt.Errorf("asking for the service range: %w", ctx.Err())
		}
		s.mayNotOffer = apierrors.IsForbidden(err)
		s.offered = append(s.offered, rangesIn(err)...)
	}
	return nil
}

func knowServiceRange(s sources) bool {
	l := ladder{}
	l.native(s)
	l.kubeadm(s)
	l.arguments(s)
	return len(l[facts.ServiceCIDRs]) > 0
}

// rangesIn are the prefixes that the refusal of a clusterIP names.
func rangesIn(err error) []string {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var out []string
	for _, c := range status.Status().Details.Causes {
		if !strings.HasPrefix(c.Field, "spec.clusterIP") {
			continue
		}
		for _, word := range strings.Fields(c.Message) {
			if p, err := netip.ParsePrefix(strings.TrimRight(word, ".,;")); err == nil {
				out = append(out, p.String())
			}
		}
	}
	return out
}
