package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/ticket"
	"github.com/windowsmachine/operator/test/bed"
)

const workerRole = "node-role.kubernetes.io/worker"

// TestHostByHand is an admin's own machine: joined with a key of its own, and brought back to what it was.
//
//evidence:fake upload facts node
func TestHostByHand(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.calm)
	private, public := newKey(t, "own")
	secret := keySecret(unique("own-key"), private)
	r.create(secret)
	m := r.machine("hand", authorize(public))
	before := m.Machine().Dump()

	began := time.Now()
	h := r.join(hostOf(m, withProfile(profileBridge), withSecret(secret.Name)))
	h = r.untilReady(h.Name)
	r.took("created to Ready", began)
	checkNode(t, r.node(h), h)
	checkTicketGone(r, h)

	began = time.Now()
	r.kubectl("delete", "winhost", "-n", bed.Namespace, h.Name, "--timeout=60s")
	r.took("deleted and clean", began)
	if n := (&corev1.Node{}); r.exists("", h.Status.Node.Name, n) {
		t.Errorf("Node %s is still there", n.Name)
	}
	checkTicketGone(r, h)
	// Nothing is ignored. The address comes back a moment after the network was taken away.
	eventually(r.ctx, t, "the machine is what it was", func() (bool, string) {
		diff := cmp.Diff(before, m.Machine().Dump())
		return diff == "", "-before +after\n" + diff
	})
	r.untilClosed(m)
	if events := r.events(h, v1alpha1.ReasonCleaningFailed); len(events) > 0 {
		t.Errorf("the link that drops with the network is an alarm: %s", events[0].Message)
	}
}

func checkNode(t *testing.T, n *corev1.Node, h *v1alpha1.WindowsHost) {
	t.Helper()
	if !nodeReady(n) || string(n.UID) != h.Status.Node.UID {
		t.Errorf("Node %s: ready %t, UID %s, the host says %s", n.Name, nodeReady(n), n.UID, h.Status.Node.UID)
	}
	got := map[string]string{"os": n.Labels[corev1.LabelOSStable], "team": n.Labels["team"], "host": n.Annotations[v1alpha1.HostUIDAnnotation], "worker": "no"}
	if _, ok := n.Labels[workerRole]; ok {
		got["worker"] = "yes"
	}
	want := map[string]string{"os": "windows", "team": "a", "host": string(h.UID), "worker": "yes"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels and annotations: -want +got\n%s", diff)
	}
	taint := []corev1.Taint{{Key: "os", Value: "Windows", Effect: corev1.TaintEffectNoSchedule}}
	if diff := cmp.Diff(taint, n.Spec.Taints); diff != "" {
		t.Errorf("taints: -want +got\n%s", diff)
	}
}

// checkTicketGone also makes sure that there was one.
func checkTicketGone(r *rig, h *v1alpha1.WindowsHost) {
	r.t.Helper()
	if h.Status.Ticket != nil {
		r.t.Errorf("status.ticket is %+v", h.Status.Ticket)
	}
	var list corev1.ServiceAccountList
	if err := r.bed.Client.List(r.ctx, &list, client.InNamespace(ticket.Namespace)); err != nil {
		r.t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Annotations[v1alpha1.HostUIDAnnotation] == string(h.UID) {
			r.t.Errorf("the ticket's account %s is still there", list.Items[i].Name)
		}
	}
	if events := r.events(h, v1alpha1.EventTicketIssued); len(events) == 0 {
		r.t.Error("no event tells of a ticket")
	}
}

// untilClosed waits until no connection to the machine is open.
func (r *rig) untilClosed(m *machine) {
	r.t.Helper()
	r.until("connections to "+m.name+" are closed", func() (bool, string) {
		open := m.Stats().Open
		return open == 0, fmt.Sprintf("%d are open", open)
	})
}

// events are those of the host with that reason.
func (r *rig) events(h *v1alpha1.WindowsHost, reason string) []corev1.Event {
	r.t.Helper()
	var list corev1.EventList
	if err := r.bed.Client.List(r.ctx, &list, client.InNamespace(h.Namespace)); err != nil {
		r.t.Fatal(err)
	}
	var out []corev1.Event
	for i := range list.Items {
		if e := &list.Items[i]; e.InvolvedObject.UID == h.UID && e.Reason == reason {
			out = append(out, *e)
		}
	}
	return out
}
