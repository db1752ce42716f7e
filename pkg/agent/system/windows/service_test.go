package windows

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// kubeletConfig returns a service, changed by the functions.
func kubeletConfig(change ...func(*system.ServiceConfig)) system.ServiceConfig {
	c := system.ServiceConfig{
		Name: "kubelet", DisplayName: "Kubernetes kubelet", Description: "runs pods", Exe: `C:\k\kubelet.exe`,
		Args: []string{"--windows-service"}, DependsOn: []string{"containerd", "Tcpip"},
		Env:      []plan.EnvVar{{Name: "HTTPS_PROXY", Value: "http://u:p%23a%25ss%40w%26d@proxy.example.test:3128"}},
		Recovery: &plan.Recovery{RestartDelaySeconds: []int{5, 30}, ResetSeconds: 600},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// TestW54EmptyDependencies: an empty list must be written as one, because a null pointer leaves the old dependencies.
func TestW54EmptyDependencies(t *testing.T) {
	for _, tt := range []struct {
		list []string
		want string
	}{
		{nil, "\x00\x00"},
		{[]string{}, "\x00\x00"},
		{[]string{"containerd"}, "containerd\x00\x00"},
		{[]string{"containerd", "Tcpip"}, "containerd\x00Tcpip\x00\x00"},
	} {
		if got := string(utf16.Decode(multiString(tt.list))); got != tt.want {
			t.Errorf("%q is written %q, want %q", tt.list, got, tt.want)
		}
	}
}

// TestW58ServiceEnvironment: values reach the registry and come back byte for byte.
func TestW58ServiceEnvironment(t *testing.T) {
	env := []plan.EnvVar{
		{Name: "HTTP_PROXY", Value: "http://svc-win:p%23a%25ss%40w%26d@proxy.example.test:3128"},
		{Name: "NO_PROXY", Value: ".cluster.local,.svc,10.0.0.0/16,192.0.2.0/24,169.254.169.254,localhost,host;odd"},
		{Name: "EMPTY", Value: ""},
		{Name: "EQUALS", Value: "a=b=c"},
	}
	block, err := environmentBlock(env)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(env, environmentFrom(block)); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []plan.EnvVar{{Name: ""}, {Name: "A=B"}, {Name: "A\x00"}, {Name: "A", Value: "secret\x00x"}} {
		_, err := environmentBlock([]plan.EnvVar{bad})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad.Name, err)
		}
	}
	if got := environmentFrom([]string{"noassignment", "=C:=C:\\", "A=1"}); len(got) != 1 || got[0].Name != "A" {
		t.Errorf("foreign block is read as %v", got)
	}
}

func TestCheckService(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*system.ServiceConfig)
		line   string
		ok     bool
	}{
		{"as planned", func(*system.ServiceConfig) {}, "x", true},
		{"no name", func(c *system.ServiceConfig) { c.Name = "" }, "x", false},
		{"name leads elsewhere in the registry", func(c *system.ServiceConfig) { c.Name = `..\Tcpip` }, "x", false},
		{"name of 257 characters", func(c *system.ServiceConfig) { c.Name = strings.Repeat("a", 257) }, "x", false},
		{"dependency without name", func(c *system.ServiceConfig) { c.DependsOn = []string{""} }, "x", false},
		{"NUL in the description", func(c *system.ServiceConfig) { c.Description = "a\x00b" }, "x", false},
		{"bad variable", func(c *system.ServiceConfig) { c.Env = []plan.EnvVar{{Name: "="}} }, "x", false},
		{"longest command line", func(*system.ServiceConfig) {}, strings.Repeat("a", 4013), true},
		{"command line that could not be read back", func(*system.ServiceConfig) {}, strings.Repeat("a", 4014), false},
	} {
		err := checkService(kubeletConfig(tt.change), tt.line)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Delays are seconds in a plan and milliseconds in SC_ACTION; a predecessor wrote nanoseconds and so restarted without pause.
func TestRecoveryUnits(t *testing.T) {
	want := []recoveryAction{{kind: actionRestart, delay: 5 * time.Second}, {kind: actionRestart, delay: 30 * time.Second}}
	got, reset, err := recoveryActions(&plan.Recovery{RestartDelaySeconds: []int{5, 30}, ResetSeconds: 600})
	if err != nil || reset != 600 || !cmp.Equal(want, got, cmp.AllowUnexported(recoveryAction{})) {
		t.Errorf("actions %v, reset %d, %v", got, reset, err)
	}
	if ms := got[0].delay.Milliseconds(); ms != 5000 {
		t.Errorf("first delay %d ms", ms)
	}
}

func TestRecoveryRoundTrip(t *testing.T) {
	for _, r := range []*plan.Recovery{nil, {RestartDelaySeconds: []int{0}}, {RestartDelaySeconds: []int{5, 5, 60}, ResetSeconds: 86400}} {
		actions, reset, err := recoveryActions(r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, recoveryFrom(actions, reset)); diff != "" {
			t.Error(diff)
		}
	}
	if actions, _, err := recoveryActions(&plan.Recovery{ResetSeconds: 5}); len(actions) != 0 || err != nil {
		t.Errorf("no delays give %v, %v", actions, err)
	}
}

func TestRecoveryRefusesAndHides(t *testing.T) {
	for _, r := range []plan.Recovery{
		{RestartDelaySeconds: []int{-1}},
		{RestartDelaySeconds: []int{4294968}},
		{RestartDelaySeconds: []int{1}, ResetSeconds: -1},
		{RestartDelaySeconds: []int{1}, ResetSeconds: 1 << 31},
	} {
		if _, _, err := recoveryActions(&r); !errors.Is(err, errServiceConfig) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for _, actions := range [][]recoveryAction{
		{{kind: 2}}, {{kind: actionRestart}, {kind: 0}}, {{kind: actionRestart, delay: 1500 * time.Millisecond}},
	} {
		if r := recoveryFrom(actions, 0); r != nil {
			t.Errorf("%v is read as %+v, though a plan cannot say it", actions, r)
		}
	}
	if r := recoveryFrom([]recoveryAction{{kind: actionRestart}}, 0xffffffff); r != nil {
		t.Errorf("a count that is never reset is read as %+v", r)
	}
}

func TestExitCode(t *testing.T) {
	for _, tt := range []struct{ win32Code, specific, want uint32 }{
		{0, 0, 0}, {1067, 0, 1067}, {1066, 255, 255}, {1077, 0, 0}, {5, 7, 5},
	} {
		if got := exitCode(tt.win32Code, tt.specific); got != tt.want {
			t.Errorf("%d, %d is %d, want %d", tt.win32Code, tt.specific, got, tt.want)
		}
	}
}

func TestStopUnderWay(t *testing.T) {
	for _, tt := range []struct {
		code  uint32
		state system.ServiceState
		want  bool
	}{
		{1061, system.ServiceStopPending, true},
		{1061, system.ServiceStartPending, false},
		{1062, system.ServiceStopped, false},
		{1051, system.ServiceRunning, false},
		{1052, system.ServiceStopPending, false},
	} {
		if got := stopUnderWay(tt.code, tt.state); got != tt.want {
			t.Errorf("%d in state %d: %v", tt.code, tt.state, got)
		}
	}
}
