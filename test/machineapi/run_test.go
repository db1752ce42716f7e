package machineapi

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	machinev1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/test/controlplane"
)

const namespace = "openshift-machine-api"

func TestMain(m *testing.M) {
	SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// cloud hands out instances, fails the first Create, and looks at the node of each Machine that it is told to destroy.
type cloud struct {
	client client.Client

	mu      sync.Mutex
	failed  bool
	created []string
	deleted map[string]nodeState
}

// nodeState is what the provider found when it was told to delete.
type nodeState struct {
	cordoned bool
	pods     int
}

func (c *cloud) Create(_ context.Context, _, name string) (Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.failed {
		c.failed = true
		return Instance{}, errTest
	}
	c.created = append(c.created, name)
	return Instance{ID: "sim:///" + name, Addresses: addresses(fmt.Sprintf("127.0.1.%d", len(c.created)))}, nil
}

func (c *cloud) Delete(ctx context.Context, _, name string) error {
	var node corev1.Node
	if err := c.client.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
		return err
	}
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return err
	}
	state := nodeState{cordoned: node.Spec.Unschedulable}
	for _, p := range pods.Items {
		if p.Spec.NodeName == name {
			state.pods++
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deleted[name] = state
	return nil
}

func (c *cloud) deletions() map[string]nodeState {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]nodeState{}
	for name, state := range c.deleted {
		out[name] = state
	}
	return out
}

const machineSet = `
apiVersion: v1
kind: Namespace
metadata: {name: openshift-machine-api}
---
apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata: {name: win, namespace: openshift-machine-api}
spec:
  replicas: %d
  selector: {matchLabels: {machine.openshift.io/cluster-api-machineset: win}}
  template:
    metadata: {labels: {machine.openshift.io/cluster-api-cluster: test, machine.openshift.io/cluster-api-machineset: win, machine.openshift.io/os-id: Windows}}
    spec:
      metadata: {labels: {node-role.kubernetes.io/worker: ""}}
      taints: [{key: os, value: Windows, effect: NoSchedule}]
      providerSpec: {value: {apiVersion: sim/v1, kind: SimulatedMachine}}
`

// TestMachineSet follows three machines from the set to nodes and one of them back, through the real controllers.
func TestMachineSet(t *testing.T) {
	cp := controlplane.StartForTest(t, controlplane.Options{})
	crds, err := CRDs()
	if err != nil {
		t.Fatal(err)
	}
	if err := cp.InstallCRDs(t.Context(), crds...); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, cp)
	provider := &cloud{client: c, deleted: map[string]nodeState{}}
	run(t, cp, provider)

	scale(t, cp, 3)
	begin := time.Now()
	machines := waitForMachines(t, c, 3, machinev1.PhaseProvisioned)
	t.Logf("3 Machines Provisioned after %.1f s", time.Since(begin).Seconds())
	for i := range machines {
		addNode(t, c, &machines[i])
	}
	machines = waitForMachines(t, c, 3, machinev1.PhaseRunning)
	for _, m := range machines {
		assertLinked(t, c, m)
	}

	scale(t, cp, 2)
	left := waitForMachines(t, c, 2, machinev1.PhaseRunning)
	deleted := provider.deletions()
	if len(deleted) != 1 {
		t.Fatalf("the provider deleted %v", deleted)
	}
	for name, state := range deleted {
		if !state.cordoned || state.pods != 0 {
			t.Errorf("%s was not drained before it was destroyed: %+v", name, state)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Node{}); !apierrors.IsNotFound(err) {
			t.Errorf("node %s: %v", name, err)
		}
	}
	for _, m := range left {
		assertLinked(t, c, m)
		if _, gone := deleted[m.Name]; gone {
			t.Errorf("%s is still there", m.Name)
		}
	}
}

func newClient(t *testing.T, cp *controlplane.ControlPlane) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, machinev1.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(cp.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs the controllers until the test ends, and checks that they end without an error.
func run(t *testing.T, cp *controlplane.ControlPlane, p Provider) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cp.RESTConfig(), p) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func scale(t *testing.T, cp *controlplane.ControlPlane, replicas int) {
	t.Helper()
	if err := cp.Apply(t.Context(), fmt.Appendf(nil, machineSet, replicas)); err != nil {
		t.Fatal(err)
	}
}

// waitForMachines waits until there are n Machines and all of them are in a phase.
func waitForMachines(t *testing.T, c client.Client, n int, phase string) []machinev1.Machine {
	t.Helper()
	var list machinev1.MachineList
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil || len(list.Items) != n {
			return false, err
		}
		for _, m := range list.Items {
			if ptr.Deref(m.Status.Phase, "") != phase {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("waiting for %d Machines in phase %s: %v; there are %+v", n, phase, err, list.Items)
	}
	return list.Items
}

// addNode makes a Ready node for a Machine and binds a pod to it that nothing manages.
func addNode(t *testing.T, c client.Client, m *machinev1.Machine) {
	t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name},
		Spec:       corev1.NodeSpec{ProviderID: ptr.Deref(m.Spec.ProviderID, "")},
	}
	if err := c.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	base := client.MergeFrom(node.DeepCopy())
	node.Status.Addresses = m.Status.Addresses
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := c.Status().Patch(t.Context(), node, base); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: m.Name},
		Spec: corev1.PodSpec{
			NodeName:   m.Name,
			Containers: []corev1.Container{{Name: "c", Image: "none"}},
			// There is no kubelet to end it.
			TerminationGracePeriodSeconds: ptr.To[int64](0),
		},
	}
	if err := c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// assertLinked checks what the nodelink controller does for a Machine and its node.
func assertLinked(t *testing.T, c client.Client, m machinev1.Machine) {
	t.Helper()
	if m.Status.NodeRef == nil || m.Status.NodeRef.Name != m.Name {
		t.Errorf("machine %s refers to node %+v", m.Name, m.Status.NodeRef)
	}
	var node corev1.Node
	// The controller writes the Machine first and its node a moment later.
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKey{Name: m.Name}, &node)
		return node.Annotations["machine.openshift.io/machine"] == namespace+"/"+m.Name, err
	})
	if err != nil {
		t.Fatalf("waiting for the annotation of node %s: %v; it has %v", m.Name, err, node.Annotations)
	}
	if _, ok := node.Labels["node-role.kubernetes.io/worker"]; !ok {
		t.Errorf("node %s has labels %v", node.Name, node.Labels)
	}
	tainted := false
	for _, taint := range node.Spec.Taints {
		tainted = tainted || taint.Key == "os" && taint.Value == "Windows"
	}
	if !tainted {
		t.Errorf("node %s has taints %v", node.Name, node.Spec.Taints)
	}
	var pod corev1.Pod
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: m.Name}, &pod); err != nil {
		t.Errorf("the pod of %s: %v", m.Name, err)
	}
}

func TestOpenShiftCRDs(t *testing.T) {
	t.Parallel()
	cp := controlplane.StartForTest(t, controlplane.Options{NoControllerManager: true})
	crds, err := OpenShiftCRDs()
	if err != nil {
		t.Fatal(err)
	}
	if err := cp.InstallCRDs(t.Context(), crds...); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{
		"infrastructures.config.openshift.io", "networks.config.openshift.io", "proxies.config.openshift.io",
		"controllerconfigs.machineconfiguration.openshift.io", "machineconfigs.machineconfiguration.openshift.io",
		"machineconfigpools.machineconfiguration.openshift.io",
	} {
		if _, err := cp.Kubectl(t.Context(), "get", kind); err != nil {
			t.Error(err)
		}
	}
}
