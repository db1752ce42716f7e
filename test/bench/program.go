package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Program is what the agent's program costs by itself. Its size is that of the Windows build; it is started as it builds for this system, since
// nothing here runs the other one.
type Program struct {
	Size int64 `json:"bytes"`
	// Start is the median time that `wmcb version` takes, in milliseconds; Peak the most memory of any run, in bytes.
	Start float64 `json:"start_ms"`
	Peak  int64   `json:"peak_bytes"`
}

// starts is how often the program is started.
const starts = 15

var errUsage = errors.New("no resource usage is known")

// program measures the agent's program.
func program(ctx context.Context, windows, local string) (p Program, err error) {
	info, err := os.Stat(windows)
	if err != nil {
		return p, err
	}
	p.Size = info.Size()
	var took []time.Duration
	for range starts {
		cmd := exec.CommandContext(ctx, local, "version")
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return p, fmt.Errorf("starting %s: %w: %s", local, err, out)
		}
		took = append(took, time.Since(began))
		usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		if !ok {
			return p, errUsage
		}
		// ru_maxrss is in kilobytes on Linux (getrusage(2)).
		p.Peak = max(p.Peak, usage.Maxrss<<10)
	}
	slices.Sort(took)
	p.Start = float64(took[len(took)/2].Microseconds()) / 1000
	return p, nil
}

func (p Program) line(b *strings.Builder) {
	if p.Size > 0 {
		fmt.Fprintf(b, "wmcb.exe has %.1f MB; `wmcb version`, built for this system, takes %.0f ms and %.0f MB of memory\n\n", mega(p.Size), p.Start, mega(p.Peak))
	}
}
