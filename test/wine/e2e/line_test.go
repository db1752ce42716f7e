//go:build linux && wine

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/test/bed"
	"github.com/windowsmachine/operator/test/wine"
)

const (
	// readyLimit is the promise: from Provisioned to Ready, both machines side by side.
	readyLimit = 60 * time.Second
	// returnLimit is for a machine that comes back by itself, with the node's lease of 40 s.
	returnLimit = 2 * time.Minute
	// channelLimit is the promise for a first configuration.
	channelLimit = 5
	certificate  = `C:\var\lib\kubelet\pki\kubelet-client-current.pem`
)

// TestLine is the life of two machines, step by step; each step rests on those before it.
//
//evidence:wine upload facts node start-service reboot
func TestLine(t *testing.T) {
	r := newRig(t)
	names := r.twoNodes()
	if t.Failed() || len(names) != 2 {
		t.FailNow()
	}
	for _, step := range []struct {
		name string
		run  func(*rig)
	}{
		{"kubelets answer", func(r *rig) {
			for _, n := range names {
				r.untilHealthy(n, 10*time.Second)
			}
		}},
		{"what it cost", func(r *rig) { r.cost(names) }},
		{"kube-proxy", func(r *rig) { r.proxy(names[0]) }},
		{"kubelet killed", func(r *rig) { r.killed(names[0]) }},
		{"plug pulled", func(r *rig) { r.comesBack(names[0], r.pullPlug) }},
		{"reboot", func(r *rig) { r.comesBack(names[1], r.restart) }},
		{"own host removed", func(r *rig) { r.ownHost() }},
		{"nothing forbidden", func(r *rig) { r.nothingStarted() }},
	} {
		began := time.Now()
		ok := t.Run(step.name, func(t *testing.T) { step.run(&rig{Bed: r.Bed, t: t, yard: r.yard}) })
		t.Logf("%s: %.1f s", step.name, time.Since(began).Seconds())
		if !ok {
			t.FailNow()
		}
	}
}

// twoNodes has the operator make nodes of a MachineSet of two.
func (r *rig) twoNodes() []string {
	r.t.Helper()
	ctx := r.t.Context()
	r.must(r.ApplyProfile(ctx))
	r.must(r.StartOperator(ctx))
	line := r.watch(ctx)
	began := time.Now()
	r.must(r.ApplyMachineSet(ctx, 2))
	limit := readyLimit
	defer func() { r.t.Logf("\n%s", line.print()) }()
	took := r.untilReady(2, 3*limit)
	r.look(ctx, line)
	r.t.Logf("both Ready %.1f s after the MachineSet, its machines' boot included", took.Seconds())
	if took > limit {
		r.t.Errorf("both Ready after %s, want at most %s", time.Since(began), limit)
	}
	var names []string
	for _, h := range r.hosts() {
		names = append(names, h.Name)
		n := r.node(h.Name)
		if n.Labels[corev1.LabelOSStable] != "windows" || n.Labels["node.kubernetes.io/windows-build"] != "10.0.20348" {
			r.t.Errorf("labels of %s: %v", n.Name, n.Labels)
		}
		if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "os" && t.Value == "Windows" && t.Effect == "NoSchedule" }) {
			r.t.Errorf("taints of %s: %v", n.Name, n.Spec.Taints)
		}
	}
	slices.Sort(names)
	return names
}

// cost holds what a first configuration may take.
func (r *rig) cost(names []string) {
	for _, n := range names {
		m, _ := r.yard.machine(n)
		s, err := m.SSH()
		r.must(err)
		r.t.Logf("%s: %d SSH connections, %d channels: %s", n, s.Connections, len(s.Channels), strings.Join(s.Channels, " | "))
		if len(s.Channels) > channelLimit {
			r.t.Errorf("%s: %d SSH channels, want at most %d", n, len(s.Channels), channelLimit)
		}
		if got := m.HNS().Networks(); !slices.Equal(got, []string{"windowsmachine"}) {
			r.t.Errorf("%s: HNS networks %v", n, got)
		}
		if got := m.FirewallRules(); !slices.Equal(got, []string{"windowsmachine-kubelet", "windowsmachine-kube-proxy"}) {
			r.t.Errorf("%s: firewall rules %v", n, got)
		}
	}
}

// killed kills a kubelet and waits until the agent's loop has it back.
func (r *rig) killed(name string) {
	m, _ := r.yard.machine(name)
	r.must(m.Kill(r.t.Context(), "kubelet.exe"))
	down := r.until(name+"'s kubelet is gone", 20*time.Second, func() (bool, string) {
		out, err := r.healthz(name)
		return err != nil, out
	})
	up := r.untilHealthy(name, returnLimit)
	r.t.Logf("%s: kubelet.exe killed, gone after %.1f s, answers again %.1f s later", name, down.Seconds(), up.Seconds())
}

func (r *rig) pullPlug(m *wine.Machine) error {
	// What the service manager knows must have reached the disk; without it there is nobody who would begin anything at the next boot.
	r.until("the last service is on the disk of "+m.Name(), time.Minute, func() (bool, string) {
		b, err := m.Registry()
		r.must(err)
		return bytes.Contains(b, []byte(`Services\\kube-proxy]`)), "it is not"
	})
	if err := m.PullPlug(); err != nil {
		return err
	}
	return m.PowerOn(r.t.Context())
}

func (r *rig) restart(m *wine.Machine) error { return m.Restart(r.t.Context()) }

// comesBack boots a machine in some way and waits until its node is as before, with the same certificate.
func (r *rig) comesBack(name string, boot func(*wine.Machine) error) {
	m, _ := r.yard.machine(name)
	before, err := m.File(certificate)
	r.must(err)
	bootID := lastBoot(m)
	uid := r.node(name).UID
	began := time.Now()
	r.must(boot(m))
	up := time.Since(began)
	// The agent sees to the machine by itself; the operator has nothing to do.
	r.until(name+"'s agent is done in its new boot", returnLimit, func() (bool, string) {
		all := journal(m)
		return lastBoot(m) != bootID && all[len(all)-1].Code == "RunDone", fmt.Sprintf("%+v", all[len(all)-1])
	})
	agent := time.Since(began)
	r.untilHealthy(name, returnLimit)
	healthy := time.Since(began)
	r.until(name+" is Ready in its new boot", returnLimit, func() (bool, string) {
		ok, words := standing(r.host(name))
		return ok && isReady(r.node(name)) && r.renewed(name).After(began.Add(agent)), words
	})
	r.t.Logf("%s: SSH answers after %.1f s, the agent is done after %.1f s, the kubelet answers after %.1f s and has renewed its lease after %.1f s",
		name, up.Seconds(), agent.Seconds(), healthy.Seconds(), time.Since(began).Seconds())
	after, err := m.File(certificate)
	r.must(err)
	if string(before) != string(after) {
		r.t.Errorf("%s has another client certificate", name)
	}
	if got := r.node(name).UID; got != uid {
		r.t.Errorf("%s is another Node: %s, was %s", name, got, uid)
	}
}

// lastBoot is the boot of the newest entry of an agent's journal.
func lastBoot(m *wine.Machine) string {
	boot := ""
	for _, e := range journal(m) {
		if e.BootID != "" {
			boot = e.BootID
		}
	}
	return boot
}

// renewed is when a kubelet last renewed its lease.
func (r *rig) renewed(name string) time.Time {
	r.t.Helper()
	lease := &coordinationv1.Lease{}
	r.must(r.Client.Get(r.t.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: name}, lease))
	return lease.Spec.RenewTime.Time
}

// isReady is whether a Node's condition says so.
func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// ownHost makes a node of a machine that an admin brings, whose Windows lacks the feature Containers, and removes it again.
func (r *rig) ownHost() {
	ctx := r.t.Context()
	const name = "own-1"
	m, err := r.yard.make(ctx, name, func(o *wine.Options) { o.FeatureMissing = true })
	r.must(err)
	files, services := r.inventory(m)
	h := &v1alpha1.WindowsHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: bed.Namespace, Name: name},
		Spec: v1alpha1.WindowsHostSpec{
			Address: m.Address(), Username: "Administrator",
			HostKeys: []string{strings.TrimSpace(string(ssh.MarshalAuthorizedKey(m.HostKey())))},
		},
	}
	began := time.Now()
	r.must(r.Client.Create(ctx, h))
	r.untilReady(3, returnLimit)
	r.t.Logf("%s: Ready after %.1f s with %d boots", name, time.Since(began).Seconds(), m.Boots())
	if m.Boots() != 2 {
		r.t.Errorf("%d boots, want one more for the feature Containers", m.Boots())
	}
	r.untilHealthy(name, 10*time.Second)
	r.must(r.Client.Delete(ctx, h))
	took := r.until(name+" is gone", returnLimit, func() (bool, string) {
		left := &v1alpha1.WindowsHost{}
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(h), left)
		if apierrors.IsNotFound(err) {
			return true, ""
		}
		_, words := standing(left)
		return false, words
	})
	r.t.Logf("%s: removed after %.1f s", name, took.Seconds())
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &corev1.Node{}); !apierrors.IsNotFound(err) {
		r.t.Errorf("the Node is still there: %v", err)
	}
	filesAfter, servicesAfter := r.inventory(m)
	if diff := cmp.Diff(files, filesAfter); diff != "" {
		r.t.Errorf("files of the machine (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(services, servicesAfter); diff != "" {
		r.t.Errorf("services of the machine (-before +after):\n%s", diff)
	}
	if got := m.HNS().Networks(); len(got) > 0 {
		r.t.Errorf("HNS networks %v", got)
	}
	if got := m.FirewallRules(); len(got) > 0 {
		r.t.Errorf("firewall rules %v", got)
	}
}

// inventory is what is on a machine: files with digests, services with command lines.
func (r *rig) inventory(m *wine.Machine) (files, services map[string]string) {
	r.t.Helper()
	files, err := m.Files()
	r.must(err)
	list, err := m.Services(r.t.Context())
	r.must(err)
	services = map[string]string{}
	for name, s := range list {
		// Wine makes a service for each driver host as it needs one.
		if !strings.HasPrefix(name, "Winedevice") {
			services[name] = s.Command
		}
	}
	return files, services
}

// nothingStarted: no machine has started PowerShell or its like.
func (r *rig) nothingStarted() {
	var errs []error
	for _, m := range r.yard.all() {
		for _, line := range slices.Sorted(slices.Values(m.Started())) {
			errs = append(errs, fmt.Errorf("%s started %s", m.Name(), line))
		}
	}
	r.must(errors.Join(errs...))
}
