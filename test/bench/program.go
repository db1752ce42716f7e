package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/windowsmachine/operator/pkg/console"
)

// Program is what the agent's program costs by itself. Its size is that of the Windows build; it is started as it builds for this system, since
// nothing here runs the other one.
type Program struct {
	Size int64 `json:"bytes"`
	// Start is the median time that `wmcb version` takes, in milliseconds; Peak the most memory that it has taken when it has answered, in bytes.
	Start float64 `json:"start_ms"`
	Peak  int64   `json:"peak_bytes"`
}

// starts is how often the program is started.
const starts = 15

// program measures the agent's program.
func program(ctx context.Context, windows, local string) (p Program, err error) {
	info, err := os.Stat(windows)
	if err != nil {
		return p, err
	}
	p.Size = info.Size()
	var took []time.Duration
	for range starts {
		began := time.Now()
		if out, err := exec.CommandContext(ctx, local, "version").CombinedOutput(); err != nil {
			return p, fmt.Errorf("starting %s: %w: %s", local, err, out)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	p.Start = float64(took[len(took)/2].Microseconds()) / 1000
	p.Peak, err = peakOf(ctx, local)
	return p, err
}

// peakOf has a program answer one command and looks at it while it waits for the next: the peak that the kernel keeps of a process that has ended is at
// least that of the process which made it.
func peakOf(ctx context.Context, local string) (peak int64, err error) {
	cmd := exec.CommandContext(ctx, local, "serve")
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.Close(), cmd.Wait()) }()
	if err := console.Send(in, 1, []string{"version", "--json"}, nil); err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, done := console.ParseDone(lines.Bytes()); !done {
			continue
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		return kilobytes(string(status), "VmHWM:"), err
	}
	return 0, fmt.Errorf("%s serve: %w", local, io.ErrUnexpectedEOF)
}

func (p Program) line(b *strings.Builder) {
	if p.Size > 0 {
		fmt.Fprintf(b, "wmcb.exe has %.1f MB; `wmcb version`, built for this system, takes %.0f ms and %.0f MB of memory\n\n", mega(p.Size), p.Start, mega(p.Peak))
	}
}
