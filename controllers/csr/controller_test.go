package csr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/csr"
)

const (
	approved = string(certificatesv1.CertificateApproved)
	denied   = string(certificatesv1.CertificateDenied)
)

func TestFirstClientCertificate(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, windowsHost("win-a", "192.0.2.10"), firstClient(t, "csr-1", "win-a"))
	if res := w.run("csr-1"); res.RequeueAfter != 0 {
		t.Errorf("looks again after %s", res.RequeueAfter)
	}
	w.wantVerdict("csr-1", approved)
	c := w.csr("csr-1").Status.Conditions[0]
	if c.Reason != v1alpha1.FieldManager || !strings.HasPrefix(c.Message, string(csr.FirstClient)) || c.Status != corev1.ConditionTrue {
		t.Errorf("condition %+v", c)
	}
	if got := w.host("win-a").Status.Ticket; got.ApprovedCSR != "csr-1" || got.ApprovedAt == nil || !got.ApprovedAt.Time.Equal(clockNow()) || got.ApprovedBoot != "b1" {
		t.Errorf("the ticket was used for %q at %s in boot %q", got.ApprovedCSR, got.ApprovedAt, got.ApprovedBoot)
	}
	ev := w.events()
	if len(ev) != 2 || !strings.Contains(ev[0], v1alpha1.EventCSRApproved) {
		t.Errorf("events %q", ev)
	}
	if n := metric(t, w, "windowsmachine_csr_verdicts_total", "Approve", string(csr.FirstClient)); n != 1 {
		t.Errorf("counted %v approvals", n)
	}
	// Looking at it once more changes nothing.
	w.run("csr-1")
	w.wantVerdict("csr-1", approved)
}

func TestServingCertificate(t *testing.T) {
	n, l := node("win-a", "192.0.2.10")
	other, otherLease := node("win-b", "192.0.2.20")
	w := newWorld(t, interceptor.Funcs{}, windowsHost("win-a", "192.0.2.10"), windowsHost("win-b", "192.0.2.20"), n, l, other, otherLease,
		serving(t, "good", "win-a", "192.0.2.10"), serving(t, "others", "win-a", "192.0.2.10", "192.0.2.20"))
	w.run("good")
	w.wantVerdict("good", approved)
	w.run("others")
	w.wantVerdict("others", denied)
	var warnings int
	for _, e := range w.events() {
		if strings.HasPrefix(e, corev1.EventTypeWarning) && strings.Contains(e, string(csr.SANNotAllowed)) {
			warnings++
		}
	}
	if warnings != 2 {
		t.Errorf("%d warnings about the denial, want one on the host and one on the request", warnings)
	}
	if w.host("win-a").Status.Ticket.ApprovedCSR != "" {
		t.Error("a serving certificate used up the ticket")
	}
}

// A crash between the record and the approval loses nothing: the same request is approved later, another one is not.
func TestRecordComesBeforeApproval(t *testing.T) {
	down := true
	hooks := interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
		if sub == "approval" && down {
			return errors.New("the operator ends here")
		}
		return c.SubResource(sub).Update(ctx, o, opts...)
	}}
	w := newWorld(t, hooks, windowsHost("win-a", "192.0.2.10"), firstClient(t, "csr-1", "win-a"))
	if _, err := w.reconcile.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "csr-1"}}); err == nil {
		t.Fatal("no error")
	}
	w.wantVerdict("csr-1", "")
	if got := w.host("win-a").Status.Ticket.ApprovedCSR; got != "csr-1" {
		t.Fatalf("recorded %q", got)
	}
	down = false
	stolen := firstClient(t, "csr-2", "win-a")
	if err := w.client.Create(t.Context(), stolen); err != nil {
		t.Fatal(err)
	}
	w.run("csr-2")
	w.wantVerdict("csr-2", denied)
	w.run("csr-1")
	w.wantVerdict("csr-1", approved)
}

// Of two operators that both think they lead, one gives the ticket away.
func TestOneApprovalATicket(t *testing.T) {
	var other *world
	hooks := interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
		if h, ok := o.(*v1alpha1.WindowsHost); ok && h.Status.Ticket.ApprovedCSR == "csr-2" {
			fresh := other.host("win-a")
			if fresh.Status.Ticket.ApprovedCSR == "" {
				fresh.Status.Ticket.ApprovedCSR = "csr-1"
				if err := other.client.Status().Update(ctx, fresh); err != nil {
					return err
				}
			}
		}
		return c.SubResource(sub).Patch(ctx, o, p, opts...)
	}}
	w := newWorld(t, hooks, windowsHost("win-a", "192.0.2.10"), firstClient(t, "csr-1", "win-a"), firstClient(t, "csr-2", "win-a"))
	other = w
	w.run("csr-2")
	w.wantVerdict("csr-2", denied)
	w.run("csr-1")
	w.wantVerdict("csr-1", approved)
}

// TestW30ChangedMeanwhile has somebody write between the operator's reading and its writing.
func TestW30ChangedMeanwhile(t *testing.T) {
	condition := func(kind certificatesv1.RequestConditionType) func(*world) {
		return func(w *world) {
			o := w.csr("csr-1")
			o.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: "Somebody"}}
			if err := w.client.Status().Update(w.t.Context(), o); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		name   string
		meddle func(*world)
		times  int
		check  func(*testing.T, *world, ctrl.Result)
	}{
		{"approved", condition(certificatesv1.CertificateApproved), 1, bySomebody(approved)},
		{"denied", condition(certificatesv1.CertificateDenied), 1, bySomebody(denied)},
		{"labelled twice", label, 2, func(t *testing.T, w *world, res ctrl.Result) {
			t.Helper()
			w.wantVerdict("csr-1", approved)
			if c := w.csr("csr-1").Status.Conditions[0]; c.Reason != v1alpha1.FieldManager {
				t.Errorf("decided by %s", c.Reason)
			}
		}},
		{"labelled for ever", label, 1000, func(t *testing.T, w *world, res ctrl.Result) {
			t.Helper()
			w.wantVerdict("csr-1", "")
			if res.RequeueAfter != afterConflicts {
				t.Errorf("looks again after %s", res.RequeueAfter)
			}
		}},
		{"deleted", func(w *world) {
			if err := w.client.Delete(w.t.Context(), w.csr("csr-1")); err != nil {
				w.t.Fatal(err)
			}
		}, 1, func(t *testing.T, w *world, res ctrl.Result) {
			t.Helper()
			if res != (ctrl.Result{}) {
				t.Errorf("result %+v", res)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var w *world
			calls := 0
			hooks := interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				if calls++; calls <= tc.times {
					tc.meddle(w)
				}
				return c.SubResource(sub).Update(ctx, o, opts...)
			}}
			w = newWorld(t, hooks, windowsHost("win-a", "192.0.2.10"), firstClient(t, "csr-1", "win-a"))
			tc.check(t, w, w.run("csr-1"))
			if calls > maxAttempts {
				t.Errorf("wrote %d times", calls)
			}
		})
	}
}

// A cache that has not heard of the decision yet: the write is refused, and the API server itself is asked what happened.
func TestW30CacheLags(t *testing.T) {
	old := firstClient(t, "csr-1", "win-a")
	hooks := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if r, ok := o.(*certificatesv1.CertificateSigningRequest); ok {
			old.DeepCopyInto(r)
			return nil
		}
		return c.Get(ctx, key, o, opts...)
	}}
	w := newWorld(t, hooks, windowsHost("win-a", "192.0.2.10"), old.DeepCopy())
	old.ResourceVersion = w.csr("csr-1").ResourceVersion
	o := w.csr("csr-1")
	o.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue, Reason: "Somebody"}}
	if err := w.client.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	bySomebody(denied)(t, w, w.run("csr-1"))
	if w.live["csr"] != 1 {
		t.Errorf("the request was read from the API server %d times", w.live["csr"])
	}
}

func label(w *world) {
	o := w.csr("csr-1")
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	o.Labels["n"] += "x"
	if err := w.client.Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func bySomebody(verdict string) func(*testing.T, *world, ctrl.Result) {
	return func(t *testing.T, w *world, res ctrl.Result) {
		t.Helper()
		w.wantVerdict("csr-1", verdict)
		if c := w.csr("csr-1").Status.Conditions[0]; c.Reason != "Somebody" {
			t.Errorf("decided by %s", c.Reason)
		}
		if res != (ctrl.Result{}) {
			t.Errorf("result %+v", res)
		}
	}
}

// The Node comes after its serving request: the request waits, and the Node's event finds it.
func TestW33RequestBeforeItsNode(t *testing.T) {
	n, l := node("win-a", "192.0.2.10")
	w := newWorld(t, interceptor.Funcs{}, windowsHost("win-a", "192.0.2.10"), serving(t, "csr-1", "win-a", "192.0.2.10"))
	if res := w.run("csr-1"); res.RequeueAfter <= 0 || res.RequeueAfter > time.Minute {
		t.Errorf("looks again after %s", res.RequeueAfter)
	}
	w.wantVerdict("csr-1", "")
	for _, o := range []client.Object{n, l} {
		if err := w.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	found := w.reconcile.requestsOfNode(t.Context(), n)
	want := []ctrl.Request{{NamespacedName: types.NamespacedName{Name: "csr-1"}}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Fatalf("the Node's event finds -want +got\n%s", diff)
	}
	w.run(found[0].Name)
	w.wantVerdict("csr-1", approved)
	if found := w.reconcile.requestsOfNode(t.Context(), n); len(found) != 0 {
		t.Errorf("a decided request is found again: %v", found)
	}
}

func TestHostEventFindsRequests(t *testing.T) {
	h := windowsHost("win-a", "192.0.2.10")
	w := newWorld(t, interceptor.Funcs{}, h, firstClient(t, "mine", "win-a"), firstClient(t, "others", "win-b"), firstClient(t, "ghost", "win-a2"))
	want := []ctrl.Request{{NamespacedName: types.NamespacedName{Name: "mine"}}}
	if diff := cmp.Diff(want, w.reconcile.requestsOfHost(t.Context(), h)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	elsewhere := h.DeepCopy()
	elsewhere.Namespace = "default"
	if got := w.reconcile.requestsOfHost(t.Context(), elsewhere); len(got) != 0 {
		t.Errorf("a host in another namespace finds %v", got)
	}
}

// Many strangers cost nothing that is read from the API server, and known hosts get theirs, the newest of duplicates.
func TestW34Ghosts(t *testing.T) {
	objects := []client.Object{windowsHost("win-a", "192.0.2.10"), windowsHost("win-c", "192.0.2.12")}
	var names []string
	add := func(o *certificatesv1.CertificateSigningRequest) {
		objects = append(objects, o)
		names = append(names, o.Name)
	}
	for i := range 150 {
		o := firstClient(t, fmt.Sprintf("ghost-%03d", i), fmt.Sprintf("ghost-%03d", i))
		o.Spec.Username, o.Spec.Groups = "system:bootstrap:abcdef", []string{"system:bootstrappers", "system:authenticated"}
		add(o)
	}
	for i, age := range []time.Duration{30 * time.Second, 20 * time.Second, 10 * time.Second} {
		o := firstClient(t, fmt.Sprintf("win-a-%d", i), "win-a")
		o.CreationTimestamp = metav1.NewTime(clockNow().Add(-age))
		add(o)
	}
	add(firstClient(t, "win-c-0", "win-c"))
	w := newWorld(t, interceptor.Funcs{}, objects...)
	for _, name := range names[:150] {
		w.run(name)
		w.wantVerdict(name, "")
	}
	if len(w.live) != 0 {
		t.Errorf("strangers cost reads: %v", w.live)
	}
	for _, name := range names[150:] {
		w.run(name)
	}
	w.wantVerdict("win-a-0", "")
	w.wantVerdict("win-a-1", "")
	w.wantVerdict("win-a-2", approved)
	w.wantVerdict("win-c-0", approved)
	// The two older ones find the ticket used and end; nothing loops.
	for _, name := range []string{"win-a-0", "win-a-1"} {
		if res := w.run(name); res != (ctrl.Result{}) {
			t.Errorf("%s: result %+v", name, res)
		}
		w.wantVerdict(name, denied)
	}
	if n := metric(t, w, "windowsmachine_csr_verdicts_total", "Ignore", string(csr.NotOurs)); n != 150 {
		t.Errorf("counted %v strangers", n)
	}
	if w.live["host"] > 2*len(names[150:]) {
		t.Errorf("reads %v", w.live)
	}
}

// A stolen token of an earlier ticket cannot hold up the present one by sending newer requests.
func TestEarlierTicketOvertakesNothing(t *testing.T) {
	stolen := firstClient(t, "newer", "win-a")
	stolen.Spec.UID = "sa-before"
	stolen.CreationTimestamp = metav1.NewTime(clockNow())
	w := newWorld(t, interceptor.Funcs{}, windowsHost("win-a", "192.0.2.10"), firstClient(t, "csr-1", "win-a"), stolen)
	w.run("csr-1")
	w.wantVerdict("csr-1", approved)
	w.run("newer")
	w.wantVerdict("newer", "")
	w.clock.SetTime(clockNow().Add(csr.Settle + time.Second))
	w.run("newer")
	w.wantVerdict("newer", denied)
}

func TestOldRequestsCostNothing(t *testing.T) {
	o := firstClient(t, "csr-1", "win-a")
	o.CreationTimestamp = metav1.NewTime(clockNow().Add(-25 * time.Hour))
	w := newWorld(t, interceptor.Funcs{}, windowsHost("win-a", "192.0.2.10"), o)
	if res := w.run("csr-1"); res != (ctrl.Result{}) {
		t.Errorf("result %+v", res)
	}
	w.wantVerdict("csr-1", "")
	if len(w.live) != 0 {
		t.Errorf("reads %v", w.live)
	}
}

func TestHostElsewhereDoesNotCount(t *testing.T) {
	h := windowsHost("win-a", "192.0.2.10")
	h.Namespace = "default"
	w := newWorld(t, interceptor.Funcs{}, h, firstClient(t, "csr-1", "win-a"))
	w.run("csr-1")
	w.wantVerdict("csr-1", "")
}

// A machine that was installed anew waits until its old Node is silent; a person is told.
func TestNodeAliveWaitsAndTells(t *testing.T) {
	n, l := node("win-a", "192.0.2.10")
	w := newWorld(t, interceptor.Funcs{}, windowsHost("win-a", "192.0.2.10"), n, l, firstClient(t, "csr-1", "win-a"))
	w.run("csr-1")
	w.wantVerdict("csr-1", "")
	if ev := w.events(); len(ev) != 1 || !strings.Contains(ev[0], v1alpha1.EventCSRWaiting) || !strings.Contains(ev[0], "alive 5s ago") {
		t.Errorf("events %q", ev)
	}
	w.clock.SetTime(clockNow().Add(csr.LeaseStale))
	w.run("csr-1")
	w.wantVerdict("csr-1", approved)
}

func TestErrorsAreReturned(t *testing.T) {
	boom := errors.New("boom")
	for _, tc := range []struct {
		name  string
		hooks interceptor.Funcs
	}{
		{"patching the host", interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return boom
		}}},
		{"forbidden to approve", interceptor.Funcs{SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}}
		}}},
		{"listing hosts", interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return boom }}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.hooks, windowsHost("win-a", "192.0.2.10"), firstClient(t, "csr-1", "win-a"))
			if _, err := w.reconcile.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "csr-1"}}); err == nil {
				t.Error("no error")
			}
			w.wantVerdict("csr-1", "")
		})
	}
}

// metric reads a counter with labels reason and verdict.
func metric(t *testing.T, w *world, name, verdict, reason string) float64 {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name {
				continue
			}
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["verdict"] == verdict && labels["reason"] == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// TestSleeperDecidesNothing: an operator that was suspended and wakes up neither approves nor spends a ticket.
func TestSleeperDecidesNothing(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, windowsHost("win-a", "192.0.2.10"), firstClient(t, "csr-1", "win-a"))
	w.reconcile.options.Leads = func() bool { return false }
	_, err := w.reconcile.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "csr-1"}})
	if !errors.Is(err, errNotLeading) {
		t.Errorf("deciding without the lead ended with %v", err)
	}
	w.wantVerdict("csr-1", "")
	if got := w.host("win-a").Status.Ticket.ApprovedCSR; got != "" {
		t.Errorf("the ticket was spent for %q", got)
	}
	w.reconcile.options.Leads = func() bool { return true }
	w.run("csr-1")
	w.wantVerdict("csr-1", approved)
}
