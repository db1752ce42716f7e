package windows

import (
	"errors"
	"strings"
	"testing"

	"github.com/windowsmachine/operator/pkg/plan"
)

// TestW58KindOfVariable: a new variable is never one whose value Windows expands, and one that Windows expands stays so.
func TestW58KindOfVariable(t *testing.T) {
	for _, tt := range []struct {
		existing uint32
		exists   bool
		want     uint32
	}{
		{0, false, regString}, {regString, true, regString}, {regExpandString, true, regExpandString}, {4, true, regString}, {regExpandString, false, regString},
	} {
		if got := envKind(tt.existing, tt.exists); got != tt.want {
			t.Errorf("type %d, exists %v: %d, want %d", tt.existing, tt.exists, got, tt.want)
		}
	}
}

func TestEnvironmentLimits(t *testing.T) {
	for _, name := range []string{"", "A=B", "A\x00", strings.Repeat("a", 256)} {
		if err := checkEnvName(name); !errors.Is(err, errEnv) {
			t.Errorf("name %.10q: %v", name, err)
		}
	}
	if err := checkEnvValue("A", strings.Repeat("s", 32767)); err != nil {
		t.Errorf("longest value: %v", err)
	}
	for _, value := range []string{strings.Repeat("s", 32768), "s\x00"} {
		if err := checkEnvValue("A", value); !errors.Is(err, errEnv) || strings.Contains(err.Error(), "ss") {
			t.Errorf("value of %d: %.80v", len(value), err)
		}
	}
}

func TestFeatureState(t *testing.T) {
	for state, want := range [][2]bool{4: {true, false}, 5: {false, true}, 7: {}} {
		enabled, pending := featureState(uint32(state))
		if got := [2]bool{enabled, pending}; got != want {
			t.Errorf("state %d: enabled %v, pending %v", state, enabled, pending)
		}
	}
}

func TestEnableOutcome(t *testing.T) {
	for _, tt := range []struct {
		hresult    uint32
		reboot, ok bool
	}{
		{0, false, true}, {1, false, true}, {3010, true, true}, {0x800f080c, false, false}, {0x80070005, false, false}, {0x800704c7, false, false},
	} {
		if reboot, ok := enableOutcome(tt.hresult); reboot != tt.reboot || ok != tt.ok {
			t.Errorf("0x%x: reboot %v, ok %v", tt.hresult, reboot, ok)
		}
	}
}

// kubeletRule returns a rule as Windows tells it, changed by the functions.
func kubeletRule(change ...func(*fwRule)) fwRule {
	r := fwRule{name: "kubelet", group: ruleGroup, protocol: fwTCP, direction: fwIn, action: fwAllow, profiles: fwAllProfiles, ports: "10250", remoteIPs: "*", enabled: true}
	for _, f := range change {
		f(&r)
	}
	return r
}

func TestFirewallRule(t *testing.T) {
	want := plan.FirewallRule{Name: "kubelet", Protocol: "TCP", Port: 10250}
	if got, ok := kubeletRule().rule(); !ok || got != want {
		t.Errorf("%+v %v", got, ok)
	}
	if got, ok := kubeletRule(func(r *fwRule) { r.protocol, r.ports = fwUDP, "4789" }).rule(); !ok || got.Protocol != "UDP" || got.Port != 4789 {
		t.Errorf("%+v %v", got, ok)
	}
	for name, change := range map[string]func(*fwRule){
		"disabled":           func(r *fwRule) { r.enabled = false },
		"outbound":           func(r *fwRule) { r.direction = 2 },
		"blocks":             func(r *fwRule) { r.action = 0 },
		"domain only":        func(r *fwRule) { r.profiles = 1 },
		"one program":        func(r *fwRule) { r.program = `C:\k\x.exe` },
		"some addresses":     func(r *fwRule) { r.remoteIPs = "LocalSubnet" },
		"several ports":      func(r *fwRule) { r.ports = "10250,10251" },
		"any port":           func(r *fwRule) { r.ports = "*" },
		"port 0":             func(r *fwRule) { r.ports = "0" },
		"port beyond":        func(r *fwRule) { r.ports = "65536" },
		"any protocol (256)": func(r *fwRule) { r.protocol = 256 },
	} {
		if got, ok := kubeletRule(change).rule(); ok {
			t.Errorf("%s is taken for %+v", name, got)
		}
	}
}

func TestRuleProtocol(t *testing.T) {
	for protocol, want := range map[string]int{"TCP": 6, "UDP": 17, "tcp": 0, "ICMP": 0, "": 0} {
		if got, err := ruleProtocol(protocol); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d %v", protocol, got, err)
		}
	}
}

func TestExclusion(t *testing.T) {
	for _, tt := range []struct {
		e               plan.DefenderExclusion
		property, value string
	}{
		{plan.DefenderExclusion{Process: `C:\k\kubelet.exe`}, "ExclusionProcess", `C:\k\kubelet.exe`},
		{plan.DefenderExclusion{Path: `C:\ProgramData\containerd`}, "ExclusionPath", `C:\ProgramData\containerd`},
		{plan.DefenderExclusion{}, "", ""},
		{plan.DefenderExclusion{Process: "a", Path: "b"}, "", ""},
	} {
		property, value, err := exclusion(tt.e)
		if property != tt.property || value != tt.value || (err == nil) != (tt.property != "") {
			t.Errorf("%+v: %q %q %v", tt.e, property, value, err)
		}
	}
}

func TestExcluded(t *testing.T) {
	list := []string{`C:\K\Kubelet.exe`, `C:\ProgramData\containerd`}
	for value, want := range map[string]bool{`c:\k\kubelet.exe`: true, `C:\ProgramData\containerd\`: true, `C:\k`: false, ``: false} {
		if got := excluded(list, value); got != want {
			t.Errorf("%s: %v", value, got)
		}
	}
}

// The identifier stays when the clock is set, by an hour or into the past, and changes with a boot.
func TestBootIDSurvivesClockChanges(t *testing.T) {
	const boot, hour = int64(134_000_000_000_000_000), int64(36_000_000_000)
	first := bootID(boot, 0)
	for _, moved := range []int64{hour, -hour, 1} {
		if got := bootID(boot+moved, moved); got != first {
			t.Errorf("clock moved by %d: %s, was %s", moved, got, first)
		}
	}
	if bootID(boot+hour, 0) == first {
		t.Error("a boot an hour later has the same identifier")
	}
	if len(first) != 16 {
		t.Errorf("identifier %q", first)
	}
}

func TestParseRoute(t *testing.T) {
	for _, tt := range []struct {
		destination, hop string
		ok               bool
	}{
		{"10.244.1.0/24", "192.0.2.11", true},
		{"169.254.169.254/32", "0.0.0.0", true},
		{"fd00:1::/64", "2001:db8::1", true},
		{"10.244.1.1/24", "192.0.2.11", false},
		{"10.244.1.0", "192.0.2.11", false},
		{"10.244.1.0/24", "2001:db8::1", false},
		{"10.244.1.0/24", "gateway", false},
		{"fd00:1::/64", "fe80::1%4", false},
	} {
		if _, _, err := parseRoute("test", plan.Route{Destination: tt.destination, NextHop: tt.hop}); (err == nil) != tt.ok {
			t.Errorf("%s by %s: %v", tt.destination, tt.hop, err)
		}
	}
}

func TestStaticRoute(t *testing.T) {
	for protocol, want := range map[uint32]bool{2: false, 3: true, 4: false, 19: false, 10002: true, 10006: true, 10007: true} {
		if got := staticRoute(protocol); got != want {
			t.Errorf("protocol %d: %v", protocol, got)
		}
	}
}
