package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	machinev1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/ticket"
	"github.com/windowsmachine/operator/test/bed"
)

const osLabel = "machine.openshift.io/os-id"

// TestW42MachineDeletion: a Machine that goes takes everything of its host with it, past the real Machine controller's drain; its successor comes at
// the same address with another host key. A Machine that is taken away from the operator keeps its node.
func TestW42MachineDeletion(t *testing.T) {
	t.Parallel()
	r := newRig(t, run.calm)
	began := time.Now()
	if err := r.bed.ApplyMachineSet(r.ctx, 2); err != nil {
		t.Fatal(err)
	}
	r.afterwards(r.deleteMachineSet)
	hosts := r.untilHosts(2, "")
	r.took("MachineSet to two Ready nodes", began)

	t.Run("replaced", func(t *testing.T) {
		s := *r
		s.t = t
		s.replace(hosts[0])
	})
	t.Run("released", func(t *testing.T) {
		s := *r
		s.t = t
		s.release(hosts[1], []string{osLabel + "-"}, []string{osLabel + "=Windows"})
		s.release(hosts[1], []string{v1alpha1.IgnoreLabel + "=true"}, []string{v1alpha1.IgnoreLabel + "-"})
	})
}

// replace deletes the host's Machine and has its successor come at the same address.
func (r *rig) replace(h *v1alpha1.WindowsHost) {
	r.t.Helper()
	seen := r.watchMachine(h.Name)
	run.ips.again(h.Spec.Address)
	defer run.ips.again("")
	began := time.Now()
	r.kubectl("delete", "machine.machine.openshift.io", "-n", bed.MachineNamespace, h.Name, "--timeout=90s")
	r.took("Machine deleted", began)
	if s := seen(); !s.finalizer || !s.drained {
		r.t.Errorf("the Machine did not go through finalizer and drain: %+v", s)
	}
	r.untilTraceless(h)

	hosts := r.untilHosts(2, h.Name)
	r.took("its successor Ready", began)
	i := slices.IndexFunc(hosts, func(o *v1alpha1.WindowsHost) bool { return o.Spec.Address == h.Spec.Address })
	if i < 0 {
		r.t.Fatalf("no Machine came at %s", h.Spec.Address)
	}
	if successor := hosts[i]; successor.Status.HostKey.Fingerprint == h.Status.HostKey.Fingerprint || successor.UID == h.UID {
		r.t.Errorf("the successor has the host key %s of the one before", h.Status.HostKey.Fingerprint)
	}
}

// untilTraceless waits until nothing is left of a host.
func (r *rig) untilTraceless(h *v1alpha1.WindowsHost) {
	r.t.Helper()
	account := ticket.AccountName(h.Name, h.UID)
	r.until("nothing is left of "+h.Name, func() (bool, string) {
		left := []string{}
		for name, there := range map[string]bool{
			"WindowsHost":    r.exists(bed.Namespace, h.Name, &v1alpha1.WindowsHost{}),
			"Node":           r.exists("", h.Status.Node.Name, &corev1.Node{}),
			"ServiceAccount": r.exists(ticket.Namespace, account, &corev1.ServiceAccount{}),
			"Machine":        r.exists(bed.MachineNamespace, h.Name, &machinev1.Machine{}),
		} {
			if there {
				left = append(left, name)
			}
		}
		return len(left) == 0, fmt.Sprint(left)
	})
}

// release takes the Machine away from the operator with labels, checks that its node stays, and gives it back.
func (r *rig) release(h *v1alpha1.WindowsHost, away, back []string) {
	r.t.Helper()
	label := []string{"label", "machine.machine.openshift.io", "-n", bed.MachineNamespace, h.Name}
	r.kubectl(append(slices.Clone(label), away...)...)
	r.until(h.Name+" is paused", func() (bool, string) {
		now := r.get(h.Name)
		return now.Spec.Paused && meta.IsStatusConditionTrue(now.Status.Conditions, v1alpha1.ConditionPaused), state(now)
	})
	if n := r.node(h); !nodeReady(n) || string(n.UID) != h.Status.Node.UID {
		r.t.Errorf("Node %s: Ready %t, UID %s", n.Name, nodeReady(n), n.UID)
	}
	r.kubectl(append(slices.Clone(label), back...)...)
	r.until(h.Name+" goes on", func() (bool, string) {
		now := r.get(h.Name)
		paused := now.Spec.Paused || meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionPaused) != nil
		return !paused && isReady(now), state(now)
	})
	if now := r.get(h.Name); now.UID != h.UID || now.Status.Node.UID != h.Status.Node.UID {
		r.t.Errorf("host and Node are others now: %s, %s", now.UID, now.Status.Node.UID)
	}
}

// untilHosts waits for n Ready hosts of Machines, without the one called gone.
func (r *rig) untilHosts(n int, gone string) []*v1alpha1.WindowsHost {
	r.t.Helper()
	var out []*v1alpha1.WindowsHost
	r.until(fmt.Sprintf("%d hosts of Machines are Ready", n), func() (bool, string) {
		var list v1alpha1.WindowsHostList
		if err := r.bed.Client.List(r.ctx, &list, client.InNamespace(bed.Namespace)); err != nil {
			r.t.Fatal(err)
		}
		out = nil
		saw := ""
		for i := range list.Items {
			h := &list.Items[i]
			if h.Spec.MachineRef == nil || h.Name == gone {
				continue
			}
			saw += h.Name + ": " + state(h) + "\n"
			if isReady(h) {
				out = append(out, h)
			}
		}
		return len(out) == n, saw
	})
	return out
}

func (r *rig) deleteMachineSet(ctx context.Context) {
	r.t.Helper()
	if out, err := r.bed.Kubectl(ctx, "delete", "machineset.machine.openshift.io", "-n", bed.MachineNamespace, "win", "--wait=false"); err != nil {
		r.t.Errorf("%v: %s", err, out)
	}
	// The MachineSet's Machines are deleted by the garbage collector on OpenShift.
	if out, err := r.bed.Kubectl(ctx, "delete", "machine.machine.openshift.io", "-n", bed.MachineNamespace, "--all", "--timeout=50s"); err != nil {
		r.t.Errorf("%v: %s", err, out)
	}
	err := poll(ctx, func() (bool, string) {
		var list v1alpha1.WindowsHostList
		if err := r.bed.Client.List(ctx, &list, client.InNamespace(bed.Namespace)); err != nil {
			return false, err.Error()
		}
		i := slices.IndexFunc(list.Items, func(h v1alpha1.WindowsHost) bool { return h.Spec.MachineRef != nil })
		if i < 0 {
			return true, ""
		}
		return false, state(&list.Items[i])
	})
	if err != nil {
		r.t.Error(err)
	}
}

// path is how a Machine went.
type path struct{ finalizer, drained bool }

// watchMachine watches the Machine and returns what gives the way that it went so far.
func (r *rig) watchMachine(name string) func() path {
	r.t.Helper()
	scheme := runtime.NewScheme()
	if err := machinev1.Install(scheme); err != nil {
		r.t.Fatal(err)
	}
	c, err := client.NewWithWatch(r.bed.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		r.t.Fatal(err)
	}
	w, err := c.Watch(r.ctx, &machinev1.MachineList{}, client.InNamespace(bed.MachineNamespace), client.MatchingFields{"metadata.name": name})
	if err != nil {
		r.t.Fatal(err)
	}
	var mu sync.Mutex
	var went path
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			m, ok := e.Object.(*machinev1.Machine)
			if !ok || m.DeletionTimestamp.IsZero() {
				continue
			}
			mu.Lock()
			went.finalizer = went.finalizer || slices.Contains(m.Finalizers, machinev1.MachineFinalizer)
			for _, c := range m.Status.Conditions {
				went.drained = went.drained || c.Type == machinev1.MachineDrained && c.Status == corev1.ConditionTrue
			}
			mu.Unlock()
		}
	}()
	r.afterwards(func(context.Context) { w.Stop(); <-done })
	return func() path {
		mu.Lock()
		defer mu.Unlock()
		return went
	}
}
