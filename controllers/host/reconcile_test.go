package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/pkg/planner"
	"github.com/windowsmachine/operator/pkg/ticket"
	"github.com/windowsmachine/operator/pkg/transport"
)

func handedOver(h *v1alpha1.WindowsHost) bool {
	return h.Status.Plan != nil && h.Status.Plan.Applied != ""
}

func finalized(h *v1alpha1.WindowsHost) { h.Finalizers = []string{v1alpha1.Finalizer} }

func reason(h *v1alpha1.WindowsHost, condition string) string {
	c := meta.FindStatusCondition(h.Status.Conditions, condition)
	if c == nil {
		return ""
	}
	return c.Reason
}

func TestFinalizerComesBeforeTheMachineIsTouched(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
		return errors.New("the API server is away")
	}}, object())
	if _, err := w.once(); err == nil || w.machine.verbs() != "" {
		t.Errorf("error %v, ran %q: the machine was touched and nothing holds the object", err, w.machine.verbs())
	}
	w = newWorld(t, interceptor.Funcs{}, object())
	w.pass()
	if h := w.host(); !slices.Contains(h.Finalizers, v1alpha1.Finalizer) || w.machine.verbs() != "facts" {
		t.Errorf("finalizers %v, ran %q", h.Finalizers, w.machine.verbs())
	}
}

// What a crash between record and hand-over must not lose stands in the API before the machine hears of it.
func TestTicketAndPlanAreOnRecordBeforeTheEnvelopeIsSent(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, object())
	var seen *v1alpha1.WindowsHost
	var sa *corev1.ServiceAccount
	w.machine.onApply = func(plan.Envelope) { seen, sa = w.host(), w.account() }
	w.until("handed over", handedOver)
	if len(w.machine.envelopes) != 1 {
		t.Fatalf("%d envelopes, ran %s", len(w.machine.envelopes), w.machine.verbs())
	}
	e := w.machine.envelopes[0]
	if seen.Status.Plan == nil || seen.Status.Plan.Generation != e.Generation || seen.Status.Plan.Digest != e.Plan.Digest() {
		t.Errorf("plan on record %+v, sent generation %d of %s", seen.Status.Plan, e.Generation, e.Plan.Digest())
	}
	if sa == nil || seen.Status.Ticket == nil || seen.Status.Ticket.ID != string(sa.UID) || seen.Status.Ticket.ServiceAccount != sa.Name {
		t.Fatalf("ticket on record %+v, account %+v", seen.Status.Ticket, sa)
	}
	if want := at().Add(ticket.Lifetime); !seen.Status.Ticket.Expires.Time.Equal(want) {
		t.Errorf("expires %s, want %s", seen.Status.Ticket.Expires, want)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(e.Secrets[planner.BootstrapSecret])
	if err != nil || cfg.BearerToken != token {
		t.Errorf("the envelope does not hold the ticket: %v", err)
	}
	if seen.Status.Node == nil || seen.Status.Node.Name != "win-a" || seen.Status.Node.ManagementIP != "192.0.2.10" {
		t.Errorf("node %+v: name and address are not frozen before the ticket", seen.Status.Node)
	}
	w.wantNoSecret()
}

func (w *world) wantNoSecret() {
	w.t.Helper()
	b, err := json.Marshal(w.host())
	if err != nil {
		w.t.Fatal(err)
	}
	if told := w.told(); strings.Contains(string(b)+told, token) || strings.Contains(told, "PRIVATE KEY") || told == "" {
		w.t.Errorf("the secret is in the object or in an event, or nothing was told:\n%s\n%s", b, told)
	}
}

// Somebody else writes the host between the reading and the writing of each pass in turn: that pass starts nothing.
func TestConflictStartsNothing(t *testing.T) {
	for _, verb := range []string{"facts", "apply"} {
		t.Run(verb, func(t *testing.T) {
			var w *world
			armed := false
			w = newWorld(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if armed {
					w.stand(func(h *v1alpha1.WindowsHost) { h.Labels = map[string]string{"somebody": "was here"} })
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			}}, object(finalized))
			if verb == "apply" {
				w.until("named", func(h *v1alpha1.WindowsHost) bool { return h.Status.Node != nil })
			}
			before, ran := w.host(), w.machine.verbs()
			armed = true
			res := w.pass()
			if w.machine.verbs() != ran {
				t.Errorf("ran %q after %q: the pass rested on a stale view", w.machine.verbs(), ran)
			}
			if res.RequeueAfter <= 0 {
				t.Error("nothing brings the next pass")
			}
			if diff := cmp.Diff(before.Status, w.host().Status); diff != "" {
				t.Errorf("status was written over a newer object:\n%s", diff)
			}
			armed = false
			w.until("handed over", handedOver)
		})
	}
}

// Without a ticket no envelope is sent, and the status says what holds it up.
func TestTicketCannotBeIssued(t *testing.T) {
	broken := true
	w := newWorld(t, interceptor.Funcs{SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, r client.Object, opts ...client.SubResourceCreateOption) error {
		if broken {
			return errors.New("token requests are refused")
		}
		return c.SubResource(sub).Create(ctx, o, r, opts...)
	}}, object())
	var err error
	for range 10 {
		if _, err = w.once(); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "token requests are refused") {
		t.Fatalf("error %v", err)
	}
	h := w.host()
	if strings.Contains(w.machine.verbs(), "apply") || h.Status.Ticket != nil || reason(h, v1alpha1.ConditionReady) != v1alpha1.ReasonTicketFailed {
		t.Errorf("ran %q, ticket %+v, Ready %s", w.machine.verbs(), h.Status.Ticket, reason(h, v1alpha1.ConditionReady))
	}
	broken = false
	w.until("handed over", handedOver)
}

// registers makes the Node as the kubelet does, after the CSR controller approved its certificate.
func (w *world) registers() *corev1.Node {
	w.t.Helper()
	w.stand(func(h *v1alpha1.WindowsHost) { h.Status.Ticket.ApprovedCSR = "csr-1" })
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "win-a", UID: "node-uid", Labels: map[string]string{"kubernetes.io/os": "windows"}, CreationTimestamp: metav1.NewTime(at())},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	if err := w.api.Create(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func TestNodeIsMarkedWithAFieldManagerOfOurOwn(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, object())
	w.label("node-role.kubernetes.io/worker", "")
	w.until("handed over", handedOver)
	if w.account() == nil {
		t.Fatal("no ticket account")
	}
	w.registers()
	h := w.until("registered", func(h *v1alpha1.WindowsHost) bool {
		return reason(h, v1alpha1.ConditionReady) == v1alpha1.ReasonNodeReady && h.Status.Ticket == nil
	})
	n := w.node("win-a")
	if h.Status.Node.UID != string(n.UID) || n.Annotations[v1alpha1.HostUIDAnnotation] != string(h.UID) {
		t.Errorf("node %+v, annotations %v", h.Status.Node, n.Annotations)
	}
	want := map[string]string{"kubernetes.io/os": "windows", "node-role.kubernetes.io/worker": ""}
	if diff := cmp.Diff(want, n.Labels); diff != "" {
		t.Errorf("labels: %s", diff)
	}
	i := slices.IndexFunc(n.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == v1alpha1.FieldManager })
	if i < 0 || n.ManagedFields[i].Operation != metav1.ManagedFieldsOperationApply {
		t.Fatalf("managed fields %+v", n.ManagedFields)
	}
	if own := n.ManagedFields[i].FieldsV1.GetRawString(); strings.Contains(own, "kubernetes.io/os") || !strings.Contains(own, "node-role.kubernetes.io/worker") {
		t.Errorf("the operator owns %s", own)
	}
	if sa := w.account(); sa != nil {
		t.Errorf("the ticket is still there: %s", sa.Name)
	}
	// The plan lost its place for the secret, so the machine was told once more, without one.
	last := w.machine.envelopes[len(w.machine.envelopes)-1]
	if len(last.Plan.Secrets) != 0 || len(last.Secrets) != 0 || last.Generation != 2 {
		t.Errorf("generation %d with %d secrets", last.Generation, len(last.Secrets))
	}
}

// label has the profile give a label to nodes.
func (w *world) label(key, value string) {
	w.t.Helper()
	p := &v1alpha1.WindowsNodeProfile{}
	if !w.get(client.ObjectKey{Name: "default"}, p) {
		w.t.Fatal("no profile")
	}
	p.Spec.Kubelet.Labels = map[string]string{key: value}
	if err := w.api.Update(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
}

// A ticket that was used, and whose kubelet never came, is followed by another one on the machine.
func TestSecondTicketReachesTheMachine(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, object())
	first := w.until("handed over", handedOver).Status.Ticket.ID
	when := metav1.NewTime(at())
	w.stand(func(h *v1alpha1.WindowsHost) {
		h.Status.Ticket.ApprovedCSR, h.Status.Ticket.ApprovedAt = "csr-1", &when
	})
	w.pass()
	if n := len(w.machine.envelopes); n != 1 {
		t.Fatalf("%d envelopes right after the approval", n)
	}
	w.clock.SetTime(at().Add(joinPatience))
	w.told()
	w.pass()
	h := w.host()
	if len(w.machine.envelopes) != 2 || len(w.machine.envelopes[1].Secrets[planner.BootstrapSecret]) == 0 {
		t.Fatalf("%d envelopes, want a second one with a ticket", len(w.machine.envelopes))
	}
	if h.Status.Ticket.ID == first || h.Status.Ticket.ApprovedCSR != "" || h.Status.Ticket.ApprovedAt != nil || h.Status.Ticket.ID != string(w.account().UID) {
		t.Errorf("ticket %+v after %s", h.Status.Ticket, first)
	}
	if !strings.Contains(w.told(), v1alpha1.EventTicketIssued) {
		t.Error("no event about the new ticket")
	}
	w.pass()
	w.pass()
	if n := len(w.machine.envelopes); n != 2 {
		t.Errorf("%d envelopes: the ticket is renewed again and again", n)
	}
}

func TestDeletion(t *testing.T) {
	leaving := func(t *testing.T, hooks interceptor.Funcs) *world {
		t.Helper()
		w := newWorld(t, hooks, object())
		w.until("handed over", handedOver)
		w.registers()
		w.until("registered", func(h *v1alpha1.WindowsHost) bool { return h.Status.Node.UID != "" })
		if err := w.api.Delete(t.Context(), w.host()); err != nil {
			t.Fatal(err)
		}
		return w
	}
	t.Run("cleans machine, ticket and Node", func(t *testing.T) {
		w := leaving(t, interceptor.Funcs{})
		w.pass()
		if h := w.host(); h == nil || !strings.HasSuffix(w.machine.verbs(), "remove") || w.node("win-a") == nil {
			t.Fatalf("host %v, ran %q: the Node stays until the machine is clean", h, w.machine.verbs())
		}
		w.pass()
		if w.host() != nil || w.node("win-a") != nil || w.account() != nil {
			t.Errorf("left: host %t, node %t, account %t", w.host() != nil, w.node("win-a") != nil, w.account() != nil)
		}
		// The object's deletion brings a pass that forgets the session, and waits for its connection to be closed.
		w.pass()
		if n := w.machine.connections(); n != 0 {
			t.Errorf("%d connections are left open", n)
		}
	})
	t.Run("a Node that came after is spared", func(t *testing.T) {
		w := leaving(t, interceptor.Funcs{})
		w.pass()
		n := w.node("win-a")
		if err := w.api.Delete(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if err := w.api.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-a", UID: "another"}}); err != nil {
			t.Fatal(err)
		}
		w.pass()
		if w.host() != nil || w.node("win-a") == nil {
			t.Errorf("host %t, node %t", w.host() != nil, w.node("win-a") != nil)
		}
	})
	t.Run("a ticket that cannot be revoked holds the object", func(t *testing.T) {
		broken := false
		w := leaving(t, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if _, ok := o.(*corev1.ServiceAccount); ok && broken {
				return errors.New("the API server is away")
			}
			return c.Delete(ctx, o, opts...)
		}})
		broken = true
		w.pass()
		if _, err := w.once(); err == nil || w.host() == nil || w.node("win-a") == nil {
			t.Fatalf("error %v, host gone: %t", err, w.host() == nil)
		}
		broken = false
		w.pass()
		if w.host() != nil {
			t.Error("the host stays")
		}
	})
	t.Run("a machine that is away", func(t *testing.T) {
		w := leaving(t, interceptor.Funcs{})
		w.pool.Session(sessionKey(object())).Disconnect()
		w.machine.refuse = transport.ErrUnreachable
		for range 4 {
			w.pass()
			w.clock.SetTime(w.clock.Now().Add(time.Minute))
		}
		h := w.host()
		if h == nil || reason(h, v1alpha1.ConditionDeleting) != v1alpha1.ReasonCleaningFailed {
			t.Fatalf("host %+v", h)
		}
		w.stand(func(h *v1alpha1.WindowsHost) {
			h.Annotations = map[string]string{v1alpha1.SkipCleaningAnnotation: "true"}
		})
		w.pass()
		if w.host() != nil || w.node("win-a") != nil {
			t.Error("the annotation does not let the object go")
		}
	})
}

// Whoever may write WindowsHosts in another namespace can neither add a node, nor delete one, nor hold up one of ours.
func TestHostInAnotherNamespaceDoesNothing(t *testing.T) {
	elsewhere := object(func(h *v1alpha1.WindowsHost) {
		h.Namespace, h.UID, h.Spec.NodeName = "default", "uid-x", "win-a"
		h.CreationTimestamp = metav1.NewTime(at().Add(-time.Hour))
	})
	leaving := object(func(h *v1alpha1.WindowsHost) {
		now := metav1.NewTime(at())
		h.Namespace, h.Name, h.UID = "default", "leaving", "uid-y"
		h.Finalizers, h.DeletionTimestamp = []string{"example.com/mine"}, &now
		h.Status.Node = &v1alpha1.NodeStatus{Name: "master-0", UID: "master-uid"}
		h.Status.OS = &v1alpha1.OSStatus{Build: 20348}
	})
	master := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "master-0", UID: "master-uid"}}
	w := newWorld(t, interceptor.Funcs{}, object(), elsewhere, leaving, master)
	for _, h := range []*v1alpha1.WindowsHost{elsewhere, leaving} {
		if _, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(h)}); err != nil {
			t.Fatal(err)
		}
	}
	if w.node("master-0") == nil {
		t.Error("a status in another namespace had a Node deleted")
	}
	got := &v1alpha1.WindowsHost{}
	if !w.get(client.ObjectKeyFromObject(elsewhere), got) || reason(got, v1alpha1.ConditionReady) != v1alpha1.ReasonNotAllowed || len(got.Finalizers) != 0 {
		t.Errorf("%+v", got)
	}
	if told := w.told(); !strings.Contains(told, v1alpha1.ReasonNotAllowed) || w.machine.verbs() != "" {
		t.Errorf("told %q, ran %q", told, w.machine.verbs())
	}
	w.until("handed over, whatever hosts elsewhere call themselves", handedOver)
}

func TestOrphanedTicketsAreRevoked(t *testing.T) {
	account := func(name, uid string, age time.Duration, label string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Namespace: ticket.Namespace, Name: name, Labels: map[string]string{ticket.ManagedByLabel: label},
			Annotations: map[string]string{v1alpha1.HostUIDAnnotation: uid}, CreationTimestamp: metav1.NewTime(at().Add(-age)),
		}}
	}
	elsewhere := object(func(h *v1alpha1.WindowsHost) { h.Namespace, h.UID = "default", "uid-x" })
	refused := ""
	w := newWorld(t, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		if o.GetName() == refused {
			return errors.New("the API server is away")
		}
		return c.Delete(ctx, o, opts...)
	}}, object(), elsewhere,
		account("alive", "uid-a", time.Hour, ticket.ManagedBy), account("gone", "uid-b", time.Hour, ticket.ManagedBy),
		account("gone-too", "uid-c", time.Hour, ticket.ManagedBy), account("young", "uid-d", time.Minute, ticket.ManagedBy),
		account("not-ours", "uid-e", time.Hour, "somebody"), account("does-not-count", "uid-x", time.Hour, ticket.ManagedBy))
	names := func() []string {
		var list corev1.ServiceAccountList
		if err := w.api.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, sa := range list.Items {
			out = append(out, sa.Name)
		}
		return out
	}
	refused = "gone"
	if err := w.r.revokeOrphans(t.Context()); err == nil {
		t.Error("an account that stays is no error")
	}
	if diff := cmp.Diff([]string{"alive", "gone", "not-ours", "young"}, names()); diff != "" {
		t.Errorf("one that stays keeps others: %s", diff)
	}
	refused = ""
	if err := w.r.revokeOrphans(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"alive", "not-ours", "young"}, names()); diff != "" {
		t.Errorf("accounts: %s", diff)
	}
}

func TestNoticesFitIntoAnEvent(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, object(func(h *v1alpha1.WindowsHost) {
		h.Spec.CredentialsRef = &v1alpha1.SecretReference{Name: strings.Repeat("s", 253)}
	}))
	w.machine.refuse = fmt.Errorf("%w: %s", transport.ErrUnreachable, strings.Repeat("long ", 1000))
	w.pass()
	w.stand(func(h *v1alpha1.WindowsHost) { h.Spec.CredentialsRef = nil })
	w.pass()
	w.pass()
	if h := w.host(); reason(h, v1alpha1.ConditionReady) != v1alpha1.ReasonUnreachable {
		t.Fatalf("Ready %s", reason(h, v1alpha1.ConditionReady))
	}
	long := false
	for _, e := range strings.Split(w.told(), "\n") {
		_, note, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(e, corev1.EventTypeNormal), corev1.EventTypeWarning)), " ")
		long = long || len(note) > 900
		if len(note) > v1alpha1.MaxNote {
			t.Errorf("an event of %d bytes: the API server refuses it", len(note))
		}
	}
	if !long {
		t.Error("no long event was made")
	}
}

func TestGatherSaysWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(*v1alpha1.WindowsHost)
		drop   client.Object
		reason string
	}{
		"Secret of the spec": {func(h *v1alpha1.WindowsHost) { h.Spec.CredentialsRef = &v1alpha1.SecretReference{Name: "mine"} }, nil, v1alpha1.ReasonCredentialsMissing},
		"Secret of the profile": {
			func(*v1alpha1.WindowsHost) {}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "wmo", Name: "cloud-private-key"}},
			v1alpha1.ReasonCredentialsMissing,
		},
		"profile":       {func(h *v1alpha1.WindowsHost) { h.Spec.ProfileRef.Name = "other" }, nil, v1alpha1.ReasonProfileMissing},
		"facts not yet": {func(h *v1alpha1.WindowsHost) { h.Spec.ProfileRef.Name = "new" }, nil, v1alpha1.ReasonNotChecked},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, interceptor.Funcs{}, object(c.edit), &v1alpha1.WindowsNodeProfile{ObjectMeta: metav1.ObjectMeta{Name: "new"}})
			if c.drop != nil {
				if err := w.api.Delete(t.Context(), c.drop); err != nil {
					t.Fatal(err)
				}
			}
			w.pass()
			if got := reason(w.host(), v1alpha1.ConditionReady); got != c.reason || w.machine.verbs() != "" {
				t.Errorf("Ready %s, want %s; ran %q", got, c.reason, w.machine.verbs())
			}
		})
	}
}

func TestErrorOfTheAPIServerIsTriedAgain(t *testing.T) {
	for _, kind := range []client.Object{&v1alpha1.WindowsNodeProfile{}, &corev1.Secret{}, &corev1.Node{}} {
		w := newWorld(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if sameKind(o, kind) {
				return errors.New("the API server is away")
			}
			return c.Get(ctx, key, o, opts...)
		}}, object(func(h *v1alpha1.WindowsHost) { h.Spec.NodeName = "win-a" }))
		if _, err := w.once(); err == nil || w.machine.verbs() != "" {
			t.Errorf("%T: error %v, ran %q", kind, err, w.machine.verbs())
		}
	}
}

func sameKind(a, b any) bool { return cmp.Equal(typeName(a), typeName(b)) }

func typeName(o any) string {
	switch o.(type) {
	case *v1alpha1.WindowsNodeProfile:
		return "profile"
	case *corev1.Secret:
		return "secret"
	case *corev1.Node:
		return "node"
	}
	return ""
}

func TestPassRunsNothingTwice(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{}, object())
	w.until("handed over", handedOver)
	ran := w.machine.verbs()
	before := w.host().ResourceVersion
	for range 5 {
		w.pass()
	}
	if w.machine.verbs() != ran || w.host().ResourceVersion != before {
		t.Errorf("ran %q after %q, version %s after %s: a pass that finds nothing changed does something", w.machine.verbs(), ran, w.host().ResourceVersion, before)
	}
	if strings.Count(ran, string(host.VerbApply)) != 1 {
		t.Errorf("ran %q", ran)
	}
}
