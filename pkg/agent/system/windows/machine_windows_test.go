package windows

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/windowsmachine/operator/pkg/agent/system/cmdline"
)

func TestMachine(t *testing.T) {
	m := here(t).Machine
	name, err := m.Hostname()
	if err != nil || name == "" {
		t.Errorf("host name %q %v", name, err)
	}
	build, ubr, err := m.Version()
	if err != nil || build < 10000 || ubr < 0 {
		t.Errorf("build %d.%d %v", build, ubr, err)
	}
	first, err := m.BootID()
	if err != nil || len(first) != 16 {
		t.Errorf("boot identifier %q %v", first, err)
	}
	if again, _ := m.BootID(); again != first {
		t.Errorf("boot identifier changed from %s to %s", first, again)
	}
	for _, path := range []string{`C:\`, `C:\not\there`} {
		if free, err := m.FreeDisk(path); err != nil || free <= 0 {
			t.Errorf("free on %s: %d %v", path, free, err)
		}
	}
	exe, err := m.Executable()
	if err != nil || !strings.HasSuffix(strings.ToLower(exe), ".exe") {
		t.Errorf("executable %q %v", exe, err)
	}
	if _, err := m.Elevated(); err != nil {
		t.Error(err)
	}
}

// TestSurvey: a port that this test listens on is found, and what the machine says has the right shape.
func TestSurvey(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	got := here(t).Machine.Survey()
	if port := l.Addr().(*net.TCPAddr).Port; !slices.Contains(got.BusyPorts, port) {
		t.Errorf("port %d is not among the listening ones %v", port, got.BusyPorts)
	}
	if got.InstallationType == "" {
		t.Error("no installation type")
	}
	for _, r := range got.DynamicPorts {
		if r.First < 1 || r.Count < 1 || r.Protocol == "" {
			t.Errorf("range %+v", r)
		}
	}
}

func TestMachineAddresses(t *testing.T) {
	list, err := here(t).Machine.Addresses()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		prefix, err := netip.ParsePrefix(a.Prefix)
		if err != nil || prefix.Addr().IsLoopback() || a.Adapter == "" {
			t.Errorf("%+v %v", a, err)
		}
	}
}

func TestMachineDialHonoursContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := here(t).Machine.Dial(ctx, "tcp", "192.0.2.1:6443"); !errors.Is(err, context.Canceled) {
		t.Errorf("dial with an ended context: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	conn, err := here(t).Machine.Dial(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func TestClockSleepEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := here(t).Clock.Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("sleep with an ended context: %v", err)
	}
	want(t, "sleep", here(t).Clock.Sleep(t.Context(), time.Millisecond), nil)
}

// TestW58EnvironmentByteForByte: values are stored and read as they are, and one that Windows expands stays one.
func TestW58EnvironmentByteForByte(t *testing.T) {
	env, name := here(t).Env, "WMCB_TEST_PROXY"
	t.Cleanup(func() { _ = env.Unset(name) })
	for _, value := range []string{
		"http://svc-win:p%23a%25ss%40w%26d@proxy.example.test:3128", "", "%SystemRoot%", `a"b;c&d|e^f`, strings.Repeat("x", 32767),
	} {
		want(t, "set", env.Set(name, value), nil)
		got, ok, err := env.Get(strings.ToLower(name))
		if err != nil || !ok || got != value {
			t.Errorf("%.60q comes back as %.60q %v %v", value, got, ok, err)
		}
	}
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, envKey, registry.QUERY_VALUE|registry.SET_VALUE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = key.Close() }()
	if _, kind, err := key.GetStringValue(name); err != nil || kind != registry.SZ {
		t.Errorf("type %d %v", kind, err)
	}
	want(t, "make it expand", key.SetExpandStringValue(name, `%SystemRoot%\x`), nil)
	want(t, "set", env.Set(name, `%SystemRoot%\y`), nil)
	if value, kind, err := key.GetStringValue(name); err != nil || kind != registry.EXPAND_SZ || value != `%SystemRoot%\y` {
		t.Errorf("%q of type %d %v", value, kind, err)
	}
	want(t, "unset", env.Unset(name), nil)
	want(t, "unset again", env.Unset(name), nil)
	if _, ok, err := env.Get(name); ok || err != nil {
		t.Errorf("still there: %v %v", ok, err)
	}
}

// TestW53CommandLineAsWindowsReadsIt holds package cmdline against CommandLineToArgvW.
func TestW53CommandLineAsWindowsReadsIt(t *testing.T) {
	const exe = `C:\Program Files\k8s node\kubelet.exe`
	args := []string{
		`--config=C:\Program Files\k8s node\kubelet.conf`, `C:\k\`, `C:\k node\`, ``, `"`, `\"`, `\\" \`, `a"b c"d`, "tab\there", `ünï`, `%PATH%`, `a^b&c`,
	}
	line, err := cmdline.Join(exe, args)
	if err != nil {
		t.Fatal(err)
	}
	got, err := windows.DecomposeCommandLine(line)
	if err != nil || len(got) != len(args)+1 || got[0] != exe {
		t.Fatalf("%s is read as %q, %v", line, got, err)
	}
	for i, a := range args {
		if got[i+1] != a {
			t.Errorf("argument %q is read as %q", a, got[i+1])
		}
	}
	for _, line := range []string{
		`C:\Program Files\x.exe -a`, `"C:\Program Files\x.exe"   -a  `, `x "a b c" d e`, `x "ab\"c" "\\" d`, `x a\\\b d"e f"g h`, `x a\\\"b c d`,
		`x a\\\\"b c" d e`, `x ""`, `x "a""b c"`, `"unclosed path`, `x "unclosed arg`,
	} {
		want, err := windows.DecomposeCommandLine(line)
		if err != nil {
			t.Fatal(err)
		}
		exe, args := cmdline.Split(line)
		if got := append([]string{exe}, args...); strings.Join(got, "\x00") != strings.Join(want, "\x00") {
			t.Errorf("%s is split into %q, Windows says %q", line, got, want)
		}
	}
}

// The agent's own file is found where the test program is.
func TestExecutableIsThisProgram(t *testing.T) {
	exe, err := here(t).Machine.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a, errA := os.Stat(exe)
	b, errB := os.Stat(os.Args[0])
	if errA != nil || errB != nil || !os.SameFile(a, b) {
		t.Errorf("%s is not %s", exe, os.Args[0])
	}
}
