//go:build linux && wine

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	machinev1 "github.com/openshift/api/machine/v1beta1"
	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

// The marks of a machine's way, in order.
const (
	markProvisioned = "provisioned"
	markDial        = "dial"
	markFacts       = "facts"
	markStaged      = "staged"
	markServices    = "services"
	markCSR         = "client CSR"
	markApproved    = "approved"
	markNode        = "Node"
	markNodeReady   = "Node Ready"
	markReady       = "Ready"
)

func marks() []string {
	return []string{markDial, markFacts, markStaged, markServices, markCSR, markApproved, markNode, markNodeReady, markReady}
}

// timeline notes when each mark was first seen of each machine. It looks ten times a second, so that it is not sharper than that.
type timeline struct {
	mu   sync.Mutex
	seen map[string]map[string]time.Time
}

// watch looks until ctx ends.
func (r *rig) watch(ctx context.Context) *timeline {
	t := &timeline{seen: map[string]map[string]time.Time{}}
	go func() {
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			r.look(ctx, t)
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	}()
	return t
}

func (t *timeline) note(machine, mark string, there bool, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen[machine] == nil {
		t.seen[machine] = map[string]time.Time{}
	}
	if _, already := t.seen[machine][mark]; there && !already {
		t.seen[machine][mark] = at
	}
}

// look takes one look; what cannot be read now is read the next time.
func (r *rig) look(ctx context.Context, t *timeline) {
	now := time.Now()
	var machines machinev1.MachineList
	if r.Client.List(ctx, &machines) == nil {
		for i := range machines.Items {
			m := &machines.Items[i]
			phase := ptr.Deref(m.Status.Phase, "")
			t.note(m.Name, markProvisioned, phase == "Provisioned" || phase == "Running", now)
		}
	}
	var hosts v1alpha1.WindowsHostList
	if r.Client.List(ctx, &hosts) == nil {
		for i := range hosts.Items {
			r.lookAtHost(t, &hosts.Items[i], now)
		}
	}
	var nodes corev1.NodeList
	if r.Client.List(ctx, &nodes) == nil {
		for i := range nodes.Items {
			t.note(nodes.Items[i].Name, markNode, true, now)
			t.note(nodes.Items[i].Name, markNodeReady, isReady(&nodes.Items[i]), now)
		}
	}
	var requests certv1.CertificateSigningRequestList
	if r.Client.List(ctx, &requests) == nil {
		for i := range requests.Items {
			c := &requests.Items[i]
			if at := strings.LastIndex(c.Spec.Username, ":"); c.Spec.SignerName == certv1.KubeAPIServerClientKubeletSignerName && at > 0 {
				t.note(r.hostOf(hosts.Items, c.Spec.Username[at+1:]), markCSR, true, now)
				t.note(r.hostOf(hosts.Items, c.Spec.Username[at+1:]), markApproved, len(c.Status.Conditions) > 0, now)
			}
		}
	}
}

// hostOf is the host whose ticket's ServiceAccount has that name.
func (r *rig) hostOf(hosts []v1alpha1.WindowsHost, account string) string {
	for i := range hosts {
		if t := hosts[i].Status.Ticket; t != nil && t.ServiceAccount == account {
			return hosts[i].Name
		}
	}
	return ""
}

func (r *rig) lookAtHost(t *timeline, h *v1alpha1.WindowsHost, now time.Time) {
	is := func(kind string) bool { return meta.IsStatusConditionTrue(h.Status.Conditions, kind) }
	t.note(h.Name, markDial, is(v1alpha1.ConditionReachable), now)
	t.note(h.Name, markFacts, h.Status.OS != nil, now)
	t.note(h.Name, markReady, is(v1alpha1.ConditionReady), now)
	if m, ok := r.yard.machine(h.Name); ok {
		for _, e := range journal(m) {
			t.note(h.Name, markStaged, e.Code == "Accepted", e.Time)
			t.note(h.Name, markServices, e.Step == "start-kubelet" && (e.Code == "StepApplied" || e.Code == "StepInSync"), e.Time)
		}
	}
}

// print returns a row a machine, in seconds since its Machine was Provisioned.
func (t *timeline) print() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s", "seconds")
	for _, m := range marks() {
		fmt.Fprintf(&b, "%12s", m)
	}
	for name, seen := range t.seen {
		began, ok := seen[markProvisioned]
		if !ok {
			continue
		}
		fmt.Fprintf(&b, "\n%-14s", name)
		for _, m := range marks() {
			if at, ok := seen[m]; ok {
				fmt.Fprintf(&b, "%12.1f", at.Sub(began).Seconds())
			} else {
				fmt.Fprintf(&b, "%12s", "-")
			}
		}
	}
	return b.String()
}
