package podcidr

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	podcidrctl "github.com/windowsmachine/operator/controllers/podcidr"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/podcidr"
	"github.com/windowsmachine/operator/test/controlplane"
)

const (
	root      = "../../../"
	namespace = "windows-machine-operator"
	account   = "windows-machine-operator"
	patience  = 60 * time.Second
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// managerArgs make the controller manager hold a lease, by which one sees that it is alive.
func managerArgs(more ...string) []string {
	return append([]string{
		"--leader-elect", "--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s",
	}, more...)
}

func allocating() []string {
	return managerArgs("--allocate-node-cidrs", "--cluster-cidr=10.200.0.0/16")
}

// rig is a control plane with the operator's objects, and the reconciler as the operator.
type rig struct {
	t     *testing.T
	cp    *controlplane.ControlPlane
	admin client.Client
	clock *clocktesting.FakePassiveClock
	r     *podcidrctl.Reconciler
}

func newRig(t *testing.T) *rig {
	t.Helper()
	cp := controlplane.StartForTest(t, controlplane.Options{ServiceCIDR: "10.32.0.0/24", ControllerManagerArgs: managerArgs()})
	abs, err := filepath.Abs(root + "config/default")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cp.Kubectl(t.Context(), "apply", "--server-side", "-k", abs); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := cp.InstallCRDs(t.Context(), root+"config/crd/bases"); err != nil {
		t.Fatal(err)
	}
	g := &rig{t: t, cp: cp, clock: clocktesting.NewFakePassiveClock(time.Now())}
	admin, err := cp.Kubeconfig("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	own, err := cp.ServiceAccountKubeconfig(t.Context(), namespace, account)
	if err != nil {
		t.Fatal(err)
	}
	g.admin = clientOf(t, admin)
	operator := clientOf(t, own)
	known := &facts.Store{}
	known.Set("default", facts.Discovered{Cluster: facts.Cluster{
		Mode: string(v1alpha1.NetworkL2Bridge), PodCIDRs: []string{"10.200.0.0/16"}, ServiceCIDRs: []string{"10.32.0.0/24"},
	}})
	g.r = &podcidrctl.Reconciler{
		Client: operator, Reader: operator, Recorder: events.NewFakeRecorder(1000), Clock: g.clock, Facts: known, Store: &podcidr.Store{}, Namespace: namespace,
	}
	g.create(&v1alpha1.WindowsNodeProfile{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	return g
}

func clientOf(t *testing.T, kubeconfig []byte) client.Client {
	t.Helper()
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS, cfg.Burst = 500, 1000
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(cfg, client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (g *rig) create(o client.Object) {
	g.t.Helper()
	if err := g.admin.Create(g.t.Context(), o); err != nil {
		g.t.Fatal(err)
	}
}

// status writes the status alone: controllers write the rest of the object meanwhile.
func (g *rig) status(before, after client.Object) {
	g.t.Helper()
	if err := g.admin.Status().Patch(g.t.Context(), after, client.MergeFrom(before)); err != nil {
		g.t.Fatal(err)
	}
}

// linux makes a light Linux node with a pod.
func (g *rig) linux(name, address, podIP string) {
	g.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
	g.create(n)
	before := n.DeepCopy()
	n.Status = corev1.NodeStatus{
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}},
	}
	g.status(before, n)
	g.pod("pod-of-"+name, name, podIP)
}

func (g *rig) pod(name, node, ip string) {
	g.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "web", Image: "registry.example/web:1"}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}}
	g.create(p)
	before := p.DeepCopy()
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}
	g.status(before, p)
}

// host makes a WindowsHost; registers makes its Node.
func (g *rig) host(name string) *v1alpha1.WindowsHost {
	g.t.Helper()
	h := &v1alpha1.WindowsHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	h.Spec.Address, h.Spec.Username = "10.240.0.40", "Administrator"
	g.create(h)
	return h
}

func (g *rig) registers(h *v1alpha1.WindowsHost) {
	g.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.Name, Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
	g.create(n)
	before := h.DeepCopy()
	h.Status.Node = &v1alpha1.NodeStatus{Name: n.Name, UID: string(n.UID)}
	g.status(before, h)
}

func (g *rig) node(name string) *corev1.Node {
	g.t.Helper()
	n := &corev1.Node{}
	if err := g.admin.Get(g.t.Context(), types.NamespacedName{Name: name}, n); err != nil {
		g.t.Fatal(err)
	}
	return n
}

// until reconciles until ok, each time with a reconciler that has not read the pods yet.
func (g *rig) until(what string, ok func(podcidr.Result) bool) podcidr.Result {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		g.clock.SetTime(time.Now())
		g.r = fresh(g.r)
		_, err := g.r.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: "default"}})
		r, _ := g.r.Store.Get("default")
		if err == nil && ok(r) {
			return r
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			g.t.Fatalf("never %s: %v, %+v", what, err, r)
		}
	}
}

// fresh is a reconciler that has read nothing yet, over the same store.
func fresh(r *podcidrctl.Reconciler) *podcidrctl.Reconciler {
	return &podcidrctl.Reconciler{
		Client: r.Client, Reader: r.Reader, Recorder: r.Recorder, Clock: r.Clock, Facts: r.Facts, Store: r.Store, Namespace: r.Namespace,
	}
}

// runs a command that was told to people, as they do.
func (g *rig) runs(command string) {
	g.t.Helper()
	cmd := exec.CommandContext(g.t.Context(), "sh", "-c", command)
	cmd.Env = []string{"KUBECONFIG=" + g.cp.KubeconfigPath(), "HOME=" + g.t.TempDir(), "PATH=" + filepath.Dir(g.cp.KubectlPath())}
	cmd.Path = "/bin/sh"
	if out, err := cmd.CombinedOutput(); err != nil {
		g.t.Fatalf("%s: %v: %s", command, err, out)
	}
}

func reasonIs(reason string) func(podcidr.Result) bool {
	return func(r podcidr.Result) bool { return r.Wait.Reason == reason }
}

// TestHardWayCluster: nobody gives ranges, and the evidence says so; the flags are added; the ranges are not those that the pods have, and the
// override that is named resolves it; our own Node gets a range that is nobody else's, and is refused one that is.
func TestHardWayCluster(t *testing.T) {
	g := newRig(t)
	// The allocator gives 10.200.{0,1,2}.0/24 in whatever order: nothing that it gives fits the first node's pods.
	for i, third := range []int{9, 1, 2} {
		g.linux(fmt.Sprintf("worker-%d", i), fmt.Sprintf("10.240.0.2%d", i), fmt.Sprintf("10.200.%d.4", third))
	}
	h := g.host("win-1")
	r := g.until("told that nobody gives ranges", func(r podcidr.Result) bool {
		return r.Wait.Reason == v1alpha1.ReasonNodeCIDRsNotAllocated && strings.Contains(r.Wait.Message, "is being renewed by")
	})
	for _, word := range []string{"none of 3 has one", "no Events CIDRNotAvailable", "cannot be read", "--allocate-node-cidrs=true and --cluster-cidr=10.200.0.0/16"} {
		if !strings.Contains(r.Wait.Message, word) {
			t.Errorf("%q is not said in: %s", word, r.Wait.Message)
		}
	}
	if len(r.Hosts) != 1 || r.Hosts[0] != string(h.UID) || len(r.Mismatches) != 0 {
		t.Errorf("hosts %q, mismatches %q", r.Hosts, r.Mismatches)
	}

	if err := g.cp.RestartControllerManager(allocating()...); err != nil {
		t.Fatal(err)
	}
	r = g.until("told of the mismatch", reasonIs(v1alpha1.ReasonPodCIDRMismatch))
	if !strings.Contains(r.Mismatches[0], "worker-0") || !strings.Contains(r.Mismatches[0], "10.200.9.0/24") {
		t.Errorf("mismatches %q", r.Mismatches)
	}
	command := r.Mismatches[len(r.Mismatches)-1]
	g.runs(command)
	r = g.until("resolved", reasonIs(""))
	if len(r.Mismatches) != 0 {
		t.Errorf("mismatches %q", r.Mismatches)
	}

	g.registers(h)
	r = g.until("given a range", func(r podcidr.Result) bool { return r.Nodes["win-1"].Range != "" })
	if j := r.Nodes["win-1"]; j.Refused != (podcidr.Finding{}) || j.Range != g.node("win-1").Spec.PodCIDR {
		t.Errorf("judged %+v, has %s", j, g.node("win-1").Spec.PodCIDR)
	}
	third := strings.Split(r.Nodes["win-1"].Range, ".")[2]
	g.pod("stray", "worker-1", "10.200."+third+".77")
	r = g.until("refused", func(r podcidr.Result) bool { return r.Nodes["win-1"].Refused != podcidr.Finding{} })
	if f := r.Nodes["win-1"].Refused; f.Reason != v1alpha1.ReasonPodCIDROverlap || !strings.Contains(f.Message, "."+third+".77 of a running pod of Node worker-1") {
		t.Errorf("%+v", f)
	}
	// A second override is added to the first: a JSON patch, since a merge patch would drop the list.
	r = g.until("told of the second mismatch", func(r podcidr.Result) bool { return len(r.Mismatches) > 0 })
	command = r.Mismatches[len(r.Mismatches)-1]
	g.runs(command)
	p := &v1alpha1.WindowsNodeProfile{}
	if err := g.admin.Get(t.Context(), types.NamespacedName{Name: "default"}, p); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(command, "--type=json") || len(p.Spec.Network.Nodes) < 2 {
		t.Errorf("%s made %+v", command, p.Spec.Network.Nodes)
	}
}

// TestOperatorGivesRanges: where the profile says so, and as long as nobody else does.
func TestOperatorGivesRanges(t *testing.T) {
	g := newRig(t)
	for i := range 3 {
		g.linux(fmt.Sprintf("worker-%d", i), fmt.Sprintf("10.240.0.2%d", i), fmt.Sprintf("10.200.%d.4", i))
	}
	h := g.host("win-1")
	r := g.until("told that nobody gives ranges", reasonIs(v1alpha1.ReasonNodeCIDRsNotAllocated))
	_, command, ok := strings.Cut(r.Wait.Message, "or let this operator give ranges to its own Nodes: ")
	if !ok {
		t.Fatalf("no command in: %s", r.Wait.Message)
	}
	g.runs(command)
	r = g.until("told of what it does not know", reasonIs(v1alpha1.ReasonNodeCIDRsIncomplete))
	g.registers(h)
	g.until("still told", reasonIs(v1alpha1.ReasonNodeCIDRsIncomplete))
	if got := g.node("win-1").Spec.PodCIDR; got != "" {
		t.Fatalf("given %s before the ranges of the others were known", got)
	}
	g.runs(r.Mismatches[len(r.Mismatches)-1])
	r = g.until("given a range", func(r podcidr.Result) bool { return r.Nodes["win-1"].Range != "" })
	n := g.node("win-1")
	if n.Spec.PodCIDR != "10.200.3.0/24" || len(n.Spec.PodCIDRs) != 1 || n.Spec.PodCIDRs[0] != n.Spec.PodCIDR || r.Nodes["win-1"].Refused != (podcidr.Finding{}) || r.Wait != (podcidr.Finding{}) {
		t.Errorf("%q, %q; %+v", n.Spec.PodCIDR, n.Spec.PodCIDRs, r)
	}
	for i := range 3 {
		if got := g.node(fmt.Sprintf("worker-%d", i)).Spec.PodCIDR; got != "" {
			t.Errorf("a Node that is not ours was given %s", got)
		}
	}

	if err := g.cp.RestartControllerManager(allocating()...); err != nil {
		t.Fatal(err)
	}
	g.until("told of two writers", reasonIs(v1alpha1.ReasonPodCIDRTwoWriters))
	second := g.host("win-2")
	g.registers(second)
	g.until("given the other's range", func(r podcidr.Result) bool { return r.Nodes["win-2"].Range != "" })
	if mark, ok := g.node("win-2").Annotations[v1alpha1.PodCIDRAnnotation]; ok {
		t.Errorf("the operator gave %s beside another writer", mark)
	}
}
