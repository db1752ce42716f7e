package golden

import (
	"os"
	"path/filepath"
	"testing"
)

// recorder is a test that notes whether it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestEqual(t *testing.T) {
	path := filepath.Join(t.TempDir(), "golden")
	if err := os.WriteFile(path, []byte("right\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for got, wrong := range map[string]bool{"right\n": false, "right": true, "": true} {
		r := &recorder{TB: t}
		Equal(r, path, []byte(got))
		if r.failed != wrong {
			t.Errorf("%q fails %t", got, r.failed)
		}
	}
}
