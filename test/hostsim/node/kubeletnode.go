package node

import (
	"context"
	"fmt"
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// callTimeout bounds one call of the API.
const callTimeout = 10 * time.Second

// defaultLabels are those that a kubelet on Windows sets by itself.
func (k *kubelet) defaultLabels() map[string]string {
	return map[string]string{
		corev1.LabelOSStable: "windows", corev1.LabelArchStable: "amd64", "beta.kubernetes.io/os": "windows", "beta.kubernetes.io/arch": "amd64",
		corev1.LabelHostname: k.nodeName, corev1.LabelWindowsBuild: fmt.Sprintf("10.0.%d", k.build),
	}
}

// register makes the Node. Of one that is there only the default labels are brought up to date, as the kubelet does: neither
// --node-labels nor --register-with-taints apply to it.
func (k *kubelet) register(ctx context.Context, c *client) bool {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	nodes := c.api.CoreV1().Nodes()
	n := k.newNode()
	_, err := nodes.Create(ctx, n, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var old *corev1.Node
		if old, err = nodes.Get(ctx, k.nodeName, metav1.GetOptions{}); err == nil {
			if old.Labels == nil {
				old.Labels = map[string]string{}
			}
			maps.Copy(old.Labels, k.defaultLabels())
			_, err = nodes.Update(ctx, old, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		k.log.Error(err, "Unable to register node with API server", "node", k.nodeName)
	}
	return err == nil
}

func (k *kubelet) newNode() *corev1.Node {
	labels := maps.Clone(k.labels)
	maps.Copy(labels, k.defaultLabels())
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: k.nodeName, Labels: labels,
			Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
		},
		Spec: corev1.NodeSpec{Taints: k.taints},
	}
	if k.cloudProvider == "external" {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{
			Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule,
		})
		n.Annotations["alpha.kubernetes.io/provided-node-ip"] = k.nodeIP
	}
	return n
}

// report writes the node's status.
func (k *kubelet) report(ctx context.Context, c *client, state readiness) bool {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	n, err := c.api.CoreV1().Nodes().Get(ctx, k.nodeName, metav1.GetOptions{})
	if err == nil {
		k.fillStatus(&n.Status, state)
		_, err = c.api.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
	}
	if err != nil && ctx.Err() == nil {
		k.log.Error(err, "Error updating node status, will retry")
	}
	return err == nil
}

func (k *kubelet) fillStatus(s *corev1.NodeStatus, state readiness) {
	bootID, _ := k.s.Machine.BootID()
	s.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: k.nodeIP}, {Type: corev1.NodeHostName, Address: k.nodeName}}
	s.NodeInfo = corev1.NodeSystemInfo{
		MachineID: k.nodeName, SystemUUID: k.nodeName, BootID: bootID, KernelVersion: fmt.Sprintf("10.0.%d.%d", k.build, k.ubr),
		OSImage: "Windows Server (simulated)", ContainerRuntimeVersion: "containerd://2.4.2", KubeletVersion: kubeletVersion,
		OperatingSystem: "windows", Architecture: "amd64",
	}
	s.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("128Gi"), corev1.ResourcePods: *resource.NewQuantity(int64(k.maxPods), resource.DecimalSI),
	}
	s.Allocatable = s.Capacity.DeepCopy()
	s.DaemonEndpoints.KubeletEndpoint.Port = k.port
	now := metav1.NewTime(k.s.Clock.Now())
	for _, t := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		setCondition(s, corev1.NodeCondition{Type: t, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficient", LastHeartbeatTime: now})
	}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: state.reason, Message: state.message, LastHeartbeatTime: now}
	if state.ready {
		ready.Status = corev1.ConditionTrue
	}
	setCondition(s, ready)
}

func setCondition(s *corev1.NodeStatus, c corev1.NodeCondition) {
	c.LastTransitionTime = c.LastHeartbeatTime
	for i, old := range s.Conditions {
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		s.Conditions[i] = c
		return
	}
	s.Conditions = append(s.Conditions, c)
}

// renewLease renews the node's lease, and makes it when there is none.
func (k *kubelet) renewLease(ctx context.Context, c *client) bool {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	leases := c.api.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := ptr.To(metav1.NewMicroTime(k.s.Clock.Now()))
	lease, err := leases.Get(ctx, k.nodeName, metav1.GetOptions{})
	switch {
	case err == nil:
		lease.Spec.RenewTime = now
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	case apierrors.IsNotFound(err):
		err = k.makeLease(ctx, c, now)
	}
	if err != nil && ctx.Err() == nil {
		k.log.Error(err, "Failed to renew node lease")
	}
	return err == nil
}

func (k *kubelet) makeLease(ctx context.Context, c *client, now *metav1.MicroTime) error {
	n, err := c.api.CoreV1().Nodes().Get(ctx, k.nodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, err = c.api.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: k.nodeName, Namespace: corev1.NamespaceNodeLease,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &k.nodeName, LeaseDurationSeconds: &k.leaseSeconds, RenewTime: now},
	}, metav1.CreateOptions{})
	return err
}
