package api

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	machinev1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windowsmachine/operator/controllers/machine"
	"github.com/windowsmachine/operator/controllers/profile"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
)

// TestW19MachinesOnARealServer takes real Machines through the states of W19, as the operator's own account.
func TestW19MachinesOnARealServer(t *testing.T) {
	operator, _ := as(t, namespace, account)
	r := &machine.Reconciler{Client: operator, Recorder: events.NewFakeRecorder(100), Clock: clock.RealClock{}, Namespace: namespace}
	m := &machinev1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: machineNamespace, Name: "win-w19", Labels: map[string]string{machine.OSLabel: machine.OSLabelValue},
			Finalizers: []string{machinev1.MachineFinalizer},
		},
	}
	if err := admin.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(m)
	pass := func() *v1alpha1.WindowsHost {
		t.Helper()
		for range 2 {
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
		}
		var hosts v1alpha1.WindowsHostList
		if err := admin.List(t.Context(), &hosts, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(hosts.Items, func(h v1alpha1.WindowsHost) bool { return h.Name == m.Name })
		if i < 0 {
			return nil
		}
		return &hosts.Items[i]
	}
	status := func(phase string, addresses ...corev1.NodeAddress) {
		t.Helper()
		if err := admin.Get(t.Context(), key, m); err != nil {
			t.Fatal(err)
		}
		m.Status = machinev1.MachineStatus{Phase: &phase, Addresses: addresses}
		if err := admin.Status().Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	ip := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "192.0.2.19"}
	if pass() != nil {
		t.Fatal("a Machine without a phase has a host")
	}
	status(machinev1.PhaseProvisioned)
	if pass() != nil {
		t.Fatal("a Machine without an address has a host")
	}
	status(machinev1.PhaseProvisioned, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fe80::1"}, ip)
	h := pass()
	if h == nil || h.Spec.Address != ip.Address || h.Spec.MachineRef.UID != string(m.UID) || h.Status.MachineProvisioned == nil {
		t.Fatalf("host %+v", h)
	}
	provisioned := *h.Status.MachineProvisioned
	status(machinev1.PhaseFailed)
	pass()
	status(machinev1.PhaseRunning, ip)
	if h = pass(); h == nil || h.Spec.Paused || !h.Status.MachineProvisioned.Equal(&provisioned) {
		t.Fatalf("host %+v", h)
	}
	if err := admin.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	status(machinev1.PhaseDeleting)
	if h = pass(); h == nil || !h.Spec.Paused {
		t.Fatalf("host %+v of a Machine that is being deleted", h)
	}
	if err := admin.Get(t.Context(), key, m); err != nil {
		t.Fatal(err)
	}
	m.Finalizers = nil
	if err := admin.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if h = pass(); h != nil {
		t.Errorf("host %+v outlives its Machine", h)
	}
}

// The profile controller with the operator's own account: the default profile is whole, and a dangerous binding is told of.
func TestProfileOnARealServer(t *testing.T) {
	operator, cfg := as(t, namespace, account)
	rec := events.NewFakeRecorder(100)
	r := &profile.Reconciler{Client: operator, Reader: operator, Recorder: rec, Facts: &facts.Store{}, Namespace: namespace, Config: cfg}
	p := aProfile()
	create(t, p)
	create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:node-autoapprove-bootstrap"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:bootstrappers:kubeadm:default-node-token"}},
	})
	for range 3 {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: p.Name}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
		t.Fatal(err)
	}
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionBindingsSafe)
	if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "kubeadm:node-autoapprove-bootstrap") {
		t.Errorf("condition %+v", c)
	}
	if n := len(rec.Events); n != 1 {
		t.Errorf("told %d times", n)
	}
	if p.Status.Discovered == nil || len(p.Status.Discovered.ServiceCIDRs) == 0 {
		t.Errorf("discovered %+v", p.Status.Discovered)
	}
}

// An event whose note is as long as the code lets it be is taken, and one that is longer is not: it would be lost.
func TestEventsTakeTheLongestNote(t *testing.T) {
	operator, _ := as(t, namespace, account)
	h := aHost()
	create(t, h)
	for length, want := range map[int]bool{v1alpha1.MaxNote: true, v1alpha1.MaxNote + 1: false} {
		body := map[string]any{
			"apiVersion": "events.k8s.io/v1", "kind": "Event",
			"metadata":  map[string]any{"namespace": namespace, "generateName": "note-"},
			"eventTime": "2026-11-30T12:00:00.000000Z", "reportingController": "host", "reportingInstance": "x", "action": "Reconcile",
			"reason": v1alpha1.ReasonUnreachable, "type": "Warning", "note": v1alpha1.Clip(strings.Repeat("n", length), length),
			"regarding": map[string]any{"apiVersion": "windowsmachine.dev/v1alpha1", "kind": "WindowsHost", "namespace": namespace, "name": h.Name, "uid": h.UID},
		}
		err := createRaw(t.Context(), operator, body)
		if (err == nil) != want {
			t.Errorf("a note of %d bytes: %v", length, err)
		}
	}
}

func createRaw(ctx context.Context, c client.Client, body map[string]any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	o := rawObject()
	if err := json.Unmarshal(b, o); err != nil {
		return err
	}
	return c.Create(ctx, o)
}
