package api

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

const aKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKxkQ7dM3YbG0pVvRj1Dq0b5m6m0c1l8uE0o3Zb9dXcA"

func aHost(edits ...func(*v1alpha1.WindowsHost)) *v1alpha1.WindowsHost {
	h := &v1alpha1.WindowsHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "win-"},
		Spec:       v1alpha1.WindowsHostSpec{Address: "192.0.2.10"},
	}
	for _, e := range edits {
		e(h)
	}
	return h
}

func spec(edit func(*v1alpha1.WindowsHostSpec)) func(*v1alpha1.WindowsHost) {
	return func(h *v1alpha1.WindowsHost) { edit(&h.Spec) }
}

func aMachineRef() *v1alpha1.MachineReference {
	return &v1alpha1.MachineReference{Namespace: machineNamespace, Name: "win-a", UID: "1b4e28ba-2fa1-11d2-883f-0016d3cca427"}
}

func TestWindowsHostRules(t *testing.T) {
	type row struct {
		rule
		edit func(*v1alpha1.WindowsHostSpec)
	}
	address := func(a, words string) row {
		r := row{rule{name: "address " + a, words: words}, func(s *v1alpha1.WindowsHostSpec) { s.Address = a }}
		if words != "" {
			r.field = "spec.address"
		}
		return r
	}
	const format, reach = "must be an IP address or a DNS name in lower case", "no machine is reached there"
	username := func(u, words string) row {
		r := row{rule{name: fmt.Sprintf("username %.20q", u), words: words}, func(s *v1alpha1.WindowsHostSpec) { s.Username = u }}
		if words != "" {
			r.field = "spec.username"
		}
		return r
	}
	hostKeys := func(name, field, words string, keys ...string) row {
		return row{rule{"host keys: " + name, field, words}, func(s *v1alpha1.WindowsHostSpec) { s.HostKeys = keys }}
	}
	winRM := func(name, field, words string, w v1alpha1.WinRMSpec) row {
		return row{rule{"winRM: " + name, field, words}, func(s *v1alpha1.WindowsHostSpec) { s.Transport, s.WinRM = v1alpha1.TransportWinRM, &w }}
	}
	nodeIP := func(a, words string) row {
		r := row{rule{name: "nodeIP " + a, words: words}, func(s *v1alpha1.WindowsHostSpec) { s.NodeIP = a }}
		if words != "" {
			r.field = "spec.nodeIP"
		}
		return r
	}
	nodeName := func(n, words string) row {
		r := row{rule{name: fmt.Sprintf("nodeName %.20q", n), words: words}, func(s *v1alpha1.WindowsHostSpec) { s.NodeName = n }}
		if words != "" {
			r.field = "spec.nodeName"
		}
		return r
	}
	machineRef := func(name, field, words string, edit func(*v1alpha1.MachineReference)) row {
		return row{rule{"machineRef: " + name, field, words}, func(s *v1alpha1.WindowsHostSpec) {
			s.MachineRef = aMachineRef()
			edit(s.MachineRef)
		}}
	}
	for _, c := range []row{
		address("192.0.2.10", ""),
		address("2001:db8::10", ""),
		address("2001:DB8::10", ""),
		address("win-1.example.test", ""),
		address("win-1", ""),
		address("3com.example.test", ""),
		// Loopback is for simulated machines; the operator decides about it, since it depends on its flags.
		address("127.0.1.7", ""),
		address("WIN-1.example.test", format),
		address("win_1", format),
		address("192.0.2.300", format),
		address("192.0.2.010", format),
		address("192.0.2.10:22", format),
		address("[2001:db8::10]", format),
		address("fe80::1%eth0", format),
		address("::ffff:192.0.2.10", format),
		address("https://win-1", format),
		address("win-1.example.test.", format),
		address("-win", format),
		address("2130706433", format),
		address("169.254.1.1", reach),
		address("fe80::1", reach),
		address("0.0.0.0", reach),
		address("::", reach),
		address("224.0.0.1", reach),
		address("239.1.2.3", reach),
		address("ff0e::1", reach),
		address("255.255.255.255", reach),
		address("", "should be at least 1 chars long"),
		address(strings.Repeat("a.", 127), "may not be more than 253 bytes"),

		{rule{name: "port 1"}, func(s *v1alpha1.WindowsHostSpec) { s.Port = 1 }},
		{rule{name: "port 65535"}, func(s *v1alpha1.WindowsHostSpec) { s.Port = 65535 }},
		{rule{"port 65536", "spec.port", "should be less than or equal to 65535"}, func(s *v1alpha1.WindowsHostSpec) { s.Port = 65536 }},
		{rule{"port -1", "spec.port", "should be greater than or equal to 1"}, func(s *v1alpha1.WindowsHostSpec) { s.Port = -1 }},

		{rule{name: "transport SSH"}, func(s *v1alpha1.WindowsHostSpec) { s.Transport = "SSH" }},
		{rule{name: "transport WinRM"}, func(s *v1alpha1.WindowsHostSpec) { s.Transport = "WinRM" }},
		{rule{"transport Telnet", "spec.transport", `"SSH", "WinRM"`}, func(s *v1alpha1.WindowsHostSpec) { s.Transport = "Telnet" }},
		winRM("whole", "", "", v1alpha1.WinRMSpec{Port: 443, ServerName: "win-1.example.test"}),
		winRM("with an IP address", "", "", v1alpha1.WinRMSpec{ServerName: "192.0.2.10"}),
		winRM("plain HTTP", "spec.winRM.port", "5985 is the port of plain HTTP", v1alpha1.WinRMSpec{Port: 5985}),
		winRM("port 65536", "spec.winRM.port", "should be less than or equal to 65535", v1alpha1.WinRMSpec{Port: 65536}),
		winRM("name in upper case", "spec.winRM.serverName", "must be an IP address or a DNS name", v1alpha1.WinRMSpec{ServerName: "WIN-1"}),
		{rule{"winRM without its transport", "spec", "winRM goes with transport WinRM"}, func(s *v1alpha1.WindowsHostSpec) { s.WinRM = &v1alpha1.WinRMSpec{} }},

		username("capi", ""),
		username(`CORP\svc-windows`, ""),
		username("svc@corp.example.test", ""),
		username("Jürgen", ""),
		username("two words", "must not hold blanks or quotes"),
		username("tab\tbed", "must not hold blanks or quotes"),
		username("line\nbreak", "must not hold blanks or quotes"),
		username(`quo"te`, "must not hold blanks or quotes"),
		username(strings.Repeat("u", 257), "may not be more than 256"),

		{rule{name: "credentialsRef"}, func(s *v1alpha1.WindowsHostSpec) { s.CredentialsRef = &v1alpha1.SecretReference{Name: "key"} }},
		{rule{"credentialsRef without a name", "spec.credentialsRef.name", "at least 1 chars"}, func(s *v1alpha1.WindowsHostSpec) { s.CredentialsRef = &v1alpha1.SecretReference{} }},
		{rule{"credentialsRef too long", "spec.credentialsRef.name", "may not be more than 253"}, func(s *v1alpha1.WindowsHostSpec) {
			s.CredentialsRef = &v1alpha1.SecretReference{Name: strings.Repeat("s", 254)}
		}},

		hostKeys("one", "", "", aKey),
		hostKeys("with a comment", "", "", aKey+" root@WIN-1 of 2026"),
		hostKeys("other algorithms", "", "", "ecdsa-sha2-nistp256 AAAA", "rsa-sha2-512 AAAA==", "sk-ssh-ed25519@openssh.com AAAA"),
		hostKeys("sixteen", "", "", keys(16)...),
		hostKeys("seventeen", "spec.hostKeys", "must have at most 16 items", keys(17)...),
		hostKeys("a fingerprint", "spec.hostKeys[0]", "should match", "SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDzPWF9XN5yJPRWCnE"),
		hostKeys("a known_hosts line", "spec.hostKeys[1]", "should match", aKey, "win-1 "+aKey),
		hostKeys("a key alone", "spec.hostKeys[0]", "should match", strings.Fields(aKey)[1]),
		hostKeys("a private key", "spec.hostKeys[0]", "should match", "-----BEGIN OPENSSH PRIVATE KEY-----"),
		hostKeys("two lines", "spec.hostKeys[0]", "should match", aKey+"\n"+aKey),
		hostKeys("options", "spec.hostKeys[0]", "should match", `command="x" `+aKey),
		hostKeys("empty", "spec.hostKeys[0]", "should match", ""),
		hostKeys("too long", "spec.hostKeys[0]", "may not be more than 8192", aKey+strings.Repeat("A", 8192)),

		nodeIP("192.0.2.11", ""),
		nodeIP("2001:db8::11", ""),
		nodeIP("win-1", "must be an IP address"),
		nodeIP("169.254.1.1", "not link-local"),
		nodeIP("0.0.0.0", "not link-local"),
		nodeIP("192.0.2.0/24", "must be an IP address"),
		nodeIP(strings.Repeat("1", 46), "may not be more than 45"),

		nodeName("win-1", ""),
		nodeName(strings.Repeat("n", 63), ""),
		nodeName(strings.Repeat("n", 64), "may not be more than 63"),
		nodeName("WIN-1", "must be a DNS label in lower case"),
		nodeName("win-1.example.test", "must be a DNS label in lower case"),
		nodeName("win_1", "must be a DNS label in lower case"),

		{rule{name: "profileRef"}, func(s *v1alpha1.WindowsHostSpec) { s.ProfileRef.Name = "fast" }},
		{rule{"profileRef too long", "spec.profileRef.name", "may not be more than 253"}, func(s *v1alpha1.WindowsHostSpec) { s.ProfileRef.Name = strings.Repeat("p", 254) }},

		machineRef("whole", "", "", func(*v1alpha1.MachineReference) {}),
		machineRef("no UID", "spec.machineRef.uid", "at least 1 chars", func(r *v1alpha1.MachineReference) { r.UID = "" }),
		machineRef("no name", "spec.machineRef.name", "at least 1 chars", func(r *v1alpha1.MachineReference) { r.Name = "" }),
		machineRef("no namespace", "spec.machineRef.namespace", "at least 1 chars", func(r *v1alpha1.MachineReference) { r.Namespace = "" }),
		machineRef("long UID", "spec.machineRef.uid", "may not be more than 64", func(r *v1alpha1.MachineReference) { r.UID = strings.Repeat("u", 65) }),
		machineRef("long name", "spec.machineRef.name", "may not be more than 253", func(r *v1alpha1.MachineReference) { r.Name = strings.Repeat("u", 254) }),
		machineRef("long namespace", "spec.machineRef.namespace", "may not be more than 253", func(r *v1alpha1.MachineReference) { r.Namespace = strings.Repeat("u", 254) }),
	} {
		t.Run(c.name, func(t *testing.T) {
			c.check(t, admin.Create(t.Context(), aHost(spec(c.edit)), client.DryRunAll))
		})
	}
}

func keys(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = aKey
	}
	return out
}

// What typed clients leave out, people may write: an empty value, or none.
func TestWindowsHostAsWritten(t *testing.T) {
	for _, c := range []struct {
		rule
		spec map[string]any
	}{
		{rule{name: "address alone"}, map[string]any{"address": "192.0.2.10"}},
		{rule{"no address", "spec.address", "Required value"}, map[string]any{"port": int64(22)}},
		{rule{"empty username", "spec.username", "at least 1 chars"}, map[string]any{"address": "192.0.2.10", "username": ""}},
		{rule{"empty profileRef", "spec.profileRef.name", "Required value"}, map[string]any{"address": "192.0.2.10", "profileRef": map[string]any{}}},
		{rule{"empty profile name", "spec.profileRef.name", "at least 1 chars"}, map[string]any{"address": "192.0.2.10", "profileRef": map[string]any{"name": ""}}},
		{rule{"port 0", "spec.port", "greater than or equal to 1"}, map[string]any{"address": "192.0.2.10", "port": int64(0)}},
		{rule{"port as text", "spec.port", "must be of type integer"}, map[string]any{"address": "192.0.2.10", "port": "22"}},
		{rule{"empty nodeIP", "spec.nodeIP", "must be an IP address"}, map[string]any{"address": "192.0.2.10", "nodeIP": ""}},
		{rule{"empty nodeName", "spec.nodeName", "must be a DNS label"}, map[string]any{"address": "192.0.2.10", "nodeName": ""}},
		{rule{"no spec", "spec", "Required value"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{}}
			o.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("WindowsHost"))
			o.SetNamespace(namespace)
			o.SetGenerateName("win-")
			if c.spec != nil {
				o.Object["spec"] = c.spec
			}
			c.check(t, admin.Create(t.Context(), o, client.DryRunAll))
		})
	}
}

func TestWindowsHostDefaults(t *testing.T) {
	h := aHost()
	create(t, h)
	want := v1alpha1.WindowsHostSpec{
		Address: "192.0.2.10", Transport: v1alpha1.TransportSSH, Username: "Administrator",
		ProfileRef: v1alpha1.ProfileReference{Name: v1alpha1.DefaultProfile},
	}
	if diff := cmp.Diff(want, h.Spec); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(v1alpha1.WindowsHostStatus{}, h.Status); diff != "" {
		t.Errorf("status: %s", diff)
	}
}

// What a node's identity rests on is written once.
func TestWindowsHostIdentityIsFixed(t *testing.T) {
	whole := func(s *v1alpha1.WindowsHostSpec) { s.NodeName, s.MachineRef = "win-1", aMachineRef() }
	for _, c := range []struct {
		rule
		before, after func(*v1alpha1.WindowsHostSpec)
	}{
		{rule{"nodeName changes", "spec.nodeName", "nodeName cannot change"}, whole, func(s *v1alpha1.WindowsHostSpec) { s.NodeName = "win-2" }},
		{rule{"nodeName goes", "spec", "nodeName cannot be removed"}, whole, func(s *v1alpha1.WindowsHostSpec) { s.NodeName = "" }},
		{rule{name: "nodeName comes"}, func(*v1alpha1.WindowsHostSpec) {}, func(s *v1alpha1.WindowsHostSpec) { s.NodeName = "win-1" }},
		{rule{"machineRef changes", "spec.machineRef", "machineRef cannot change"}, whole, func(s *v1alpha1.WindowsHostSpec) { s.MachineRef.UID = "other" }},
		{rule{"machineRef goes", "spec", "machineRef cannot be removed"}, whole, func(s *v1alpha1.WindowsHostSpec) { s.MachineRef = nil }},
		{rule{name: "machineRef comes"}, func(*v1alpha1.WindowsHostSpec) {}, func(s *v1alpha1.WindowsHostSpec) { s.MachineRef = aMachineRef() }},
		{rule{name: "the rest may change"}, whole, func(s *v1alpha1.WindowsHostSpec) {
			s.Address, s.Port, s.Username, s.HostKeys, s.Paused = "192.0.2.11", 2222, "capi", []string{aKey}, true
			s.ProfileRef.Name, s.CredentialsRef, s.NodeIP = "fast", &v1alpha1.SecretReference{Name: "key"}, "192.0.2.12"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := aHost(spec(c.before))
			create(t, h)
			c.after(&h.Spec)
			c.check(t, admin.Update(t.Context(), h, client.DryRunAll))
		})
	}
}

func TestStatusIsWrittenApartFromSpec(t *testing.T) {
	h := aHost()
	create(t, h)
	forged := h.DeepCopy()
	forged.Status.Ticket = &v1alpha1.TicketStatus{ServiceAccount: "a", ID: "1"}
	forged.Status.Node = &v1alpha1.NodeStatus{Name: "master-0", UID: "u"}
	forged.Spec.Paused = true
	if err := admin.Update(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	got := read(t, h)
	if !got.Spec.Paused || got.Status.Ticket != nil || got.Status.Node != nil {
		t.Errorf("a write of the spec: paused %t, status %+v", got.Spec.Paused, got.Status)
	}
	both := got.DeepCopy()
	both.Spec.Address, both.Status.Step = "192.0.2.99", "1/2 x"
	if err := admin.Status().Patch(t.Context(), both, client.MergeFrom(got)); err != nil {
		t.Fatal(err)
	}
	if got = read(t, h); got.Status.Step != "1/2 x" || got.Spec.Address != "192.0.2.10" {
		t.Errorf("a write of the status: step %q, address %s", got.Status.Step, got.Spec.Address)
	}
	if got.Generation != 2 {
		t.Errorf("generation %d, want 2: a status is no new wish", got.Generation)
	}
}

func TestStatusHasBounds(t *testing.T) {
	h := aHost()
	create(t, h)
	many := make([]string, v1alpha1.MaxMachineAddresses)
	for i := range many {
		many[i] = strings.Repeat("a", v1alpha1.MaxAddressLength)
	}
	for _, c := range []struct {
		rule
		edit func(*v1alpha1.WindowsHostStatus)
	}{
		{rule{name: "as much as fits"}, func(s *v1alpha1.WindowsHostStatus) { s.MachineAddresses, s.Step = many, strings.Repeat("s", 128) }},
		{rule{"one address more", "status.machineAddresses", "at most 256"}, func(s *v1alpha1.WindowsHostStatus) { s.MachineAddresses = append(many, "b") }},
		{rule{"a longer step", "status.step", "may not be more than 128"}, func(s *v1alpha1.WindowsHostStatus) { s.Step = strings.Repeat("s", 129) }},
		{rule{"a condition without a reason", "status.conditions[0].reason", ""}, func(s *v1alpha1.WindowsHostStatus) {
			s.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", LastTransitionTime: metav1.Now()}}
		}},
		{rule{"a condition twice", "status.conditions[1]", "Duplicate value"}, func(s *v1alpha1.WindowsHostStatus) {
			c := metav1.Condition{Type: "Ready", Status: "True", Reason: "R", LastTransitionTime: metav1.Now()}
			s.Conditions = []metav1.Condition{c, c}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			after := read(t, h)
			c.edit(&after.Status)
			c.check(t, admin.Status().Update(t.Context(), after, client.DryRunAll))
		})
	}
}

func read(t *testing.T, h *v1alpha1.WindowsHost) *v1alpha1.WindowsHost {
	t.Helper()
	out := &v1alpha1.WindowsHost{}
	if err := admin.Get(t.Context(), types.NamespacedName{Namespace: h.Namespace, Name: h.Name}, out); err != nil {
		t.Fatal(err)
	}
	return out
}
