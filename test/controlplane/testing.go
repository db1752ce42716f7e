package controlplane

import (
	"os"
	"path/filepath"
	"testing"
)

// StartForTest starts a control plane that ends with the test. After a failed test the ends of the components' logs are in
// the test's output. The first build may take longer than a test may: run "go run ./test/cmd/controlplane build" before.
func StartForTest(t testing.TB, opts Options) *ControlPlane {
	t.Helper()
	if opts.Progress == nil {
		opts.Progress = os.Stderr
	}
	cp, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			logTails(t, cp.Dir())
		}
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cp
}

func logTails(t testing.TB, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Log(err)
	}
	for _, log := range logs {
		t.Logf("%s ends:\n%s", filepath.Base(log), fileTail(log))
	}
}
