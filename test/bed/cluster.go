package bed

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubeadmObjects are what kubeadm leaves in a cluster and discovery reads: the cluster's DNS Service and kubeadm-config.
func (b *Bed) kubeadmObjects() ([]client.Object, error) {
	dns, err := b.dnsService()
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: demo
networking:
  dnsDomain: cluster.local
  serviceSubnet: %s
`, b.ServiceCIDR())
	if b.opts.PodCIDR != "" {
		config += "  podSubnet: " + b.opts.PodCIDR + "\n"
	}
	return []client.Object{dns, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"},
		Data:       map[string]string{"ClusterConfiguration": config},
	}}, nil
}

// dnsService is the cluster's DNS Service, at the tenth address of the service range. Nothing answers there; names are not resolved on simulated
// machines.
func (b *Bed) dnsService() (*corev1.Service, error) {
	services, err := netip.ParsePrefix(b.ServiceCIDR())
	if err != nil {
		return nil, err
	}
	dns := services.Addr()
	for range 10 {
		dns = dns.Next()
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-dns", Labels: map[string]string{"k8s-app": "kube-dns"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: dns.String(), Selector: map[string]string{"k8s-app": "kube-dns"},
			Ports: []corev1.ServicePort{
				{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, {Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP},
			},
		},
	}, nil
}

// createAll creates objects one after the other.
func (b *Bed) createAll(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := b.Client.Create(ctx, o); err != nil {
			return err
		}
	}
	return nil
}
