package bed

import (
	"context"
	"encoding/json"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/test/machineapi"
)

// What the installer of OpenShift picks by default.
const (
	openshiftServices = "172.30.0.0/16"
	openshiftDNS      = "172.30.0.10"
	openshiftPods     = "10.128.0.0/14"
	// FirstConfig is the name of the rendered MachineConfig that the worker pool has at first.
	FirstConfig = "rendered-worker-c0ffee00c0ffee00c0ffee00c0ffee00"
	workerPool  = "worker"
	singleton   = "cluster"
)

// isOpenShift reports whether the cluster is to have OpenShift's objects instead of kubeadm's.
func (b *Bed) isOpenShift() bool { return b.opts.OpenShift != "" }

// serviceCIDR is the range that the control plane is started with, "" for its default.
func (b *Bed) serviceCIDR() string {
	switch {
	case b.isOpenShift():
		return openshiftServices
	case b.opts.HardWay:
		return HardWayServices
	}
	return ""
}

func (b *Bed) openshiftCRDs() ([]string, error) {
	if !b.isOpenShift() {
		return nil, nil
	}
	return machineapi.OpenShiftCRDs()
}

// distribution makes what tells the cluster's make: what OpenShift's operators keep, or what kubeadm leaves.
func (b *Bed) distribution(ctx context.Context) error {
	if b.opts.HardWay {
		return b.hardWay(ctx)
	}
	if !b.isOpenShift() {
		objects, err := b.kubeadmObjects()
		if err != nil {
			return err
		}
		return b.createAll(ctx, objects...)
	}
	if err := b.createAll(ctx, b.openshiftObjects()...); err != nil {
		return err
	}
	if err := b.openshiftStatus(ctx); err != nil {
		return err
	}
	return b.Render(ctx, FirstConfig, WorkerIgnition().JSON())
}

// openshiftObjects are the objects without what stands in a status subresource. Network has none: its status goes with it.
func (b *Bed) openshiftObjects() []client.Object {
	pods := openshiftPods
	if b.opts.PodCIDR != "" {
		pods = b.opts.PodCIDR
	}
	networkType := "OVNKubernetes"
	return []client.Object{
		&configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: singleton}},
		&configv1.Network{
			ObjectMeta: metav1.ObjectMeta{Name: singleton},
			Spec:       configv1.NetworkSpec{NetworkType: networkType},
			Status: configv1.NetworkStatus{
				ClusterNetwork: []configv1.ClusterNetworkEntry{{CIDR: pods, HostPrefix: 23}},
				ServiceNetwork: []string{openshiftServices}, NetworkType: networkType,
			},
		},
		&mcfgv1.ControllerConfig{
			ObjectMeta: metav1.ObjectMeta{Name: "machine-config-controller"},
			Spec: mcfgv1.ControllerConfigSpec{
				ClusterDNSIP: openshiftDNS, KubeAPIServerServingCAData: b.CA(), RootCAData: b.CA(), IPFamilies: mcfgv1.IPFamiliesIPv4,
				Images:               map[string]string{"machineConfigOperator": "example.com/machine-config-operator@sha256:0"},
				BaseOSContainerImage: "example.com/base-os@sha256:0", ReleaseImage: "example.com/release@sha256:0",
			},
		},
		&mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: workerPool}},
	}
}

// openshiftStatus writes Infrastructure's status, as the installer does after everything else is there.
func (b *Bed) openshiftStatus(ctx context.Context) error {
	server, err := b.APIServer()
	if err != nil {
		return err
	}
	infra := &configv1.Infrastructure{}
	if err := b.Client.Get(ctx, client.ObjectKey{Name: singleton}, infra); err != nil {
		return err
	}
	infra.Status = configv1.InfrastructureStatus{
		InfrastructureName: "c1-x7k2p", APIServerURL: "https://api.c1.example.com:6443", APIServerInternalURL: server,
		ControlPlaneTopology: configv1.HighlyAvailableTopologyMode, InfrastructureTopology: configv1.HighlyAvailableTopologyMode,
		CPUPartitioning: configv1.CPUPartitioningNone,
		PlatformStatus:  &configv1.PlatformStatus{Type: configv1.PlatformType(b.opts.OpenShift)},
	}
	if err := b.Client.Status().Update(ctx, infra); err != nil {
		return fmt.Errorf("writing the status of Infrastructure %s: %w", singleton, err)
	}
	return nil
}

// Render does what the machine config operator does after a change: it stores a rendered MachineConfig and names it in the worker pool.
// A MachineConfig of that name gets the new contents, which the real operator never does; it stands for one that somebody edited.
func (b *Bed) Render(ctx context.Context, name string, ignition []byte) error {
	if err := b.PutMachineConfig(ctx, name, ignition); err != nil {
		return err
	}
	return b.NameInPool(ctx, name)
}

// PutMachineConfig stores a MachineConfig.
func (b *Bed) PutMachineConfig(ctx context.Context, name string, ignition []byte) error {
	mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := b.Client.Get(ctx, client.ObjectKey{Name: name}, mc)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	mc.Labels = map[string]string{"machineconfiguration.openshift.io/role": workerPool}
	mc.Spec.Config = runtime.RawExtension{Raw: ignition}
	if err == nil {
		return b.Client.Update(ctx, mc)
	}
	return b.Client.Create(ctx, mc)
}

// NameInPool names a MachineConfig in the worker pool's status; "" is a pool for which nothing was rendered yet.
func (b *Bed) NameInPool(ctx context.Context, name string) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"configuration": map[string]any{"name": name}}})
	if err != nil {
		return err
	}
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: workerPool}}
	return b.Client.Status().Patch(ctx, pool, client.RawPatch("application/merge-patch+json", patch))
}
