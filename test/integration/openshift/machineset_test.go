package openshift

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	machinev1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/test/bed"
)

// machineSet is one as Azure has it: the kind of its providerSpec says which user the machines have.
const machineSet = `apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata: {name: winsrv, namespace: openshift-machine-api}
spec:
  replicas: 1
  selector: {matchLabels: {machine.openshift.io/cluster-api-machineset: winsrv}}
  template:
    metadata:
      labels:
        machine.openshift.io/cluster-api-cluster: c1-x7k2p
        machine.openshift.io/cluster-api-machineset: winsrv
        machine.openshift.io/os-id: Windows
    spec:
      metadata: {labels: {node-role.kubernetes.io/worker: ""}}
      providerSpec:
        value: {apiVersion: machine.openshift.io/v1beta1, kind: AzureMachineProviderSpec, location: westeurope}
`

// TestMachineSet follows one Machine: to a Ready node out of OpenShift's own objects, through a rendered MachineConfig that breaks and one
// that is gone, and to the next one that the pool names. It is the only test that touches the pool of this bed.
func TestMachineSet(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.azure)
	var found *v1alpha1.DiscoveredStatus
	var c metav1.Condition
	r.nudge(v1alpha1.DefaultProfile)
	r.until("the facts come from the first configuration", func() (bool, string) {
		found, c = r.untilFacts(v1alpha1.DefaultProfile, metav1.ConditionTrue, v1alpha1.ReasonFactsComplete)
		return strings.HasSuffix(found.Sources["kubeletConfig"], bed.FirstConfig), found.Sources["kubeletConfig"]
	})
	r.goldenYAML("discovered.yaml", found)
	if c.Message != "all facts about the cluster were found" {
		t.Errorf("there are problems: %s", c.Message)
	}
	r.must(r.bed.Apply(r.ctx, []byte(machineSet)))
	r.afterwards(r.tidy)
	name := r.onlyMachine()
	h := r.untilReady(name)
	node := &corev1.Node{}
	r.get(h.Status.Node.Name, node)

	t.Run("Node", func(t *testing.T) { r.with(t).checkNode(h, node) })
	t.Run("Kubelet", func(t *testing.T) { r.with(t).checkKubelet(name) })
	if t.Failed() {
		r.explain(r.ctx, name)
		return
	}
	// The operator's own interval brings the recovery, nothing else: it is told of what breaks, and of what is mended it is not.
	t.Run("MachineConfigGone", func(t *testing.T) { r.with(t).machineConfigGone(name) })
	t.Run("LeftoverCompression", func(t *testing.T) { r.with(t).leftover(name) })
	t.Run("NextMachineConfig", func(t *testing.T) { r.with(t).next(name) })

	after := &corev1.Node{}
	r.get(node.Name, after)
	if after.UID != node.UID || !nodeReady(after) {
		t.Errorf("Node %s was %s and is %s, ready %t", node.Name, node.UID, after.UID, nodeReady(after))
	}
}

// tidy takes the MachineSet and its Machine away, and gives the pool its first configuration back.
func (r *rig) tidy(ctx context.Context) {
	errs := []error{
		r.bed.Client.Delete(ctx, &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: bed.MachineNamespace, Name: "winsrv"}}),
		r.bed.NameInPool(ctx, bed.FirstConfig),
		poll(ctx, func() (bool, string) {
			var machines machinev1.MachineList
			err := r.bed.Client.List(ctx, &machines, client.InNamespace(bed.MachineNamespace))
			return err == nil && len(machines.Items) == 0, "there are Machines"
		}),
	}
	if err := errors.Join(errs...); err != nil {
		r.t.Error(err)
	}
}

// onlyMachine waits for the WindowsHost of the one Machine.
func (r *rig) onlyMachine() string {
	r.t.Helper()
	var machines machinev1.MachineList
	r.until("the MachineSet makes a Machine, and the operator a WindowsHost", func() (bool, string) {
		r.must(r.bed.Client.List(r.ctx, &machines, client.InNamespace(bed.MachineNamespace)))
		if len(machines.Items) != 1 {
			return false, "no Machine yet"
		}
		err := r.bed.Client.Get(r.ctx, client.ObjectKey{Namespace: bed.Namespace, Name: machines.Items[0].Name}, &v1alpha1.WindowsHost{})
		return err == nil, "no WindowsHost yet"
	})
	return machines.Items[0].Name
}

func (r *rig) checkNode(h *v1alpha1.WindowsHost, n *corev1.Node) {
	if h.Spec.Username != azureUser {
		r.t.Errorf("user %q", h.Spec.Username)
	}
	got := []string{n.Labels["node.openshift.io/os_id"], n.Labels[corev1.LabelOSStable], n.Annotations["machine.openshift.io/machine"]}
	if want := []string{"Windows", "windows", bed.MachineNamespace + "/" + h.Name}; !slices.Equal(got, want) {
		r.t.Errorf("labels and annotation %q, want %q", got, want)
	}
	if !slices.ContainsFunc(n.Spec.Taints, func(x corev1.Taint) bool { return x.ToString() == "os=Windows:NoSchedule" }) {
		r.t.Errorf("taints %v", n.Spec.Taints)
	}
}

// checkKubelet looks at what the machine has. The golden file is the whole kubelet.conf; what is asked for here by name, nobody can lose by
// writing the golden file anew.
func (r *rig) checkKubelet(name string) {
	conf := r.file(name, kubeletConf)
	r.golden("kubelet.conf.json", conf)
	for _, want := range []string{
		`"clusterDomain": "cluster.local"`, `"172.30.0.10"`, `"maxPods": 240`, `"kubeAPIQPS": 60`, `"containerLogMaxSize": "40Mi"`, `"nodefs.available": "12%"`,
		`"tlsMinVersion": "VersionTLS12"`, `"ephemeral-storage": "1Gi"`, `"cgroupsPerQOS": false`, `"resolvConf": ""`, `"clientCAFile": "C:\\k\\kubelet-ca.crt"`,
	} {
		if !bytes.Contains(conf, []byte(want)) {
			r.t.Errorf("kubelet.conf lacks %s", want)
		}
	}
	for _, never := range []string{"/etc/", "/run/", "crio", "systemd", "inodesFree", "pid.available", "swap", "seccomp", "podPidsLimit"} {
		if bytes.Contains(bytes.ToLower(conf), []byte(strings.ToLower(never))) {
			r.t.Errorf("kubelet.conf has %s of a Linux worker", never)
		}
	}
	if !bytes.Equal(r.file(name, kubeletCA), r.bed.CA()) {
		r.t.Error("the kubelet's client CA is not ControllerConfig's")
	}
	m, ok := r.bed.Host(name)
	if !ok {
		r.t.Fatal("the machine is gone")
	}
	state := m.Machine().Dump()
	argv := slices.Concat([]string{state.Services["kubelet"].Config.Exe}, state.Services["kubelet"].Config.Args)
	for _, want := range []string{"--cloud-provider=external", "--v=4", "--node-labels=node.openshift.io/os_id=Windows", "--hostname-override=" + name} {
		if !slices.Contains(argv, want) {
			r.t.Errorf("the kubelet runs without %s: %q", want, argv)
		}
	}
	// The kubelet of the payload no longer knows --cloud-config.
	if strings.Contains(strings.Join(argv, " "), "--cloud-config") || strings.Contains(strings.Join(argv, " "), "--provider-id") {
		r.t.Errorf("argv %q", argv)
	}
	for path := range state.Files {
		if base := path[strings.LastIndexByte(path, '\\')+1:]; base == "cloud.conf" || base == "registries.conf" || base == "configure-ovs.sh" {
			r.t.Errorf("%s of the ignition was placed", path)
		}
	}
}

// machineConfigGone: what the pool names is not there. The node is left alone.
func (r *rig) machineConfigGone(name string) {
	r.must(r.bed.NameInPool(r.ctx, "rendered-worker-gone"))
	r.nudge(v1alpha1.DefaultProfile)
	_, c := r.untilFacts(v1alpha1.DefaultProfile, metav1.ConditionFalse, v1alpha1.ReasonIgnitionMissing)
	host := r.untilSaid(name, metav1.ConditionTrue, "rendered-worker-gone")
	r.golden("gone.txt", []byte("profile: "+c.Message+"\nhost: "+withoutName(host.Message, name)+"\n"))
}

// leftover: the pool gets a configuration in which a compressed file was overridden by a plain one, and "gzip" was left behind.
func (r *rig) leftover(name string) {
	before := r.file(name, kubeletConf)
	i := bed.WorkerIgnition()
	i.Put(bed.IgnitionKubeletConfig, bed.KubeletConf("maxPods: 240", "maxPods: 239")).Contents.Compression = ptr.To("gzip")
	r.must(r.bed.Render(r.ctx, "rendered-worker-leftover", i.JSON()))
	r.nudge(v1alpha1.DefaultProfile)
	_, c := r.untilFacts(v1alpha1.DefaultProfile, metav1.ConditionFalse, v1alpha1.ReasonIgnitionInvalid)
	host := r.untilSaid(name, metav1.ConditionTrue, "rendered-worker-leftover")
	r.golden("leftover.txt", []byte("profile: "+c.Message+"\nhost: "+withoutName(host.Message, name)+"\n"))
	if !bytes.Equal(before, r.file(name, kubeletConf)) {
		r.t.Error("the node's kubelet.conf changed")
	}
}

// next: the pool names a sound configuration again, with a gzipped kubelet.conf of another number of pods. Nobody tells the operator.
func (r *rig) next(name string) {
	i := bed.WorkerIgnition()
	i.PutGzip(bed.IgnitionKubeletConfig, bed.KubeletConf("maxPods: 240", "maxPods: 200"))
	r.must(r.bed.Render(r.ctx, "rendered-worker-next", i.JSON()))
	r.untilFacts(v1alpha1.DefaultProfile, metav1.ConditionTrue, v1alpha1.ReasonFactsComplete)
	r.until("the node gets the new kubelet.conf", func() (bool, string) {
		got := r.settings(name)["maxPods"]
		return got == float64(200), fmt.Sprintf("maxPods %v", got)
	})
	r.untilReady(name)
}

func withoutName(message, name string) string { return strings.ReplaceAll(message, name, "NODE") }
