package host

import (
	"strings"
	"testing"

	"github.com/windowsmachine/operator/pkg/agent"
	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/plan"
)

// TestFailureNamesItsOwnStep: while earlier steps are still being shown, a failure or a reboot names the step that it is about.
func TestFailureNamesItsOwnStep(t *testing.T) {
	for _, c := range []struct {
		name   string
		report plan.Report
		want   string
	}{
		{"failed", plan.Report{Phase: plan.PhaseFailed, Step: plan.StepFiles, Index: 4, Total: 7, Code: agent.CodeDiskFull, Seq: 9}, "step 4/7 install-files failed: DiskFull"},
		{"reboot", plan.Report{Phase: plan.PhaseRebootNeeded, Step: plan.StepFeatures, Index: 4, Total: 7, Seq: 9}, "step 4/7 enable-features needs a reboot"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := walk(aView(connected, named, loaded, ticketed, recorded(c.report), func(v *view) {
				earlier := *v.snap.Report
				earlier.Phase, earlier.Step, earlier.Index, earlier.Code, earlier.Seq = plan.PhaseRunning, plan.StepDirectories, 2, "", 5
				v.snap.Trail = append(v.snap.Trail, earlier)
			}))
			if p.step != "2/7 make-directories" {
				t.Errorf("the step shown is %q, want the earlier one", p.step)
			}
			if got := readyOf(p); !strings.Contains(got.Message, c.want) {
				t.Errorf("Ready says %q, want %q", got.Message, c.want)
			}
		})
	}
}

// TestLoggedInAndNotAskedYet: a machine of which nothing is known yet has no Node to speak of.
func TestLoggedInAndNotAskedYet(t *testing.T) {
	ask := func(v *view) { v.snap.Connected, v.snap.HostKey, v.snap.Facts = true, aKey("one"), nil }
	if got := readyOf(walk(aView(ask))); got.Reason != v1alpha1.ReasonNotChecked || !strings.Contains(got.Message, "asking the machine") {
		t.Errorf("Ready is %s %q, want %s", got.Reason, got.Message, v1alpha1.ReasonNotChecked)
	}
	// After a start of the operator the machine is known, and its node stays Ready while it is asked again.
	known := func(v *view) {
		v.host.Status.OS = &v1alpha1.OSStatus{Build: 20348}
		v.host.Status.Plan = &v1alpha1.PlanStatus{Digest: "d", Applied: "d"}
	}
	if got := readyOf(walk(aView(named, registered, known, ask))); got.Reason != v1alpha1.ReasonNodeReady {
		t.Errorf("Ready is %s %q, want %s", got.Reason, got.Message, v1alpha1.ReasonNodeReady)
	}
}
