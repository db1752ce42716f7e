package bed

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The ranges of a cluster put together by hand, as in Kubernetes the Hard Way for 1.15 on Azure. HardWayPods is what its controller manager is told
// with --cluster-cidr, and what the routes and CNI files of its Linux nodes were cut from by hand.
const (
	HardWayServices = "10.32.0.0/24"
	HardWayDNS      = "10.32.0.10"
	HardWayPods     = "10.200.0.0/16"
	hardWayDomain   = "cluster.local"
)

// managerArgs of a cluster by hand: its controller manager holds its lease, by which one sees that it is alive. The lease is short, so that one that is
// started again with other flags need not wait for long.
func (b *Bed) managerArgs() []string {
	if !b.opts.HardWay {
		return nil
	}
	return []string{
		"--leader-elect", "--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s",
	}
}

// AllocateNodeCIDRs starts the controller manager of a cluster by hand again, with the two flags that make it give each node a pod CIDR.
func (b *Bed) AllocateNodeCIDRs() error {
	return b.RestartControllerManager(append(b.managerArgs(), "--allocate-node-cidrs", "--cluster-cidr="+HardWayPods)...)
}

// hardWay makes what such a cluster has: CoreDNS's Service and its configuration, which the guide applies from a manifest.
func (b *Bed) hardWay(ctx context.Context) error {
	dns, err := b.dnsService()
	if err != nil {
		return err
	}
	return b.createAll(ctx, dns, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "coredns"},
		Data: map[string]string{"Corefile": `.:53 {
    errors
    health
    ready
    kubernetes ` + hardWayDomain + ` in-addr.arpa ip6.arpa {
      pods insecure
      fallthrough in-addr.arpa ip6.arpa
    }
    cache 30
}
`},
	})
}

// LinuxNode is a node without a machine: a Node that is kept Ready, and a pod for each of PodIPs that is said to run on it.
type LinuxNode struct {
	Name, Address string
	PodIPs        []string
}

// heartbeat is how often a light node renews its lease; the controller manager believes it dead after 40 s.
const heartbeat = 10 * time.Second

// AddLinuxNode registers a light node and keeps it alive until RemoveLinuxNode or Close.
func (b *Bed) AddLinuxNode(ctx context.Context, n LinuxNode) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{
		corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", corev1.LabelHostname: n.Name,
	}}}
	if err := b.Client.Create(ctx, node); err != nil {
		return fmt.Errorf("making node %s: %w", n.Name, err)
	}
	before := node.DeepCopy()
	node.Status = corev1.NodeStatus{
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.Address}, {Type: corev1.NodeHostName, Address: n.Name}},
		NodeInfo:   corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64", KubeletVersion: "v1.37.2"},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()}},
	}
	// The controller manager writes to the Node as well.
	if err := b.Client.Status().Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("making node %s Ready: %w", n.Name, err)
	}
	for i, ip := range n.PodIPs {
		if err := b.addPod(ctx, n, fmt.Sprintf("%s-pod-%d", n.Name, i), ip); err != nil {
			return err
		}
	}
	return b.beat(ctx, node)
}

// addPod makes a pod that is said to run on the node.
func (b *Bed) addPod(ctx context.Context, n LinuxNode, name, ip string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.PodSpec{
			NodeName: n.Name, Containers: []corev1.Container{{Name: "web", Image: "registry.example/web:1"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	if err := b.Client.Create(ctx, pod); err != nil {
		return fmt.Errorf("making pod %s: %w", name, err)
	}
	before := pod.DeepCopy()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, HostIP: n.Address, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}
	if err := b.Client.Status().Patch(ctx, pod, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("giving pod %s its address: %w", name, err)
	}
	return nil
}

// beat makes the node's lease and renews it until the bed closes or the node is gone.
func (b *Bed) beat(ctx context.Context, node *corev1.Node) error {
	seconds := int32(40)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node.Name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &node.Name, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: time.Now()}},
	}
	if err := b.Client.Create(ctx, lease); err != nil {
		return fmt.Errorf("making the lease of node %s: %w", node.Name, err)
	}
	b.work.Go(func() {
		tick := time.NewTicker(heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-b.alive.Done():
				return
			case <-tick.C:
			}
			err := b.Client.Get(b.alive, client.ObjectKeyFromObject(lease), lease)
			if err == nil {
				lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
				err = b.Client.Update(b.alive, lease)
			}
			if client.IgnoreNotFound(err) == nil && err != nil {
				return
			}
		}
	})
	return nil
}

// RemoveLinuxNode takes a light node and its pods out of the cluster.
func (b *Bed) RemoveLinuxNode(ctx context.Context, n LinuxNode) error {
	now := client.GracePeriodSeconds(0)
	for i := range n.PodIPs {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s-pod-%d", n.Name, i)}}
		if err := client.IgnoreNotFound(b.Client.Delete(ctx, pod, now)); err != nil {
			return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
		}
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: n.Name}}
	for _, o := range []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}, lease} {
		if err := client.IgnoreNotFound(b.Client.Delete(ctx, o)); err != nil {
			return fmt.Errorf("deleting %T %s: %w", o, n.Name, err)
		}
	}
	return nil
}
