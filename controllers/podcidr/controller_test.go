package podcidr

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/podcidr"
)

const namespace = "wmo"

func at() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// world is the reconciler over a fake API server, which counts how often pods are listed.
type world struct {
	t        *testing.T
	api      client.WithWatch
	clock    *clocktesting.FakePassiveClock
	recorder *events.FakeRecorder
	r        *Reconciler
	podLists int
}

func newWorld(t *testing.T, hooks interceptor.Funcs, objects ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, clock: clocktesting.NewFakePassiveClock(at()), recorder: events.NewFakeRecorder(100)}
	w.api = fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithStatusSubresource(&v1alpha1.WindowsHost{}).
		WithIndex(&corev1.Pod{}, "status.phase", func(o client.Object) []string {
			p, _ := o.(*corev1.Pod)
			return []string{string(p.Status.Phase)}
		}).
		WithIndex(&corev1.Event{}, "involvedObject.kind", func(o client.Object) []string {
			e, _ := o.(*corev1.Event)
			return []string{e.InvolvedObject.Kind}
		}).
		WithIndex(&corev1.Event{}, "reason", func(o client.Object) []string {
			e, _ := o.(*corev1.Event)
			return []string{e.Reason}
		}).Build()
	counted := interceptor.NewClient(w.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			o := &client.ListOptions{}
			o.ApplyOptions(opts)
			if _, pods := l.(*corev1.PodList); pods && o.Namespace == "" {
				w.podLists++
			}
			return c.List(ctx, l, opts...)
		},
	})
	c := interceptor.NewClient(counted, hooks)
	known := &facts.Store{}
	known.Set("default", facts.Discovered{Cluster: facts.Cluster{
		Mode: string(v1alpha1.NetworkL2Bridge), PodCIDRs: []string{"10.200.0.0/16"}, ServiceCIDRs: []string{"10.32.0.0/24"},
	}})
	w.r = &Reconciler{
		Client: c, Reader: c, Recorder: w.recorder, Clock: w.clock, Facts: known, Store: &podcidr.Store{}, Namespace: namespace,
	}
	return w
}

func request() reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: "default"}}
}

func (w *world) pass() (podcidr.Result, time.Duration) {
	w.t.Helper()
	res, err := w.r.Reconcile(w.t.Context(), request())
	if err != nil {
		w.t.Fatal(err)
	}
	r, _ := w.r.Store.Get("default")
	return r, res.RequeueAfter
}

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	n := &corev1.Node{}
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Name: name}, n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func aProfile(edits ...func(*v1alpha1.WindowsNodeProfile)) *v1alpha1.WindowsNodeProfile {
	p := &v1alpha1.WindowsNodeProfile{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "p"}}
	p.Spec.Network.PodCIDRs = v1alpha1.PodCIDRsSpec{Allocation: v1alpha1.AllocationControllerManager, MaskSize: 24}
	for _, e := range edits {
		e(p)
	}
	return p
}

// byOperator lets the operator give ranges, beside the overrides of a cluster that has none.
func byOperator(p *v1alpha1.WindowsNodeProfile) {
	p.Spec.Network.PodCIDRs.Allocation = v1alpha1.AllocationOperator
	for i := range 3 {
		p.Spec.Network.Nodes = append(p.Spec.Network.Nodes, v1alpha1.NetworkNode{Name: fmt.Sprintf("worker-%d", i), PodCIDRs: []string{fmt.Sprintf("10.200.%d.0/24", i)}})
	}
}

// aHost has the Node of its name, is Ready and has a plan as its edits say.
func aHost(name string, edits ...func(*v1alpha1.WindowsHost)) *v1alpha1.WindowsHost {
	h := &v1alpha1.WindowsHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("host-" + name)}}
	h.Spec.ProfileRef.Name = "default"
	for _, e := range edits {
		e(h)
	}
	return h
}

func begun(h *v1alpha1.WindowsHost) {
	h.Status.Plan = &v1alpha1.PlanStatus{}
	h.Status.Node = &v1alpha1.NodeStatus{Name: h.Name, UID: "uid-" + h.Name}
}

func isReady(h *v1alpha1.WindowsHost) {
	begun(h)
	h.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
}

func aNode(name, cidr string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(at().Add(-time.Hour))}}
	if cidr != "" {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = cidr, []string{cidr}
	}
	return n
}

func aPod(name, node, ip string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}},
	}
	for _, e := range edits {
		e(p)
	}
	return p
}

// workers are three Linux nodes with a pod each on 10.200.{0,1,2}.0/24, and the ranges that their spec says.
func workers(ranges ...string) []client.Object {
	var out []client.Object
	for i, r := range ranges {
		name := fmt.Sprintf("worker-%d", i)
		out = append(out, aNode(name, r), aPod("pod-"+name, name, fmt.Sprintf("10.200.%d.4", i)))
	}
	return out
}

func TestPodsThatCount(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, append(workers("10.200.0.0/24", "10.200.1.0/24", "10.200.2.0/24"), aProfile(), aHost("win-1"),
		aPod("host", "worker-0", "10.240.0.20", func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
		aPod("done", "worker-0", "10.200.9.1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		aPod("pending", "", "10.200.9.2"),
		aPod("both", "worker-0", "10.200.0.8", func(p *corev1.Pod) { p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: "fd00::8"}) }),
		aPod("none", "worker-0", ""))...)
	r, _ := w.pass()
	if len(r.Mismatches) > 0 || r.Wait != (podcidr.Finding{}) {
		t.Errorf("%+v", r)
	}
	want := map[string][]netip.Addr{
		"worker-0": {netip.MustParseAddr("10.200.0.4"), netip.MustParseAddr("10.200.0.8"), netip.MustParseAddr("fd00::8")},
		"worker-1": {netip.MustParseAddr("10.200.1.4")}, "worker-2": {netip.MustParseAddr("10.200.2.4")},
	}
	if diff := cmp.Diff(want, w.r.pods.byNode, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

func TestPodsAreReadAsSeldomAsCanBe(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, append(workers("10.200.0.0/24"), aProfile(), aHost("win-1", isReady), aNode("win-1", "10.200.3.0/24"))...)
	step := func(what string, after time.Duration, lists int, requeue time.Duration) {
		t.Helper()
		w.clock.SetTime(w.clock.Now().Add(after))
		if _, again := w.pass(); w.podLists != lists || again != requeue {
			t.Errorf("%s: pods listed %d times, want %d; again after %s, want %s", what, w.podLists, lists, again, requeue)
		}
	}
	step("all are Ready", 0, 1, every)
	step("a Node changed", time.Minute, 1, every)
	step("ten minutes", every-time.Minute, 2, every)
	if err := w.api.Create(t.Context(), aHost("win-2")); err != nil {
		t.Fatal(err)
	}
	step("a host came soon after", podsUrgent-time.Second, 2, everyWaiting)
	step("it is waiting for something else", podsWaiting-podsUrgent, 2, everyWaiting)
	step("it still is", podsUrgent, 3, everyWaiting)
	if err := w.api.Create(t.Context(), aHost("win-3")); err != nil {
		t.Fatal(err)
	}
	step("another one came", podsUrgent, 4, everyWaiting)
	n := w.node("worker-0")
	n.Spec.PodCIDR, n.Spec.PodCIDRs = "", nil
	if err := w.api.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	step("a Node has no range", everyWaiting, 4, everyWaiting)
	step("it still has none", podsUrgent, 5, everyWaiting)
	for _, name := range []string{"win-1", "win-2", "win-3"} {
		if err := w.api.Delete(t.Context(), aHost(name)); err != nil {
			t.Fatal(err)
		}
	}
	step("no host is there", time.Hour, 5, 0)
	w.r.Facts.Set("default", facts.Discovered{Cluster: facts.Cluster{Mode: string(v1alpha1.NetworkCalico)}})
	step("nobody needs them", time.Hour, 5, 0)
	if r, ok := w.r.Store.Get("default"); !ok || r.Needed {
		t.Errorf("%+v, %t", r, ok)
	}
}

func TestHostsThatWait(t *testing.T) {
	elsewhere := aHost("elsewhere")
	elsewhere.Namespace = "other"
	w := newWorld(t, interceptor.Funcs{}, append(workers(""), aProfile(), aHost("win-2"), aHost("win-1"), aHost("win-3", begun), elsewhere,
		aHost("other", func(h *v1alpha1.WindowsHost) { h.Spec.ProfileRef.Name = "other" }))...)
	r, _ := w.pass()
	if diff := cmp.Diff([]string{"host-win-1", "host-win-2"}, r.Hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
}

func TestControllerEvidence(t *testing.T) {
	mirror := func(name string, args ...string) *corev1.Pod {
		return aPod(name, "cp-1", "10.240.0.10", func(p *corev1.Pod) {
			p.Namespace, p.Labels = "kube-system", map[string]string{"component": "kube-controller-manager"}
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			p.Spec.HostNetwork = true
			p.Spec.Containers = []corev1.Container{{Command: append([]string{"kube-controller-manager"}, args...)}}
		})
	}
	posing := mirror("posing", "--allocate-node-cidrs=true")
	posing.Annotations = nil
	renewed := metav1.NewMicroTime(at().Add(-3 * time.Second))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-controller-manager"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("cp-1_x"), RenewTime: &renewed},
	}
	ev := func(name, reason, kind string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Reason: reason, Message: "note of " + name,
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: "worker-0"},
		}
	}
	w := newWorld(t, interceptor.Funcs{}, append(workers(""), aProfile(), aHost("win-1"), lease, posing,
		mirror("kube-controller-manager-cp1", "--cluster-cidr=10.200.0.0/16"), mirror("kube-controller-manager-cp2", "--allocate-node-cidrs=true"),
		ev("a", podcidr.EventNotAvailable, "Node"), ev("b", podcidr.EventAssignmentFailed, "Node"), ev("c", podcidr.EventNotAvailable, "Pod"), ev("d", "Starting", "Node"))...)
	got, err := w.r.controller(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := podcidr.Controller{
		Lease: &podcidr.Lease{Holder: "cp-1_x", Renewed: renewed.Time}, Args: &podcidr.Args{From: "Pod kube-system/kube-controller-manager-cp2", Allocate: true},
		Events: []podcidr.Event{{Node: "worker-0", Reason: "CIDRNotAvailable", Note: "note of a"}, {Node: "worker-0", Reason: "CIDRAssignmentFailed", Note: "note of b"}},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); diff != "" {
		t.Errorf("evidence (-want +got):\n%s", diff)
	}
}

func TestRefusedReadsAreEvidenceToo(t *testing.T) {
	no := apierrors.NewForbidden(corev1.Resource("x"), "x", nil)
	w := newWorld(t, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, lease := o.(*coordinationv1.Lease); lease {
				return no
			}
			return c.Get(ctx, k, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, ev := l.(*corev1.EventList); ev {
				return no
			}
			return c.List(ctx, l, opts...)
		},
	}, append(workers(""), aProfile(), aHost("win-1"))...)
	r, _ := w.pass()
	if want := "not permitted: get leases.coordination.k8s.io kube-system/kube-controller-manager, list events in default"; !strings.Contains(r.Wait.Message, want) {
		t.Errorf("%q is not said in: %s", want, r.Wait.Message)
	}
}

func TestReadsThatFailAreTriedAgain(t *testing.T) {
	away := errors.New("away")
	for name, hooks := range map[string]interceptor.Funcs{
		"pods": {List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, ok := l.(*corev1.PodList); ok {
				return away
			}
			return c.List(ctx, l, opts...)
		}},
		"lease": {Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*coordinationv1.Lease); ok {
				return away
			}
			return c.Get(ctx, k, o, opts...)
		}},
		"patch": {Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return away
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hooks, append(workers("", "", ""), aProfile(byOperator), aHost("win-1", begun), aNode("win-1", ""))...)
			if _, err := w.r.Reconcile(t.Context(), request()); !errors.Is(err, away) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestOperatorGivesRanges(t *testing.T) {
	foreign := aNode("win-9", "")
	w := newWorld(t, interceptor.Funcs{}, append(workers("", "", ""), aProfile(byOperator, func(p *v1alpha1.WindowsNodeProfile) {
		p.Spec.Network.Nodes = append(p.Spec.Network.Nodes, v1alpha1.NetworkNode{Name: "win-9", PodCIDRs: []string{"10.200.4.0/24"}})
	}), aHost("win-1", begun), aNode("win-1", ""), aHost("win-2", begun), aNode("win-2", ""), foreign,
		aPod("stray", "worker-0", "10.200.3.77"),
		// A Node that took the name of one of ours is not ours.
		aHost("win-9", begun, func(h *v1alpha1.WindowsHost) { h.Status.Node.UID = "another" }))...)
	w.pass()
	for name, want := range map[string]string{"win-1": "10.200.5.0/24", "win-2": "10.200.6.0/24", "worker-0": "", "win-9": ""} {
		n := w.node(name)
		var all []string
		if want != "" {
			all = []string{want}
		}
		if n.Spec.PodCIDR != want || n.Annotations[v1alpha1.PodCIDRAnnotation] != want || cmp.Diff(all, n.Spec.PodCIDRs) != "" {
			t.Errorf("Node %s has %q and %q, marked %q; want %s", name, n.Spec.PodCIDR, n.Spec.PodCIDRs, n.Annotations[v1alpha1.PodCIDRAnnotation], want)
		}
	}
	before := w.node("win-1").ResourceVersion
	r, _ := w.pass()
	if j := r.Nodes["win-1"]; j.Range != "10.200.5.0/24" || j.Refused != (podcidr.Finding{}) || w.node("win-1").ResourceVersion != before {
		t.Errorf("afterwards %+v, version %s after %s", r.Nodes, w.node("win-1").ResourceVersion, before)
	}
}

// What the cache does not know yet was given already: the ranges are counted out of what the API server has.
func TestOperatorGivesByWhatIsThereNow(t *testing.T) {
	fresh := aNode("win-2", "10.200.3.0/24")
	fresh.Annotations = map[string]string{v1alpha1.PodCIDRAnnotation: "10.200.3.0/24"}
	w := newWorld(t, interceptor.Funcs{}, append(workers("", "", ""), aProfile(byOperator), aHost("win-1", begun), aNode("win-1", ""), aHost("win-2", begun), fresh)...)
	stale := interceptor.NewClient(w.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, l, opts...)
			if nodes, ok := l.(*corev1.NodeList); ok {
				for i := range nodes.Items {
					nodes.Items[i].Spec.PodCIDR, nodes.Items[i].Spec.PodCIDRs, nodes.Items[i].ResourceVersion = "", nil, "1"
				}
			}
			return err
		},
	})
	w.r.Client = stale
	w.pass()
	if a, b := w.node("win-1").Spec.PodCIDR, w.node("win-2").Spec.PodCIDR; a != "10.200.4.0/24" || b != "10.200.3.0/24" {
		t.Errorf("win-1 has %s, win-2 has %s", a, b)
	}
}

// TestOnlyOneWriterGives: not one that is no longer the leader, not into a Node that has changed, and not where somebody else gives.
func TestOnlyOneWriterGives(t *testing.T) {
	objects := func(more ...client.Object) []client.Object {
		return append(workers("", "", ""), append(more, aHost("win-1", begun), aNode("win-1", ""), aProfile(byOperator))...)
	}
	t.Run("the leader was lost", func(t *testing.T) {
		w := newWorld(t, interceptor.Funcs{}, objects()...)
		w.r.Leads = func() bool { return false }
		w.pass()
		if got := w.node("win-1").Spec.PodCIDR; got != "" {
			t.Errorf("given %s", got)
		}
	})
	t.Run("the Node changed in between", func(t *testing.T) {
		w := newWorld(t, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				n := &corev1.Node{}
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), n); err != nil {
					return err
				}
				n.Spec.PodCIDR, n.Spec.PodCIDRs = "10.200.77.0/24", []string{"10.200.77.0/24"}
				if err := c.Update(ctx, n); err != nil {
					return err
				}
				return c.Patch(ctx, o, p, opts...)
			},
		}, objects()...)
		if _, err := w.r.Reconcile(t.Context(), request()); !apierrors.IsConflict(err) {
			t.Errorf("error %v, want a conflict", err)
		}
		if got := w.node("win-1").Spec.PodCIDR; got != "10.200.77.0/24" {
			t.Errorf("the other's range became %s", got)
		}
	})
	t.Run("somebody else gives", func(t *testing.T) {
		w := newWorld(t, interceptor.Funcs{}, objects(aNode("worker-9", "10.200.9.0/24"))...)
		r, _ := w.pass()
		if got := w.node("win-1").Spec.PodCIDR; got != "" || r.Wait.Reason != v1alpha1.ReasonPodCIDRTwoWriters {
			t.Errorf("given %q, waits for %+v", got, r.Wait)
		}
	})
}

func TestMismatchesAreToldOnceAChange(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, append(workers("10.200.1.0/24", "10.200.0.0/24", "10.200.2.0/24"), aProfile(), aHost("win-1"))...)
	told := func() (out []string) {
		for len(w.recorder.Events) > 0 {
			out = append(out, <-w.recorder.Events)
		}
		return out
	}
	w.pass()
	if got := told(); len(got) != 1 || !strings.Contains(got[0], v1alpha1.ReasonPodCIDRMismatch) || !strings.Contains(got[0], "kubectl patch winprofile default") {
		t.Errorf("told %q", got)
	}
	w.pass()
	if got := told(); len(got) != 0 {
		t.Errorf("told again %q", got)
	}
}

func TestProfilesThatGo(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, append(workers(""), aProfile(), aHost("win-1"))...)
	w.pass()
	if err := w.api.Delete(t.Context(), aProfile()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.r.Reconcile(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	if _, ok := w.r.Store.Get("default"); ok {
		t.Error("what was found for a deleted profile is still handed out")
	}
}

// pager hands out a list in so many pages.
type pager struct {
	client.Reader
	pages, read int
}

// List implements client.Reader.
func (p *pager) List(_ context.Context, l client.ObjectList, opts ...client.ListOption) error {
	o := &client.ListOptions{}
	o.ApplyOptions(opts)
	if o.Limit != page || o.Continue != strings.Repeat("x", p.read) {
		return fmt.Errorf("limit %d, continue %q after %d pages", o.Limit, o.Continue, p.read)
	}
	p.read++
	if pods, ok := l.(*corev1.PodList); ok {
		pods.Items = []corev1.Pod{*aPod(strconv.Itoa(p.read), "worker-0", fmt.Sprintf("10.200.%d.%d", p.read/250, p.read%250+1))}
	}
	if p.read < p.pages {
		l.SetContinue(strings.Repeat("x", p.read))
	}
	return nil
}

func TestPagesEnd(t *testing.T) {
	for pages, want := range map[int]error{1: nil, 3: nil, maxPages: nil, maxPages + 1: errTooMany} {
		var a addresses
		err := a.refresh(t.Context(), &pager{pages: pages}, at(), every)
		if !errors.Is(err, want) || want == nil && len(a.byNode["worker-0"]) != pages {
			t.Errorf("%d pages: %v, %d addresses", pages, err, len(a.byNode["worker-0"]))
		}
	}
}

func TestWhatBringsAPass(t *testing.T) {
	changes := func(p predicate.Predicate, was, is client.Object) bool {
		return p.Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is})
	}
	for name, c := range map[string]struct {
		is   *corev1.Node
		want bool
	}{
		"a heartbeat": {func() *corev1.Node {
			n := aNode("a", "10.200.0.0/24")
			n.Status.Conditions, n.Labels = []corev1.NodeCondition{{Type: corev1.NodeReady}}, map[string]string{"x": "y"}
			return n
		}(), false},
		"a range": {aNode("a", "10.200.1.0/24"), true},
		"an address": {func() *corev1.Node {
			n := aNode("a", "10.200.0.0/24")
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.240.0.9"}}
			return n
		}(), true},
	} {
		if got := changes(nodeChanged(), aNode("a", "10.200.0.0/24"), c.is); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	for name, c := range map[string]struct {
		is   *v1alpha1.WindowsHost
		want bool
	}{
		"a step":  {aHost("a", func(h *v1alpha1.WindowsHost) { h.Status.Step = "x" }), false},
		"a plan":  {aHost("a", begun), true},
		"ready":   {aHost("a", isReady), true},
		"its own": {aHost("a"), false},
	} {
		if got := changes(hostChanged(), aHost("a"), c.is); got != c.want {
			t.Errorf("host, %s: %t", name, got)
		}
	}
	w := newWorld(t, interceptor.Funcs{}, aProfile())
	if got := w.r.allProfiles(t.Context(), aNode("a", "")); len(got) != 1 || got[0] != request() {
		t.Errorf("a Node brings %v", got)
	}
	if got := profileOf(t.Context(), aHost("a")); len(got) != 1 || got[0] != request() {
		t.Errorf("a host brings %v", got)
	}
}
