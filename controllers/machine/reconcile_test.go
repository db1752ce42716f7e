package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	machinev1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

const hostNamespace = "windows-machine-operator"

// world is the reconciler over a fake API server.
type world struct {
	t        *testing.T
	api      client.WithWatch
	clock    *clocktesting.FakePassiveClock
	recorder *events.FakeRecorder
	r        *Reconciler
}

func newWorld(t *testing.T, hooks interceptor.Funcs, objects ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, clock: clocktesting.NewFakePassiveClock(now()), recorder: events.NewFakeRecorder(1000)}
	w.api = fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.WindowsHost{}, &machinev1.Machine{}).Build()
	w.r = &Reconciler{Client: interceptor.NewClient(w.api, hooks), Recorder: w.recorder, Clock: w.clock, Namespace: hostNamespace}
	return w
}

// pass runs n passes for a Machine.
func (w *world) pass(n int) {
	w.t.Helper()
	for range n {
		if _, err := w.r.Reconcile(w.t.Context(), machineRequest("openshift-machine-api")); err != nil {
			w.t.Fatal(err)
		}
	}
}

func machineRequest(namespace string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: "win-a"}}
}

// host reads the Machine's host, nil when there is none.
func (w *world) host() *v1alpha1.WindowsHost {
	w.t.Helper()
	h := &v1alpha1.WindowsHost{}
	err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: hostNamespace, Name: "win-a"}, h)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		w.t.Fatal(err)
	}
	return h
}

// machine changes the Machine, status too.
func (w *world) machine(edit func(*machinev1.Machine)) {
	w.t.Helper()
	m := &machinev1.Machine{}
	key := machineRequest("openshift-machine-api").NamespacedName
	if err := w.api.Get(w.t.Context(), key, m); err != nil {
		w.t.Fatal(err)
	}
	edit(m)
	status := m.Status.DeepCopy()
	if err := w.api.Update(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
	m.Status = *status
	// Without its last finalizer it is gone by now.
	if err := w.api.Status().Update(w.t.Context(), m); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
}

func (w *world) told() string {
	var out []string
	for len(w.recorder.Events) > 0 {
		out = append(out, <-w.recorder.Events)
	}
	return strings.Join(out, "\n")
}

// TestW19MachineFromItsFirstMomentToItsLast goes through what a Machine looks like while its virtual machine comes and goes.
func TestW19MachineFromItsFirstMomentToItsLast(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, aMachine(func(m *machinev1.Machine) {
		m.Status = machinev1.MachineStatus{}
		m.Finalizers = []string{"machine.machine.openshift.io"}
	}))
	w.pass(1)
	if w.host() != nil || w.told() != "" {
		t.Fatal("a Machine without a phase has a host")
	}
	w.machine(func(m *machinev1.Machine) { m.Status = aMachine(phase(machinev1.PhaseProvisioning)).Status })
	w.pass(1)
	if w.host() != nil {
		t.Fatal("a Machine that is being provisioned has a host")
	}
	w.machine(phase(machinev1.PhaseProvisioned))
	w.pass(3)
	h := w.host()
	if h == nil || h.Spec.MachineRef.UID != "uid-a" || h.Spec.Address != "192.0.2.29" || len(h.OwnerReferences) != 0 {
		t.Fatalf("host %+v", h)
	}
	if diff := cmp.Diff([]string{"192.0.2.29", "win-a"}, h.Status.MachineAddresses); diff != "" || !h.Status.MachineProvisioned.Time.Equal(now()) {
		t.Errorf("provisioned %s, addresses %s", h.Status.MachineProvisioned, diff)
	}
	if told := w.told(); strings.Count(told, v1alpha1.EventHostCreated) != 1 {
		t.Errorf("told %q", told)
	}
	// Provisioned → Failed → Provisioned within a second: the window of trust does not begin again.
	version := h.ResourceVersion
	w.clock.SetTime(now().Add(time.Minute))
	for _, p := range []string{machinev1.PhaseFailed, machinev1.PhaseProvisioned, machinev1.PhaseRunning} {
		w.machine(phase(p))
		w.pass(1)
	}
	if h = w.host(); h.ResourceVersion != version || h.Spec.Paused {
		t.Errorf("the host was written: version %s after %s", h.ResourceVersion, version)
	}
	// Deleting, and the addresses are gone already.
	m := aMachine()
	if err := w.api.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.machine(func(m *machinev1.Machine) {
		deleting := machinev1.PhaseDeleting
		m.Status = machinev1.MachineStatus{Phase: &deleting}
	})
	w.pass(2)
	if h = w.host(); h == nil || !h.Spec.Paused || h.Spec.Address != "192.0.2.29" {
		t.Fatalf("host %+v, want it paused and with its address while the node is drained", h)
	}
	w.machine(func(m *machinev1.Machine) { m.Finalizers = nil })
	w.pass(2)
	if w.host() != nil {
		t.Error("the host outlives its Machine")
	}
	w.pass(1)
}

func TestW19LabelsComeAndGo(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, aMachine(func(m *machinev1.Machine) { m.Labels[OSLabel] = "windows" }))
	w.pass(1)
	if w.host() != nil {
		t.Fatal("os-id=windows has a host")
	}
	w.machine(func(m *machinev1.Machine) { m.Labels[OSLabel] = OSLabelValue })
	w.pass(2)
	w.told()
	w.machine(func(m *machinev1.Machine) { m.Labels[v1alpha1.IgnoreLabel] = "true" })
	w.pass(2)
	if h := w.host(); h == nil || !h.Spec.Paused {
		t.Fatalf("host %+v of an ignored Machine is not paused", h)
	}
	if told := w.told(); strings.Count(told, v1alpha1.EventMachineReleased) != 1 {
		t.Errorf("told %q", told)
	}
	w.machine(func(m *machinev1.Machine) { delete(m.Labels, v1alpha1.IgnoreLabel) })
	w.pass(2)
	if h := w.host(); h.Spec.Paused || len(h.Annotations) != 0 {
		t.Errorf("host %+v stays paused", h)
	}
	w.machine(func(m *machinev1.Machine) { delete(m.Labels, OSLabel) })
	w.pass(1)
	if err := w.api.Delete(t.Context(), aMachine()); err != nil {
		t.Fatal(err)
	}
	w.pass(1)
	if w.host() != nil {
		t.Error("the host of a Machine without a label outlives it")
	}
}

// A Machine that was deleted and made again under its name while nobody looked: the old host goes first, then the new one comes.
func TestW19ReplacedMachineIsANewHost(t *testing.T) {
	old := aMachine(func(m *machinev1.Machine) { m.UID = "uid-old" })
	stale := aHost(old, func(h *v1alpha1.WindowsHost) { h.Finalizers = []string{v1alpha1.Finalizer} })
	w := newWorld(t, interceptor.Funcs{}, aMachine(), stale)
	w.pass(2)
	h := w.host()
	if h == nil || h.DeletionTimestamp.IsZero() || h.Spec.MachineRef.UID != "uid-old" {
		t.Fatalf("host %+v, want the old one being deleted and untouched", h)
	}
	h.Finalizers = nil
	if err := w.api.Update(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	w.pass(2)
	if h = w.host(); h == nil || h.Spec.MachineRef.UID != "uid-a" || !h.DeletionTimestamp.IsZero() {
		t.Errorf("host %+v, want a new one", h)
	}
}

// A deletion must not hit the host that came after the one that was looked at.
func TestDeletionNamesTheHostThatWasSeen(t *testing.T) {
	var uid types.UID
	w := newWorld(t, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		d := client.DeleteOptions{}
		d.ApplyOptions(opts)
		if d.Preconditions != nil && d.Preconditions.UID != nil {
			uid = *d.Preconditions.UID
		}
		return c.Delete(ctx, o, opts...)
	}}, aHost(aMachine()))
	w.pass(1)
	if uid != "uid-host" || w.host() != nil {
		t.Errorf("deleted with UID %q", uid)
	}
}

func TestHostOfAnotherNamespacesMachineStays(t *testing.T) {
	h := aHost(aMachine())
	w := newWorld(t, interceptor.Funcs{}, h, aMachine(func(m *machinev1.Machine) { m.Namespace, m.UID = "elsewhere", "uid-b" }))
	if _, err := w.r.Reconcile(t.Context(), machineRequest("gone")); err != nil {
		t.Fatal(err)
	}
	if w.host() == nil {
		t.Fatal("a Machine that is gone elsewhere took the host with it")
	}
	if _, err := w.r.Reconcile(t.Context(), machineRequest("elsewhere")); err != nil {
		t.Fatal(err)
	}
	if told := w.told(); !strings.Contains(told, v1alpha1.EventNameConflict) || w.host().Spec.MachineRef.UID != "uid-a" {
		t.Errorf("told %q", told)
	}
}

func TestErrorsAreTriedAgain(t *testing.T) {
	away := errors.New("the API server is away")
	for name, c := range map[string]struct {
		hooks   interceptor.Funcs
		objects []client.Object
	}{
		"create": {
			interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return away }},
			[]client.Object{aMachine()},
		},
		"delete": {
			interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return away }},
			[]client.Object{aHost(aMachine())},
		},
		"update": {
			interceptor.Funcs{Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return away }},
			[]client.Object{aMachine(func(m *machinev1.Machine) { m.Status.Addresses[0].Address = "192.0.2.30" }), aHost(aMachine())},
		},
		"nodes": {
			interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return away }},
			[]client.Object{aMachine()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.hooks, c.objects...)
			if _, err := w.r.Reconcile(t.Context(), machineRequest("openshift-machine-api")); !errors.Is(err, away) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// What the API server refuses as an address or a status must not come from a Machine: the host would never be made, and only the log
// would say why.
func TestW18NamesThatTheAPIRefusesDoNotCount(t *testing.T) {
	dns := func(names ...string) []corev1.NodeAddress {
		var out []corev1.NodeAddress
		for _, n := range names {
			out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: n})
		}
		return out
	}
	for name, c := range map[string]struct {
		addrs []corev1.NodeAddress
		want  string
	}{
		"underscore": {dns("win_a", "win-b.example.test"), "win-b.example.test"},
		"upper case": {dns("WIN-A.Example.Test"), "win-a.example.test"},
		"like an IP": {dns("192.0.2.029"), ""},
		"empty":      {dns(""), ""},
		"too long":   {dns(strings.Repeat("a.", 127) + "a"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pickAddress(c.addrs, false); got != c.want {
				t.Errorf("pickAddress = %q, want %q", got, c.want)
			}
		})
	}
}

func TestCertificateNamesFitIntoTheStatus(t *testing.T) {
	m := aMachine(func(m *machinev1.Machine) {
		for i := range 1000 {
			m.Status.Addresses = append(m.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", i/256, i%256)})
		}
		m.Status.Addresses = append(m.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: strings.Repeat("a", 300)})
	})
	got := certificateNames(m)
	if len(got) != v1alpha1.MaxMachineAddresses || got[0] != "10.0.0.0" {
		t.Errorf("%d names, the first %s", len(got), got[0])
	}
	for _, n := range got {
		if len(n) > v1alpha1.MaxAddressLength {
			t.Errorf("a name of %d characters", len(n))
		}
	}
}

func TestOnlyWindowsMachinesWakeTheController(t *testing.T) {
	linux := aMachine(func(m *machinev1.Machine) { m.Labels = nil })
	p := windowsOnly()
	for name, c := range map[string]struct{ got, want bool }{
		"new, Windows":      {p.Create(event.CreateEvent{Object: aMachine()}), true},
		"new, Linux":        {p.Create(event.CreateEvent{Object: linux}), false},
		"lost the label":    {p.Update(event.UpdateEvent{ObjectOld: aMachine(), ObjectNew: linux}), true},
		"gained the label":  {p.Update(event.UpdateEvent{ObjectOld: linux, ObjectNew: aMachine()}), true},
		"Linux all along":   {p.Update(event.UpdateEvent{ObjectOld: linux, ObjectNew: linux}), false},
		"deleted, Windows":  {p.Delete(event.DeleteEvent{Object: aMachine()}), true},
		"deleted, no label": {p.Delete(event.DeleteEvent{Object: linux}), true},
	} {
		if c.got != c.want {
			t.Errorf("%s: wakes it %t, want %t", name, c.got, c.want)
		}
	}
	if got := machineOfHost(t.Context(), aHost(aMachine())); len(got) != 1 || got[0] != machineRequest("openshift-machine-api") {
		t.Errorf("a host leads to %v", got)
	}
	if got := machineOfHost(t.Context(), &v1alpha1.WindowsHost{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}); len(got) != 0 {
		t.Errorf("a host made by hand leads to %v", got)
	}
}
