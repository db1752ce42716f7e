package machine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	machinev1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

func now() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// aMachine is a Windows Machine that is Provisioned with one address, changed by edits.
func aMachine(edits ...func(*machinev1.Machine)) *machinev1.Machine {
	phase := machinev1.PhaseProvisioned
	m := &machinev1.Machine{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now().Add(-time.Hour)), Namespace: "openshift-machine-api", Name: "win-a", UID: "uid-a", Labels: map[string]string{OSLabel: OSLabelValue}},
		Status: machinev1.MachineStatus{
			Conditions: []machinev1.Condition{{
				Type: machinev1.InstanceExistsCondition, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now()),
			}},
			Phase:     &phase,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.29"}, {Type: corev1.NodeInternalDNS, Address: "win-a"}},
		},
	}
	for _, e := range edits {
		e(m)
	}
	return m
}

// aHost is the host that decide makes of m, as the API server would give it back.
func aHost(m *machinev1.Machine, edits ...func(*v1alpha1.WindowsHost)) *v1alpha1.WindowsHost {
	h := decide(aView(m)).create
	h.UID = "uid-host"
	t := metav1.NewTime(now())
	h.Status.MachineProvisioned = &t
	h.Status.MachineAddresses = certificateNames(m)
	for _, e := range edits {
		e(h)
	}
	return h
}

func aView(m *machinev1.Machine, edits ...func(*view)) view {
	v := view{now: now(), machine: m, namespace: "windows-machine-operator"}
	for _, e := range edits {
		e(&v)
	}
	return v
}

func phase(p string) func(*machinev1.Machine) {
	return func(m *machinev1.Machine) { m.Status.Phase = &p }
}

// permutations calls f with every order of addrs.
func permutations(addrs []corev1.NodeAddress, f func([]corev1.NodeAddress)) {
	var walk func(done, left []corev1.NodeAddress)
	walk = func(done, left []corev1.NodeAddress) {
		if len(left) == 0 {
			f(done)
			return
		}
		for i := range left {
			rest := slices.Concat(left[:i], left[i+1:])
			walk(append(slices.Clone(done), left[i]), rest)
		}
	}
	walk(nil, addrs)
}

func TestW18AddressInAnyOrder(t *testing.T) {
	ip := func(a string) corev1.NodeAddress { return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a} }
	dns := corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: "winworker-abcde"}
	external := corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "203.0.113.7"}
	for name, c := range map[string]struct {
		addrs    []corev1.NodeAddress
		loopback bool
		want     string
	}{
		"all of them":        {[]corev1.NodeAddress{ip("fe80::1234:5678:9abc:def0"), ip("169.254.1.0"), dns, external, ip("192.0.2.29")}, false, "192.0.2.29"},
		"two addresses":      {[]corev1.NodeAddress{ip("192.0.2.30"), ip("192.0.2.4")}, false, "192.0.2.4"},
		"IPv4 before IPv6":   {[]corev1.NodeAddress{ip("2001:db8::1"), ip("192.0.2.29")}, false, "192.0.2.29"},
		"IPv6 alone":         {[]corev1.NodeAddress{ip("fe80::1"), ip("2001:db8::1")}, false, "2001:db8::1"},
		"a name alone":       {[]corev1.NodeAddress{dns, ip("169.254.7.7")}, false, "winworker-abcde"},
		"external alone":     {[]corev1.NodeAddress{external}, false, ""},
		"empty":              {nil, false, ""},
		"zone":               {[]corev1.NodeAddress{ip("fe80::1%eth0")}, false, ""},
		"not an address":     {[]corev1.NodeAddress{ip("192.0.2.029"), ip("nonsense")}, false, ""},
		"loopback":           {[]corev1.NodeAddress{ip("127.0.1.7")}, false, ""},
		"loopback, allowed":  {[]corev1.NodeAddress{ip("127.0.1.7")}, true, "127.0.1.7"},
		"unspecified":        {[]corev1.NodeAddress{ip("0.0.0.0"), ip("::")}, true, ""},
		"multicast":          {[]corev1.NodeAddress{ip("224.0.0.1")}, true, ""},
		"IPv4-mapped is one": {[]corev1.NodeAddress{ip("::ffff:169.254.1.1"), ip("192.0.2.1")}, false, "192.0.2.1"},
	} {
		t.Run(name, func(t *testing.T) {
			permutations(c.addrs, func(order []corev1.NodeAddress) {
				if got := pickAddress(order, c.loopback); got != c.want {
					t.Fatalf("pickAddress(%v) = %q, want %q", order, got, c.want)
				}
			})
		})
	}
}

func TestW18NoAddressIsOneEventAndNoHost(t *testing.T) {
	m := aMachine(func(m *machinev1.Machine) {
		m.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "169.254.1.0"}}
	})
	d := decide(aView(m))
	if d.create != nil || len(d.events) != 1 || d.events[0].reason != v1alpha1.EventNoAddress {
		t.Errorf("decide = %+v, want one event %s and nothing else", d, v1alpha1.EventNoAddress)
	}
}

func TestW19StatesOfAMachine(t *testing.T) {
	deleting := func(m *machinev1.Machine) {
		ts := metav1.NewTime(now())
		m.DeletionTimestamp = &ts
	}
	for name, c := range map[string]struct {
		machine *machinev1.Machine
		want    claim
	}{
		"provisioned":          {aMachine(), claimHost},
		"running":              {aMachine(phase(machinev1.PhaseRunning)), claimHost},
		"no phase":             {aMachine(func(m *machinev1.Machine) { m.Status = machinev1.MachineStatus{} }), claimWait},
		"provisioning":         {aMachine(phase(machinev1.PhaseProvisioning)), claimWait},
		"failed":               {aMachine(phase(machinev1.PhaseFailed)), claimWait},
		"unknown phase":        {aMachine(phase("Hibernating")), claimWait},
		"deleting":             {aMachine(deleting), claimLeaving},
		"deleting, no address": {aMachine(deleting, func(m *machinev1.Machine) { m.Status.Addresses = nil }), claimLeaving},
		"no label":             {aMachine(func(m *machinev1.Machine) { m.Labels = nil }), claimNone},
		"lower case":           {aMachine(func(m *machinev1.Machine) { m.Labels[OSLabel] = "windows" }), claimNone},
		"ignored":              {aMachine(func(m *machinev1.Machine) { m.Labels[v1alpha1.IgnoreLabel] = "true" }), claimNone},
		"not ignored":          {aMachine(func(m *machinev1.Machine) { m.Labels[v1alpha1.IgnoreLabel] = "false" }), claimHost},
	} {
		t.Run(name, func(t *testing.T) {
			if got := classify(c.machine); got != c.want {
				t.Errorf("classify = %d, want %d", got, c.want)
			}
			if d := decide(aView(c.machine)); (d.create != nil) != (c.want == claimHost) {
				t.Errorf("decide made a host: %t", d.create != nil)
			}
		})
	}
}

func TestW19LifeOfAHost(t *testing.T) {
	m := aMachine()
	t.Run("nothing to do", func(t *testing.T) {
		if d := decide(aView(m, func(v *view) { v.host = aHost(m) })); !cmp.Equal(d, decision{}, cmp.AllowUnexported(decision{}, notice{})) {
			t.Errorf("decide = %+v, want nothing", d)
		}
	})
	t.Run("the machine is gone", func(t *testing.T) {
		if d := decide(aView(nil, func(v *view) { v.host = aHost(m) })); !d.remove {
			t.Error("the host stays")
		}
	})
	t.Run("the machine was replaced by one of its name", func(t *testing.T) {
		other := aMachine(func(m *machinev1.Machine) { m.UID = "uid-b" })
		if d := decide(aView(other, func(v *view) { v.host = aHost(m) })); !d.remove || d.update != nil {
			t.Errorf("decide = %+v, want the old host removed first", d)
		}
	})
	t.Run("failed for a moment", func(t *testing.T) {
		if d := decide(aView(aMachine(phase(machinev1.PhaseFailed)), func(v *view) { v.host = aHost(m) })); d.update != nil || d.remove {
			t.Errorf("decide = %+v, want the host left alone", d)
		}
	})
	t.Run("leaving pauses and coming back resumes", func(t *testing.T) {
		ignored := aMachine(func(m *machinev1.Machine) { m.Labels[v1alpha1.IgnoreLabel] = "true" })
		d := decide(aView(ignored, func(v *view) { v.host = aHost(m) }))
		if d.update == nil || !d.update.Spec.Paused || len(d.events) != 1 {
			t.Fatalf("decide = %+v, want a paused host and an event", d)
		}
		if again := decide(aView(ignored, func(v *view) { v.host = d.update })); again.update != nil || len(again.events) != 0 {
			t.Errorf("second decide = %+v, want nothing", again)
		}
		if back := decide(aView(m, func(v *view) { v.host = d.update })); back.update == nil || back.update.Spec.Paused {
			t.Errorf("decide = %+v, want the host resumed", back)
		}
	})
	t.Run("paused by annotation", func(t *testing.T) {
		paused := aMachine(func(m *machinev1.Machine) { m.Annotations = map[string]string{v1alpha1.PausedAnnotation: "true"} })
		if d := decide(aView(paused, func(v *view) { v.host = aHost(m) })); d.update == nil || !d.update.Spec.Paused {
			t.Errorf("decide = %+v, want a paused host", d)
		}
		if d := decide(aView(paused)); d.create != nil {
			t.Error("a paused Machine got a host")
		}
	})
	t.Run("a user's pause is not lifted", func(t *testing.T) {
		h := aHost(m, func(h *v1alpha1.WindowsHost) { h.Spec.Paused = true })
		if d := decide(aView(m, func(v *view) { v.host = h })); d.update != nil {
			t.Errorf("decide = %+v, want the pause kept", d)
		}
	})
	t.Run("the address moved", func(t *testing.T) {
		moved := aMachine(func(m *machinev1.Machine) { m.Status.Addresses[0].Address = "192.0.2.30" })
		d := decide(aView(moved, func(v *view) { v.host = aHost(m) }))
		if d.update == nil || d.update.Spec.Address != "192.0.2.30" || !slices.Contains(d.status.MachineAddresses, "192.0.2.30") {
			t.Errorf("decide = %+v, want the new address in spec and status", d)
		}
	})
	t.Run("a host of another origin has the name", func(t *testing.T) {
		h := aHost(m, func(h *v1alpha1.WindowsHost) { h.Spec.MachineRef = nil })
		d := decide(aView(m, func(v *view) { v.host = h }))
		if d.update != nil || d.remove || len(d.events) != 1 || d.events[0].reason != v1alpha1.EventNameConflict {
			t.Errorf("decide = %+v, want a conflict told and nothing touched", d)
		}
	})
}

func TestW20NameLongerThanWindowsKeeps(t *testing.T) {
	for length, want := range map[int]bool{14: false, 15: false, 16: true, 34: true} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			m := aMachine(func(m *machinev1.Machine) { m.Name = strings.Repeat("x", length) })
			d := decide(aView(m))
			told := slices.ContainsFunc(d.events, func(e notice) bool { return e.reason == v1alpha1.EventNameTooLong && e.warning })
			if told != want || d.create == nil {
				t.Errorf("told of the long name: %t, want %t; host made: %t", told, want, d.create != nil)
			}
		})
	}
}

func TestW20NodeIsNeverMatchedByNameAlone(t *testing.T) {
	m := aMachine(func(m *machinev1.Machine) { m.Name = "wrxp2-win-worker-centralus1-8vx4c" })
	nodes := []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: m.Name}}, {ObjectMeta: metav1.ObjectMeta{Name: m.Name[:15]}}}
	if n := nodeOf(m, nodes); n != nil {
		t.Errorf("nodeOf = %s, want none", n.Name)
	}
}

func TestW22ProviderIDs(t *testing.T) {
	const vm = "/subscriptions/0000/resourceGroups/RG-A/providers/Microsoft.Compute/virtualMachines/"
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"slashes and case":  {"azure:///" + vm + "win-a", "azure://" + strings.ToLower(vm) + "win-a", true},
		"another machine":   {"azure://" + vm + "win-a", "azure://" + vm + "win-b", false},
		"AWS keeps case":    {"aws:///eu-west-1a/i-0A", "aws:///eu-west-1a/i-0a", false},
		"AWS two slashes":   {"aws://eu-west-1a/i-0a", "aws:///eu-west-1a/i-0a", true},
		"different clouds":  {"aws:///a", "gce:///a", false},
		"no scheme":         {"win-a", "win-a", true},
		"no scheme, other":  {"win-a", "win-b", false},
		"prefix is not all": {"gce://p/z/win-1", "gce://p/z/win-10", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := normalizeProviderID(c.a) == normalizeProviderID(c.b); got != c.same {
				t.Errorf("%s and %s the same: %t, want %t", c.a, c.b, got, c.same)
			}
		})
	}
}

func TestW22NodeOfAMachine(t *testing.T) {
	id := "azure:////subscriptions/0000/resourceGroups/RG-A/providers/Microsoft.Compute/virtualMachines/win-a"
	node := func(name string, uid types.UID, address, provider string) corev1.Node {
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}, Spec: corev1.NodeSpec{ProviderID: provider},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
		}
	}
	nodes := []corev1.Node{
		node("other", "1", "192.0.2.1", "azure:///subscriptions/0000/resourcegroups/rg-a/providers/microsoft.compute/virtualmachines/win-b"),
		node("by-id", "2", "192.0.2.2", "azure:///subscriptions/0000/resourcegroups/rg-a/providers/microsoft.compute/virtualmachines/win-a"),
		node("by-address", "3", "192.0.2.29", ""),
		node("by-ref", "4", "192.0.2.4", ""),
	}
	ref := func(uid types.UID) func(*machinev1.Machine) {
		return func(m *machinev1.Machine) { m.Status.NodeRef = &corev1.ObjectReference{Name: "by-ref", UID: uid} }
	}
	provider := func(m *machinev1.Machine) { m.Spec.ProviderID = &id }
	elsewhere := func(m *machinev1.Machine) { m.Status.Addresses[0].Address = "192.0.2.99" }
	for name, c := range map[string]struct {
		machine *machinev1.Machine
		want    string
	}{
		"nodeRef first":       {aMachine(ref("4"), provider), "by-ref"},
		"nodeRef of old node": {aMachine(ref("9"), provider), ""},
		"address next":        {aMachine(provider), "by-address"},
		"provider ID last":    {aMachine(provider, elsewhere), "by-id"},
		"nothing":             {aMachine(elsewhere), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if n := nodeOf(c.machine, nodes); n != nil {
				got = n.Name
			}
			if got != c.want {
				t.Errorf("nodeOf = %q, want %q", got, c.want)
			}
		})
	}
}

func TestNodeOfSomebodyElseIsLeftAlone(t *testing.T) {
	m := aMachine()
	foreignNode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	d := decide(aView(m, func(v *view) { v.node = foreignNode }))
	if d.create != nil || len(d.events) != 1 || d.events[0].reason != v1alpha1.EventForeignNode {
		t.Errorf("decide = %+v, want no host and event %s", d, v1alpha1.EventForeignNode)
	}
}

func TestUsername(t *testing.T) {
	azure := aMachine(func(m *machinev1.Machine) {
		m.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"kind":"AzureMachineProviderSpec"}`)}
	})
	aws := aMachine(func(m *machinev1.Machine) {
		m.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"kind":"AWSMachineProviderConfig"}`)}
	})
	for name, c := range map[string]struct {
		machine        *machinev1.Machine
		override, want string
	}{
		"Azure": {azure, "", "capi"}, "AWS": {aws, "", "Administrator"}, "none": {aMachine(), "", "Administrator"},
		"profile wins": {azure, `CORP\svc`, `CORP\svc`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := username(c.machine, c.override); got != c.want {
				t.Errorf("username = %q, want %q", got, c.want)
			}
		})
	}
}

func TestTrustWindowIsTheMachinesAndNotOurs(t *testing.T) {
	old := aMachine(func(m *machinev1.Machine) {
		m.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now().Add(-40 * time.Minute))
	})
	bare := aMachine(func(m *machinev1.Machine) { m.Status.Conditions = nil })
	for name, c := range map[string]struct {
		machine *machinev1.Machine
		want    time.Time
	}{
		"as its condition says":        {aMachine(), now()},
		"seen late":                    {old, now().Add(-40 * time.Minute)},
		"without a condition: created": {bare, now().Add(-time.Hour)},
		"condition is not True": {aMachine(func(m *machinev1.Machine) {
			m.Status.Conditions[0].Status = corev1.ConditionFalse
		}), now().Add(-time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := provisionedAt(c.machine); !got.Equal(c.want) {
				t.Errorf("provisioned at %s, want %s", got, c.want)
			}
		})
	}
}
