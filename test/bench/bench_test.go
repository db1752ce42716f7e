package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/test/hostsim"
	standin "github.com/windowsmachine/operator/test/payload"
)

func TestCPUOf(t *testing.T) {
	// A program may call itself anything.
	const stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0 9 0 100 0 0"
	if got, err := cpuOf(stat); err != nil || got != 1750*time.Millisecond {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{"", "12 (a) S 1 2", "12 (a) S 1 2 3 4 5 6 7 8 9 10 x 25 0 0"} {
		if got, err := cpuOf(bad); err == nil {
			t.Errorf("%q gave %s", bad, got)
		}
	}
}

func TestWritesOf(t *testing.T) {
	const metrics = `# HELP rest_client_requests_total Number of HTTP requests
rest_client_requests_total{code="200",host="127.0.0.1:1",method="GET"} 100
rest_client_requests_total{code="200",host="127.0.0.1:1",method="PATCH"} 30
rest_client_requests_total{code="409",host="127.0.0.1:1",method="PATCH"} 1
rest_client_requests_total{code="201",host="127.0.0.1:1",method="POST"} 1e+01
other_total{method="PATCH"} 7
`
	if got, err := writesOf(strings.NewReader(metrics)); err != nil || got != 41 {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := writesOf(strings.NewReader(`rest_client_requests_total{method="PUT"} many`)); err == nil {
		t.Error("a value that is no number is accepted")
	}
}

func TestKilobytes(t *testing.T) {
	const status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n"
	if got := kilobytes(status, "VmRSS:"); got != 1<<20 {
		t.Errorf("VmRSS is %d", got)
	}
	if got := kilobytes(status, "VmSwap:"); got != 0 {
		t.Errorf("what is not there is %d", got)
	}
}

func TestDistribution(t *testing.T) {
	var all []time.Duration
	for n := range 100 {
		all = append(all, time.Duration(100-n)*time.Millisecond)
	}
	if d := cmp.Diff(Reaction{Name: "x", N: 100, P50: 50, P95: 95, Max: 100}, distribution("x", all)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Reaction{Name: "x", N: 1, P50: 7, P95: 7, Max: 7}, distribution("x", []time.Duration{7 * time.Millisecond})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Reaction{Name: "x"}, distribution("x", nil)); d != "" {
		t.Error(d)
	}
}

func at(ms int) time.Time { return time.UnixMilli(int64(1e12 + ms)) }

func TestTimings(t *testing.T) {
	const wmcb = `C:\Windows\wmcb\0123456789abcdef\wmcb.exe `
	moments := map[string][]hostsim.Moment{"a": {
		{At: at(0), Kind: hostsim.MomentConnect},
		{At: at(10), Kind: hostsim.MomentStart, Command: wmcb + "facts --json"},
		{At: at(20), Kind: hostsim.MomentEnd, Command: wmcb + "facts --json"},
		{At: at(25), Kind: hostsim.MomentStart, Command: wmcb + "receive"},
		{At: at(50), Kind: hostsim.MomentEnd, Command: wmcb + "receive"},
		{At: at(57), Kind: hostsim.MomentStart, Command: wmcb + "apply --json"},
		{At: at(90), Kind: hostsim.MomentEnd, Command: wmcb + "apply --json"},
		{At: at(190), Kind: hostsim.MomentStart, Command: wmcb + "apply --json"},
		{At: at(290), Kind: hostsim.MomentEnd, Command: wmcb + "status --follow --json"},
	}}
	// The wait for the node after the first apply is no reaction.
	if d := cmp.Diff([]time.Duration{5 * time.Millisecond, 7 * time.Millisecond}, gaps(moments)); d != "" {
		t.Error(d)
	}
	if got := applies(moments, hostsim.MomentStart, 1)["a"]; !got.Equal(at(190)) {
		t.Errorf("second apply at %s", got)
	}
	if got := applies(moments, hostsim.MomentEnd, 0)["a"]; !got.Equal(at(90)) {
		t.Errorf("first apply ended at %s", got)
	}
	if got := lastWatch(moments)["a"]; !got.Equal(at(290)) {
		t.Errorf("watched until %s", got)
	}
	if got, ok := ended(moments["a"], "facts"); !ok || !got.Equal(at(20)) {
		t.Errorf("facts at %s", got)
	}
	if got := subcommand(`C:\Windows\System32\hostname.exe apply`); got != "" {
		t.Errorf("another program is the agent's %q", got)
	}
	both := later(map[string]time.Time{"a": at(1), "b": at(5)}, map[string]time.Time{"a": at(3)})
	if d := cmp.Diff(map[string]time.Time{"a": at(3)}, both); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Reaction{Name: "x", N: 2, P50: 0, P95: 4, Max: 4}, between("x",
		map[string]time.Time{"a": at(5), "b": at(6), "c": at(7)}, map[string]time.Time{"a": at(9), "b": at(2)})); d != "" {
		t.Error(d)
	}
}

func TestTargets(t *testing.T) {
	row := Row{Scenario: "real", Hosts: 1, RTT: 5, Phase: "first", Wall: 4.5, Channels: 6, Turns: 47, CPU: 0.4}
	row.compare()
	if row.Incumbent == nil || row.Incumbent.Turns != 5807 || row.Ratio != 20 {
		t.Errorf("beside the incumbent: %+v, %v", row.Incumbent, row.Ratio)
	}
	changed := Row{Scenario: "real", Hosts: 1, RTT: 5, Phase: "changed", BytesPerHost: 1_150_000, Changed: 1_000_000}
	other := Row{Scenario: "real", Hosts: 2, RTT: 5, Phase: "first", Wall: 100}
	met := map[string]bool{}
	for _, x := range targets([]Row{row, changed, other}, []Reaction{{Max: 3}, {Max: 1000.5}}) {
		met[x.Name] = x.Met
	}
	want := map[string]bool{
		"first configuration": true, "PowerShell starts, first": true, "SSH channels, first": false, "round trips, first": true,
		"operator CPU, first": true, "bytes, one program changed": false, "slowest reaction to an event": false,
	}
	if d := cmp.Diff(want, met); d != "" {
		t.Error(d)
	}
}

// TestWrite: the output has exactly one line that begins with a brace, and it is the whole result.
func TestWrite(t *testing.T) {
	in := Result{Date: "now", Machine: Machine{CPUs: 2}, Rows: []Row{{Scenario: "real", Hosts: 1, RTT: 5, Phase: "first", Wall: 3}}, Reactions: []Reaction{{Name: "r", N: 1}}}
	in.Rows[0].compare()
	in.Targets = targets(in.Rows, in.Reactions)
	var out bytes.Buffer
	if err := in.Write(&out); err != nil {
		t.Fatal(err)
	}
	var objects []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "{") {
			objects = append(objects, line)
		}
	}
	if len(objects) != 1 {
		t.Fatalf("%d objects in %s", len(objects), out.String())
	}
	var back Result
	if err := json.Unmarshal([]byte(objects[0]), &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(in, back); d != "" {
		t.Error(d)
	}
	for _, want := range []string{"| 1 | 5 | real | first | 3.0 | 90 | 30 |", "| first configuration | 90 s | 5 s | 3 s | met |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, out.String())
		}
	}
}

func TestVariant(t *testing.T) {
	s, err := standin.Generate(t.TempDir(), 1e-9)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := variant(s, dir, changedBlob); err != nil {
		t.Fatal(err)
	}
	v, err := payload.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Verify(); err != nil {
		t.Error(err)
	}
	var differ []string
	for _, b := range s.Manifest().Blobs {
		if n, ok := v.Lookup(b.Name); !ok || n.SHA256 != b.SHA256 {
			differ = append(differ, b.Name)
		}
	}
	if d := cmp.Diff([]string{changedBlob}, differ); d != "" {
		t.Error(d)
	}
	// It is still known for what it is.
	b, _ := v.Lookup(changedBlob)
	r, err := v.OpenPlain(b.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	head, err := io.ReadAll(io.LimitReader(r, 256))
	if name, ok := standin.Identify(head); err != nil || !ok || name != changedBlob {
		t.Errorf("%q, %v", name, err)
	}
	if err := variant(s, t.TempDir(), "nothing.exe"); !errors.Is(err, errNoBlob) {
		t.Errorf("a blob that is not there: %v", err)
	}
}

func TestScenarios(t *testing.T) {
	for _, quick := range []bool{false, true} {
		names := map[string]bool{}
		for _, s := range scenarios(quick) {
			if s.hosts < 1 || s.scale <= 0 || s.scale > 1 {
				t.Errorf("%+v", s)
			}
			names[s.name] = true
		}
		for _, want := range []string{"real", "crowd", "idle"} {
			if !names[want] {
				t.Errorf("quick %v has no %s", quick, want)
			}
		}
	}
}

func TestProgram(t *testing.T) {
	dir := t.TempDir()
	local := filepath.Join(dir, "wmcb")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", local, "../../cmd/wmcb").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	windows := filepath.Join(dir, "wmcb.exe")
	if err := os.WriteFile(windows, []byte("MZ"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := program(t.Context(), windows, local)
	if err != nil || p.Size != 2 || p.Start <= 0 || p.Peak < 4<<20 || p.Peak > 64<<20 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := program(t.Context(), windows+"x", local); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a program: %v", err)
	}
	if err := os.WriteFile(local, []byte("#!/bin/sh\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := program(t.Context(), windows, local); err == nil {
		t.Error("a program that fails is measured")
	}
}

func TestUnderWine(t *testing.T) {
	if _, err := underWine(t.Context(), "measure", "wmcb.exe", 1000); !errors.Is(err, errNotRoot) || !strings.Contains(err.Error(), "sudo make bench") {
		t.Errorf("without root: %v, want %v", err, errNotRoot)
	}
	if w, err := underWine(t.Context(), filepath.Join(t.TempDir(), "measure"), "wmcb.exe", 0); err == nil || w != nil {
		t.Errorf("without the program: %+v, %v", w, err)
	}
}

// What was not measured is said, and what was measured of which program.
func TestProgramsTable(t *testing.T) {
	p := Program{Size: 12_200_000, Start: 4, Peak: 9e6}
	for name, c := range map[string]struct {
		wine *Wine
		left string
		want []string
		not  string
	}{
		"measured": {&Wine{Starts: 15, Start: 321, Peak: 44e6, FloorStart: 210, FloorPeak: 17e6}, "", []string{
			"| `wmcb.exe version`, under Wine | 321 | 44 |", "| a program that does nothing, under Wine | 210 | 17 |", "| `wmcb version`, built for this system | 4 | 9 |", "12.2 MB",
		}, "not started"},
		"left out": {nil, errNotRoot.Error(), []string{"wmcb.exe itself was not started", "sudo make bench", "built for this system | 4 | 9 |"}, "under Wine |"},
	} {
		t.Run(name, func(t *testing.T) {
			p.Wine, p.LeftOut = c.wine, c.left
			var b strings.Builder
			p.table(&b)
			for _, want := range c.want {
				if !strings.Contains(b.String(), want) {
					t.Errorf("no %q in\n%s", want, b.String())
				}
			}
			if strings.Contains(b.String(), c.not) {
				t.Errorf("%q in\n%s", c.not, b.String())
			}
		})
	}
}
