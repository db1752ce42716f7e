package command

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

// rows reads the lines of `preflight --json`: the result by check, the worst of several.
func rows(t *testing.T, out string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for line := range strings.Lines(out) {
		var f finding
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Check == "" || f.Result == "" {
			t.Fatalf("%s: %v", line, err)
		}
		if got[f.Check] != "stops" {
			got[f.Check] = string(f.Result)
		}
		if (f.Code == "") != (f.Message == "") || f.Fatal != (f.Result == "stops") {
			t.Errorf("%s", line)
		}
	}
	return got
}

var diskOK = regexp.MustCompile(`disk space +ok`)

func TestPreflight(t *testing.T) {
	withRig(t, fake.Options{Build: 14393, NotElevated: true}, func(t *testing.T, r *rig) {
		before := r.m.Dump()
		exit, out, _ := r.run("", "preflight", "--node-ip", "203.0.113.1")
		if exit != ExitFailed || strings.Count(out, " stops ") < 3 || !diskOK.MatchString(out) {
			t.Errorf("exit %d, all at once? %s", exit, out)
		}
		exit, out, _ = r.run("", "preflight", "--json", "--ca", `C:\absent.crt`)
		if exit != ExitFailed || reports(t, out)[0].Phase != plan.PhaseFailed {
			t.Errorf("exit %d, %s", exit, out)
		}
		if d := cmp.Diff(before, r.m.Dump()); d != "" {
			t.Errorf("something was changed: %s", d)
		}
	})
	withRig(t, fake.Options{Features: map[string]fake.Feature{"Containers": {Enabled: true}}}, func(t *testing.T, r *rig) {
		exit, out, _ := r.run("", "preflight", "--node-ip", "192.0.2.10", "--json")
		want := map[string]string{
			"Windows version": "ok", "administrator": "ok", "disk space": "ok", "clock": "not looked at", "host name": "ok", "node name": "not looked at",
			"node address": "ok", "API server": "not looked at", "services of others": "ok", "Windows features": "ok", "agent": "ok",
			"payload": "not looked at", "versions": "not looked at", "Windows edition": "not looked at", "Windows updates": "not looked at",
			"adapter teams": "not looked at", "dynamic ports": "not looked at", "ports of a node": "not looked at", "restart": "not looked at",
			"other container software": "not looked at",
		}
		if d := cmp.Diff(want, rows(t, out)); d != "" || exit != ExitOK {
			t.Errorf("exit %d, %s", exit, d)
		}
	})
}

// TestPreflightByHand: what initialize-kubelet would be given is looked at as well.
func TestPreflightByHand(t *testing.T) {
	withBench(t, "v1.17.2", "v1.7.24", fake.Options{}, func(t *testing.T, b *bench) {
		exit, out, _ := b.run("", "preflight", "--json", "--ignition-file", ignitionFile, "--kubelet-path", kubeletFile, "--containerd-path", containerdIn,
			"--platform-type", "vsphere")
		got := rows(t, out)
		if exit != ExitFailed || got["container runtime"] != "stops" || got["ignition file"] != "ok" || got["kubelet"] != "ok" || got["platform"] != "ok" {
			t.Errorf("exit %d, %s", exit, out)
		}
		if !strings.Contains(out, "1.18 is the first") {
			t.Errorf("no reason: %s", out)
		}
		_, out, _ = b.run("", "preflight", "--json", "--kubelet-path", kubeletFile)
		if got := rows(t, out); got["ignition file"] != "not looked at" || got["container runtime"] != "stops" {
			t.Errorf("%s", out)
		}
	})
}
