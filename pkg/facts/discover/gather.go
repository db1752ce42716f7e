package discover

import (
	"context"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Namespaces and names of what is read.
const (
	kubeSystem = "kube-system"
	kubePublic = "kube-public"

	// OpenShift's singletons of config.openshift.io are all called cluster.
	openshiftName    = "cluster"
	controllerConfig = "machine-config-controller"
	workerPool       = "worker"
)

// maxSlices bounds the EndpointSlices and ServiceCIDRs that are read; default/kubernetes has one per address family, a
// cluster has a handful of ranges.
const maxSlices = 100

// sources are the objects as read; nil or empty where there are none.
type sources struct {
	infra      *configv1.Infrastructure
	network    *configv1.Network
	controller *mcfgv1.ControllerConfig
	ignition   ignitionSource
	// configMaps by namespace/name.
	configMaps map[string]map[string]string
	// dns is the Service of the cluster's DNS, api is default/kubernetes.
	dns       *corev1.Service
	api       *corev1.Service
	endpoints []discoveryv1.EndpointSlice
	ranges    []serviceRange
	// offered are the service ranges that the API server named when it refused a Service outside of them; mayNotOffer says that
	// the operator may not ask it so.
	offered     []string
	mayNotOffer bool
	// clusterIPs of all Services that were read.
	serviceIPs []string
	nodes      []nodeView
	// arguments of the control plane's mirror pods, by component.
	arguments map[string][]arguments
	calico    calicoObjects
	// forbidden are the reads that were refused, in words: "get configmaps kube-system/coredns"; blind are those among them
	// without which a pod network may stay unseen.
	forbidden, blind []string
}

// serviceRange is what counts of a ServiceCIDR of whichever version.
type serviceRange struct {
	name  string
	cidrs []string
}

// gatherer reads objects. An object that is not there, or of a kind that is not, is no error; one that may not be read is noted.
type gatherer struct {
	reader    client.Reader
	forbidden []string
}

func gather(ctx context.Context, r client.Reader, in Input) (sources, error) {
	g := &gatherer{reader: r}
	s := sources{configMaps: map[string]map[string]string{}}
	for _, read := range []func(context.Context, Input, *sources) error{
		g.openshift, g.ignition, g.clusterConfigMaps, g.services, g.ranges, g.podNetwork, g.nodes, g.controlPlane, g.offer,
	} {
		if err := read(ctx, in, &s); err != nil {
			return sources{}, err
		}
	}
	s.forbidden = g.forbidden
	return s, nil
}

// get reads one object; found is false when there is none that may be read.
func (g *gatherer) get(ctx context.Context, resource, namespace, name string, obj client.Object) (found bool, err error) {
	err = g.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
	what := resource + " " + strings.TrimPrefix(namespace+"/"+name, "/")
	return g.outcome("get", what, err)
}

// list reads a list of at most maxSlices.
func (g *gatherer) list(ctx context.Context, what string, list client.ObjectList, opts ...client.ListOption) (found bool, err error) {
	err = g.reader.List(ctx, list, append(opts, client.Limit(maxSlices))...)
	return g.outcome("list", what, err)
}

func (g *gatherer) outcome(verb, what string, err error) (found bool, _ error) {
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return false, nil
	case apierrors.IsForbidden(err):
		if refused := verb + " " + what; !slices.Contains(g.forbidden, refused) {
			g.forbidden = append(g.forbidden, refused)
		}
		return false, nil
	}
	return false, fmt.Errorf("%s %s: %w", verb, what, err)
}

func (g *gatherer) openshift(ctx context.Context, _ Input, s *sources) error {
	infra, network, controller := &configv1.Infrastructure{}, &configv1.Network{}, &mcfgv1.ControllerConfig{}
	found, err := g.get(ctx, "infrastructures.config.openshift.io", "", openshiftName, infra)
	if err != nil {
		return err
	}
	if found {
		s.infra = infra
	}
	if found, err = g.get(ctx, "networks.config.openshift.io", "", openshiftName, network); err != nil {
		return err
	}
	if found {
		s.network = network
	}
	if found, err = g.get(ctx, "controllerconfigs.machineconfiguration.openshift.io", "", controllerConfig, controller); err != nil {
		return err
	}
	if found {
		s.controller = controller
	}
	return nil
}

func (g *gatherer) clusterConfigMaps(ctx context.Context, _ Input, s *sources) error {
	return g.maps(ctx, s, []client.ObjectKey{
		{Namespace: kubeSystem, Name: "kubeadm-config"},
		{Namespace: kubeSystem, Name: "kubelet-config"},
		{Namespace: kubeSystem, Name: "kube-proxy"},
		{Namespace: kubeSystem, Name: "coredns"},
		{Namespace: kubeSystem, Name: "extension-apiserver-authentication"},
		{Namespace: kubeSystem, Name: "kube-root-ca.crt"},
		{Namespace: kubePublic, Name: "cluster-info"},
	})
}

// maps reads ConfigMaps into s.
func (g *gatherer) maps(ctx context.Context, s *sources, keys []client.ObjectKey) error {
	for _, key := range keys {
		var cm corev1.ConfigMap
		found, err := g.get(ctx, "configmaps", key.Namespace, key.Name, &cm)
		if err != nil {
			return err
		}
		if found {
			s.configMaps[key.String()] = cm.Data
		}
	}
	return nil
}

func (g *gatherer) services(ctx context.Context, _ Input, s *sources) error {
	var api corev1.Service
	found, err := g.get(ctx, "services", "default", "kubernetes", &api)
	if err != nil {
		return err
	}
	if found {
		s.api = &api
	}
	var slice discoveryv1.EndpointSliceList
	_, err = g.list(ctx, "endpointslices.discovery.k8s.io in default", &slice, client.InNamespace("default"),
		client.MatchingLabels{discoveryv1.LabelServiceName: "kubernetes"})
	if err != nil {
		return err
	}
	s.endpoints = slice.Items
	return g.dnsService(ctx, s)
}

// dnsService is kube-system/kube-dns, the name that CoreDNS keeps for compatibility, else the first Service with its label, else the one
// that has port 53 for UDP and TCP.
func (g *gatherer) dnsService(ctx context.Context, s *sources) error {
	var all corev1.ServiceList
	if _, err := g.list(ctx, "services in "+kubeSystem, &all, client.InNamespace(kubeSystem)); err != nil {
		return err
	}
	slices.SortFunc(all.Items, func(a, b corev1.Service) int { return strings.Compare(a.Name, b.Name) })
	for i := range all.Items {
		s.serviceIPs = append(s.serviceIPs, clusterIPs(&all.Items[i])...)
	}
	var dns corev1.Service
	found, err := g.get(ctx, "services", kubeSystem, "kube-dns", &dns)
	if err != nil {
		return err
	}
	if s.dns = &dns; !found {
		s.dns = pickDNS(all.Items)
	}
	return nil
}

// pickDNS is the first Service with CoreDNS's label, else the only one that answers DNS, else nil.
func pickDNS(services []corev1.Service) *corev1.Service {
	var answering []*corev1.Service
	for i := range services {
		if services[i].Labels["k8s-app"] == "kube-dns" {
			return &services[i]
		}
		if answersDNS(&services[i]) {
			answering = append(answering, &services[i])
		}
	}
	if len(answering) != 1 {
		return nil
	}
	return answering[0]
}

func answersDNS(svc *corev1.Service) bool {
	has := func(protocol corev1.Protocol) bool {
		return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == 53 && p.Protocol == protocol })
	}
	return has(corev1.ProtocolUDP) && has(corev1.ProtocolTCP) && len(clusterIPs(svc)) > 0
}

// ranges reads ServiceCIDRs: v1 from Kubernetes 1.33 on, v1beta1 where 1.31 and 1.32 have it turned on. One that is being deleted gives
// no addresses any more.
func (g *gatherer) ranges(ctx context.Context, _ Input, s *sources) error {
	var list networkingv1.ServiceCIDRList
	found, err := g.list(ctx, "servicecidrs.networking.k8s.io", &list)
	if err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			s.ranges = append(s.ranges, serviceRange{list.Items[i].Name, list.Items[i].Spec.CIDRs})
		}
	}
	if found {
		return nil
	}
	var beta networkingv1beta1.ServiceCIDRList
	if _, err := g.list(ctx, "servicecidrs.networking.k8s.io", &beta); err != nil {
		return err
	}
	for i := range beta.Items {
		if beta.Items[i].DeletionTimestamp.IsZero() {
			s.ranges = append(s.ranges, serviceRange{beta.Items[i].Name, beta.Items[i].Spec.CIDRs})
		}
	}
	return nil
}
