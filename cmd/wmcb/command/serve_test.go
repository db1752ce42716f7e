package command

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/console"
	"github.com/windowsmachine/operator/pkg/plan"
)

// TestServe: one run of the program answers several commands, each with its own input and exit code, as if each had been run by itself.
func TestServe(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		var in bytes.Buffer
		for _, c := range []struct{ args, stdin string }{
			{"facts --json", "{}"}, {"facts --json", "}"}, {"status --json", ""}, {"receive --what", ""}, {"version --json", ""},
		} {
			if err := console.Send(&in, 1, strings.Fields(c.args), strings.NewReader(c.stdin)); err != nil {
				t.Fatal(err)
			}
		}
		exit, stdout, stderr := r.run(in.String(), "serve")
		if exit != ExitOK || stderr != "" {
			t.Fatalf("exit code %d, %s", exit, stderr)
		}
		var saw []string
		for _, l := range strings.Split(stdout, "\n") {
			if d, ok := console.ParseDone([]byte(l)); ok {
				saw = append(saw, map[int]string{ExitOK: "done", ExitUsage: "usage"}[d.Exit])
				continue
			}
			var v struct {
				APIVersion, Code, Version string
			}
			if l != "" {
				if err := json.Unmarshal([]byte(l), &v); err != nil {
					t.Fatalf("%q: %v", l, err)
				}
				saw = append(saw, v.APIVersion+v.Code+v.Version)
			}
		}
		want := []string{plan.FactsVersion, "done", plan.ReportVersion + "PlanInvalid", "usage", plan.ReportVersion, "done", "usage", "v1.2.3", "done"}
		if d := cmp.Diff(want, saw); d != "" {
			t.Errorf("-want +got:\n%s\n%s", d, stdout)
		}
	})
}

// TestServeIsStrict: what is no request ends it, and says so.
func TestServeIsStrict(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		exit, stdout, stderr := r.run("facts --json\n", "serve")
		if exit != ExitUsage || stdout != "" || !strings.Contains(stderr, console.ErrProtocol.Error()) {
			t.Errorf("exit code %d, %q, %q", exit, stdout, stderr)
		}
		if exit, stdout, stderr := r.run("", "serve"); exit != ExitOK || stdout+stderr != "" {
			t.Errorf("without a request: exit code %d, %q, %q", exit, stdout, stderr)
		}
	})
}
