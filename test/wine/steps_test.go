//go:build linux && wine

package wine

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/windowsmachine/operator/test/windows"
)

var writeReports = flag.Bool("write-reports", false, "put the reports of TestSteps among those of test/windows")

// lackingSubjects are those of test/windows that fail under Wine with shims, with what Wine lacks.
func lackingSubjects() map[string]string {
	return map[string]string{
		"import-certificates":   "a certificate cannot be deleted from a store",
		windows.SubjectOrder:    "the service manager does not start what a service depends on",
		windows.SubjectRecovery: "the service manager does not start a service that died",
	}
}

// TestSteps lets the test program of test/windows exercise every kind of step in a machine of Wine: the feature first, since it takes a reboot,
// then everything. Its reports are what the README's table says of Wine.
func TestSteps(t *testing.T) {
	s := newStation(t)
	s.build(`C:\work\steps.test.exe`, "./test/windows", "test", "-c", "-trimpath")
	first := s.steps("first.json", "-enable-features -only enable-features")
	if res, _ := first.Find("enable-features"); res.Outcome != windows.Passed {
		t.Fatalf("%+v", res)
	}
	must(t, s.Restart(t.Context()))
	must(t, s.untilSSH(t.Context()))
	for _, res := range s.steps("second.json", "").Results {
		lacks, known := lackingSubjects()[res.Step]
		if known != (res.Outcome == windows.Failed) {
			t.Errorf("%s: %s %s; Wine is known to lack %q", res.Step, res.Outcome, res.Why, lacks)
		}
	}
}

// steps runs the test program with flags and returns its report.
func (s *station) steps(name, flags string) windows.Report {
	s.t.Helper()
	out, _ := s.run(`cd C:\work && steps.test.exe -test.v -test.run TestSteps -change-this-machine -results ` + name + " " + flags)
	b, err := s.File(`C:\work\` + name)
	if err != nil {
		s.t.Fatalf("no report: %v: %s", err, out)
	}
	path := filepath.Join(s.t.TempDir(), name)
	if *writeReports {
		path = filepath.Join("..", "windows", "results", "wine-"+name)
	}
	must(s.t, os.WriteFile(path, b, 0o644))
	r, err := windows.ReadReport(path)
	must(s.t, err)
	if r.Platform != windows.PlatformWine {
		s.t.Errorf("it ran on %q", r.Platform)
	}
	return r
}
