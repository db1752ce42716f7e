package fake_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
)

func TestOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fake.New(fake.Options{Programs: map[string]fake.Program{
			"says.exe":  func(_ context.Context, p *fake.Process) int { fmt.Fprint(p.Stdout(), p.Args()); return 0 },
			"fails.exe": func(context.Context, *fake.Process) int { return 7 },
			"hangs.exe": func(ctx context.Context, _ *fake.Process) int { <-ctx.Done(); return 0 },
			"talks.exe": func(_ context.Context, p *fake.Process) int {
				_, _ = io.WriteString(p.Stdout(), strings.Repeat("x", system.MaxOutput+1))
				return 0
			},
		}})
		defer m.Close()
		for _, name := range []string{"says", "fails", "hangs", "talks"} {
			if err := m.WriteFile(`C:\`+name+`.exe`, []byte("MZ")); err != nil {
				t.Fatal(err)
			}
		}
		run := m.System().Programs
		if out, err := run.Output(t.Context(), `C:\says.exe`, "--version", "a b"); err != nil || string(out) != "[--version a b]" {
			t.Errorf("%q, %v", out, err)
		}
		if out, err := run.Output(t.Context(), `C:\talks.exe`); err != nil || len(out) != system.MaxOutput {
			t.Errorf("%d bytes, %v", len(out), err)
		}
		if _, err := run.Output(t.Context(), `C:\fails.exe`); err == nil || !strings.Contains(err.Error(), "exit code 7") {
			t.Errorf("error %v", err)
		}
		if _, err := run.Output(t.Context(), `C:\absent.exe`); !errors.Is(err, system.ErrNotExist) {
			t.Errorf("error %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := run.Output(ctx, `C:\hangs.exe`); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		synctest.Wait()
		if n := len(m.Processes()); n != 0 {
			t.Errorf("%d processes are left", n)
		}
	})
}
