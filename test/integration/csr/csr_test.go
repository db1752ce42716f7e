package csr

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/csr"
	"github.com/windowsmachine/operator/pkg/ticket"
)

// TestOneControlPlane runs all that can share one control plane and one operator.
func TestOneControlPlane(t *testing.T) {
	e := newEnv(t)
	// Sent before the operator starts: it must find them by itself.
	early, earlyTicket := e.host("win-early", "192.0.2.90")
	earlyKey := e.send(earlyTicket, clientOf("early", "win-early"))
	stop := e.startOperator()
	e.client(e.issued("early", earlyKey))
	if err := e.admin.Get(t.Context(), client.ObjectKeyFromObject(early), early); err != nil || early.Status.Ticket.ApprovedCSR != "early" {
		t.Errorf("the ticket was used for %q, %v", early.Status.Ticket.ApprovedCSR, err)
	}

	t.Run("a host joins", func(t *testing.T) { joins(e.with(t)) })
	t.Run("attacks", func(t *testing.T) { attacks(e.with(t)) })
	t.Run("W33 a serving request before its Node", func(t *testing.T) { servingBeforeNode(e.with(t)) })
	t.Run("W34 ghosts", func(t *testing.T) { ghosts(e.with(t)) })
	t.Run("W30 racing administrator", func(t *testing.T) { racing(e.with(t)) })
	t.Run("a new ticket", func(t *testing.T) { newTicket(e.with(t)) })
	t.Run("what a ticket may do", func(t *testing.T) { rights(e.with(t)) })
	t.Run("what the operator may approve", func(t *testing.T) { signers(e.with(t)) })
	t.Run("bindings", func(t *testing.T) { bindings(e.with(t)) })
	stop()
	t.Run("nothing is decided without the operator", func(t *testing.T) { withoutOperator(e.with(t)) })
	t.Run("two operators", func(t *testing.T) { twoOperators(e.with(t)) })
}

// joins is the whole life: first certificate, Node, serving certificate, renewal; each really signed and used.
func joins(e *env) {
	h, tk := e.host("win-1", "192.0.2.11")
	node := e.client(e.issued("first", e.send(tk, clientOf("first", "win-1"))))
	e.registered(h, node)
	e.issued("serving", e.send(node, servingOf("serving", "win-1", "192.0.2.11")))
	renewed := e.client(e.issued("renewed", e.send(node, clientOf("renewed", "win-1"))))
	n := &corev1.Node{}
	if err := renewed.Get(e.t.Context(), types.NamespacedName{Name: "win-1"}, n); err != nil {
		e.t.Errorf("the renewed certificate does not work: %v", err)
	}
	e.hasEvent(h, v1alpha1.EventCSRApproved, "first")
}

func (e *env) hasEvent(h *v1alpha1.WindowsHost, reason, word string) {
	e.t.Helper()
	err := wait.PollUntilContextTimeout(e.t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var list eventsv1.EventList
		if err := e.admin.List(ctx, &list, client.InNamespace(operatorNamespace)); err != nil {
			return false, err
		}
		for i := range list.Items {
			if ev := &list.Items[i]; ev.Regarding.UID == h.UID && ev.Reason == reason && strings.Contains(ev.Note, word) {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		e.t.Errorf("no event %s with %q on %s: %v", reason, word, h.Name, err)
	}
}

// attacks are sent by those who would send them, through the API server's own authentication.
func attacks(e *env) {
	a, ticketA := e.host("win-a", "192.0.2.10")
	b, ticketB := e.host("win-b", "192.0.2.20")
	nodeA, nodeB := e.node("win-a"), e.node("win-b")
	e.registered(a, nodeA)
	e.registered(b, nodeB)
	linux := e.node("linux-1")
	if err := linux.Create(e.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "linux-1"}}); err != nil {
		e.t.Fatal(err)
	}
	for _, as := range []client.Client{nodeA, linux} {
		if err := e.try(as, servingOf("refused", "win-b", "192.0.2.20")); !apierrors.IsForbidden(err) {
			e.t.Errorf("NodeRestriction let a node ask for another: %v", err)
		}
	}
	// The operator does not rely on NodeRestriction, which not every cluster has. It knows nodes by their group: without it,
	// the same users get past it.
	nodeA2, linux2 := e.requester(csr.NodePrefix+"win-a"), e.requester(csr.NodePrefix+"linux-1")
	jane := e.requester("jane")
	bend := func(w want, f func(*want)) want { f(&w); return w }
	rows := []struct {
		as     client.Client
		w      want
		reason csr.Reason
	}{
		{nodeA2, servingOf("serving-as-b", "win-b", "192.0.2.20"), csr.NotItself},
		{nodeA2, clientOf("renewal-as-b", "win-b"), csr.NotItself},
		{nodeA2, clientOf("renewal-as-linux", "linux-1"), csr.NotItself},
		{nodeA2, servingOf("without-group", "win-a", "192.0.2.10"), csr.WrongGroups},
		{nodeA, servingOf("address-of-b", "win-a", "192.0.2.20"), csr.SANNotAllowed},
		{nodeA, bend(servingOf("name-of-b", "win-a", "192.0.2.10"), func(w *want) { w.dns = append(w.dns, "win-b") }), csr.SANNotAllowed},
		{nodeA, bend(servingOf("api-server", "win-a", "192.0.2.10"), func(w *want) { w.dns = append(w.dns, "kubernetes.default.svc") }), csr.SANForbidden},
		{nodeA, servingOf("service", "win-a", "192.0.2.10", "10.96.0.1"), csr.SANForbidden},
		{nodeA, servingOf("loopback", "win-a", "127.0.0.1"), csr.SANForbidden},
		{nodeA, bend(servingOf("no-san", "win-a"), func(w *want) { w.dns = nil }), csr.NoSAN},
		{nodeA, bend(servingOf("masters", "win-a", "192.0.2.10"), func(w *want) { w.org = append(w.org, "system:masters") }), csr.WrongSubject},
		{nodeA, bend(clientOf("masters-client", "win-a"), func(w *want) { w.org = []string{"system:masters"} }), csr.WrongSubject},
		{nodeA, bend(servingOf("client-auth", "win-a", "192.0.2.10"), func(w *want) {
			w.usages = append(w.usages, certificatesv1.UsageClientAuth)
		}), csr.WrongUsages},
		{ticketA, clientOf("ticket-a-as-b", "win-b"), csr.NotItself},
		{ticketA, clientOf("ticket-a-as-linux", "linux-1"), csr.NotItself},
		{ticketB, clientOf("ticket-b-as-part-of-a", "win"), csr.NotItself},
		{ticketA, servingOf("ticket-serving", "win-a", "192.0.2.10"), csr.WrongRequester},
		{linux2, servingOf("linux-as-a", "win-a", "192.0.2.10"), csr.WrongRequester},
		{linux2, clientOf("linux-client-as-a", "win-a"), csr.WrongRequester},
		{jane, clientOf("jane-as-a", "win-a"), csr.WrongRequester},
	}
	for _, row := range rows {
		e.send(row.as, row.w)
	}
	for _, row := range rows {
		e.denied(row.w.name, row.reason)
	}
	// Not ours: left to others. Sent before a good request of ours, so that they were looked at when that one is decided.
	e.send(linux, servingOf("linux-itself", "linux-1", "192.0.2.30"))
	e.send(jane, clientOf("jane-as-ghost", "ghost"))
	admin := clientOf("another-signer", "win-a")
	admin.signer = certificatesv1.KubeAPIServerClientSignerName
	e.send(jane, admin)
	e.issued("good", e.send(nodeA, servingOf("good", "win-a", "192.0.2.10")))
	e.pending("linux-itself", "jane-as-ghost", "another-signer")
	e.hasEvent(a, v1alpha1.EventCSRDenied, "serving-as-b")
	for _, row := range rows {
		if len(e.get(row.w.name).Status.Certificate) > 0 {
			e.t.Errorf("%s was signed", row.w.name)
		}
	}
}

func servingBeforeNode(e *env) {
	h, tk := e.host("win-late", "192.0.2.33")
	node := e.client(e.issued("late-first", e.send(tk, clientOf("late-first", "win-late"))))
	key := e.send(node, servingOf("late-serving", "win-late", "192.0.2.33"))
	e.pending("late-serving")
	e.registered(h, node)
	began := time.Now()
	e.issued("late-serving", key)
	if d := time.Since(began); d > 20*time.Second {
		e.t.Errorf("decided %s after the Node appeared", d)
	}
}

// ghosts: 150 requests of unknown machines, three of a known one, one of another.
func ghosts(e *env) {
	jill := e.requester("jill")
	_, tk := e.host("win-g", "192.0.2.40")
	_, tk2 := e.host("win-h", "192.0.2.41")
	for i := range 150 {
		e.send(jill, clientOf(fmt.Sprintf("ghost-%03d", i), fmt.Sprintf("ghost-%03d", i)))
	}
	began := time.Now()
	keyH := e.send(tk2, clientOf("win-h-0", "win-h"))
	for i := range 3 {
		e.send(tk, clientOf(fmt.Sprintf("win-g-%d", i), "win-g"))
	}
	e.issued("win-h-0", keyH)
	signed := 0
	for i := range 3 {
		o := e.eventually(fmt.Sprintf("win-g-%d", i), "decided", func(o *certificatesv1.CertificateSigningRequest) bool { return len(o.Status.Conditions) > 0 })
		if o.Status.Conditions[0].Type == certificatesv1.CertificateApproved {
			signed++
		}
	}
	if signed != 1 {
		e.t.Errorf("%d of 3 duplicates were approved, want one a ticket", signed)
	}
	if d := time.Since(began); d > 30*time.Second {
		e.t.Errorf("known hosts waited %s", d)
	}
	for i := range 150 {
		e.pending(fmt.Sprintf("ghost-%03d", i))
	}
}

// racing: an administrator decides at the same time; what they denied is never signed, and nothing has two decisions.
func racing(e *env) {
	for i := range 10 {
		name := fmt.Sprintf("win-r%d", i)
		_, tk := e.host(name, fmt.Sprintf("192.0.2.%d", 100+i))
		e.send(tk, clientOf(name, name))
		kind := certificatesv1.CertificateDenied
		if i%2 == 0 {
			kind = certificatesv1.CertificateApproved
		}
		o := e.get(name)
		if len(o.Status.Conditions) > 0 {
			// The administrator reads it when it is decided, and has nothing to do.
			continue
		}
		o.Status.Conditions = append(o.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "Administrator"})
		err := e.admin.SubResource("approval").Update(e.t.Context(), o)
		mine := err == nil
		if err != nil && !apierrors.IsConflict(err) {
			e.t.Fatal(err)
		}
		o = e.eventually(name, "decided", func(o *certificatesv1.CertificateSigningRequest) bool { return len(o.Status.Conditions) > 0 })
		if len(o.Status.Conditions) != 1 || (o.Status.Conditions[0].Reason == "Administrator") != mine {
			e.t.Errorf("%s: %+v", name, o.Status.Conditions)
		}
		if mine && kind == certificatesv1.CertificateDenied && len(o.Status.Certificate) > 0 {
			e.t.Errorf("%s was signed", name)
		}
	}
}

// newTicket: the second request of a ticket is denied; a new ticket is a new account whose predecessor gets nothing more, and
// gives one certificate again.
func newTicket(e *env) {
	h, tk := e.host("win-t", "192.0.2.50")
	e.issued("t-1", e.send(tk, clientOf("t-1", "win-t")))
	e.send(tk, clientOf("t-2", "win-t"))
	e.denied("t-2", csr.TicketUsed)
	again := e.ticket(h)
	// The API server still takes the old token for some seconds; the request that it brings carries the old account's UID.
	old := e.try(tk, clientOf("t-old", "win-t"))
	e.issued("t-3", e.send(again, clientOf("t-3", "win-t")))
	switch {
	case old == nil:
		e.pending("t-old")
	case !apierrors.IsUnauthorized(old):
		e.t.Errorf("the old ticket got %v", old)
	}
	if err := e.issuer.Revoke(e.t.Context(), h); err != nil {
		e.t.Fatal(err)
	}
	for name, c := range map[string]client.Client{"replaced": tk, "revoked": again} {
		if err := e.refused(c); !apierrors.IsUnauthorized(err) {
			e.t.Errorf("a %s ticket still logs in: %v", name, err)
		}
	}
}

// refused returns the error that a ticket's own request gets once its account is gone. The API server remembers a token that it
// found good for up to ten seconds.
func (e *env) refused(tk client.Client) error {
	e.t.Helper()
	var last error
	_ = wait.PollUntilContextTimeout(e.t.Context(), 250*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = tk.List(ctx, &certificatesv1.CertificateSigningRequestList{}, client.Limit(1))
		return last != nil, nil
	})
	return last
}

func rights(e *env) {
	_, tk := e.host("win-p", "192.0.2.60")
	ctx := e.t.Context()
	for name, err := range map[string]error{
		"listing nodes":      tk.List(ctx, &corev1.NodeList{}),
		"listing secrets":    tk.List(ctx, &corev1.SecretList{}, client.InNamespace(ticket.Namespace)),
		"listing accounts":   tk.List(ctx, &corev1.ServiceAccountList{}, client.InNamespace(ticket.Namespace)),
		"listing hosts":      tk.List(ctx, &v1alpha1.WindowsHostList{}, client.InNamespace(operatorNamespace)),
		"making a node":      tk.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x"}}),
		"approving":          tk.SubResource("approval").Update(ctx, e.get("early")),
		"a pod with a token": e.admin.Create(ctx, pod()),
	} {
		if !apierrors.IsForbidden(err) {
			e.t.Errorf("%s: %v, want forbidden", name, err)
		}
	}
}

func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ticket.Namespace, Name: "thief"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.test/x"}}},
	}
}

// signers: the operator's own account cannot approve for another signer, whatever its code does.
func signers(e *env) {
	o := e.get("another-signer")
	o.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "x"}}
	if err := e.client(e.operator()).SubResource("approval").Update(e.t.Context(), o); !apierrors.IsForbidden(err) {
		e.t.Errorf("got %v, want forbidden", err)
	}
}

func bindings(e *env) {
	read := func() []string {
		var list rbacv1.ClusterRoleBindingList
		if err := e.client(e.operator()).List(e.t.Context(), &list); err != nil {
			e.t.Fatal(err)
		}
		return ticket.RiskyBindings(list.Items)
	}
	if got := read(); len(got) != 0 {
		e.t.Errorf("a plain cluster with our manifests has %q", got)
	}
	risky := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "risky"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:serviceaccounts"}},
	}
	if err := e.admin.Create(e.t.Context(), risky); err != nil {
		e.t.Fatal(err)
	}
	if got := read(); len(got) != 1 {
		e.t.Errorf("got %q", got)
	}
	if err := e.admin.Delete(e.t.Context(), risky); err != nil {
		e.t.Fatal(err)
	}
}

// withoutOperator shows that it is the operator, and nobody else, who lets a ticket's request through.
func withoutOperator(e *env) {
	_, tk := e.host("win-w", "192.0.2.70")
	e.send(tk, clientOf("w-1", "win-w"))
	linux := e.node("linux-1")
	e.send(linux, clientOf("w-2", "linux-1"))
	o := e.get("w-2")
	o.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Administrator"}}
	if err := e.admin.SubResource("approval").Update(e.t.Context(), o); err != nil {
		e.t.Fatal(err)
	}
	// The controller manager has looked at the later request, so it has passed by the earlier one.
	e.eventually("w-2", "issued", func(o *certificatesv1.CertificateSigningRequest) bool { return len(o.Status.Certificate) > 0 })
	e.pending("w-1")
}

// twoOperators run at once, as after a lost lease: a ticket still gives one certificate.
func twoOperators(e *env) {
	const hosts = 8
	var tickets []client.Client
	for i := range hosts {
		_, tk := e.host(fmt.Sprintf("win-x%d", i), fmt.Sprintf("192.0.2.%d", 120+i))
		tickets = append(tickets, tk)
	}
	e.startOperator()
	e.startOperator()
	for i, tk := range tickets {
		for k := range 2 {
			e.send(tk, clientOf(fmt.Sprintf("x%d-%d", i, k), fmt.Sprintf("win-x%d", i)))
		}
	}
	for i := range hosts {
		approved := 0
		for k := range 2 {
			o := e.eventually(fmt.Sprintf("x%d-%d", i, k), "decided", func(o *certificatesv1.CertificateSigningRequest) bool { return len(o.Status.Conditions) > 0 })
			if len(o.Status.Conditions) != 1 {
				e.t.Errorf("%s: %+v", o.Name, o.Status.Conditions)
			}
			if o.Status.Conditions[0].Type == certificatesv1.CertificateApproved {
				approved++
			}
		}
		if approved != 1 {
			e.t.Errorf("host %d got %d certificates for one ticket", i, approved)
		}
	}
}
