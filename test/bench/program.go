package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

// Program is what the agent's program costs by itself.
type Program struct {
	// Size is that of the program as it goes to Windows.
	Size int64 `json:"bytes"`
	// Start is the median time that `wmcb version` takes, in milliseconds, and Peak the most memory that it has taken when it has answered, in bytes,
	// both of the program as it builds for this system.
	Start float64 `json:"start_ms"`
	Peak  int64   `json:"peak_bytes"`
	// Wine is the same of the program as it goes to Windows; nil where LeftOut says why.
	Wine    *Wine  `json:"wine,omitempty"`
	LeftOut string `json:"wine_left_out,omitempty"`
}

// Wine is what wmcb.exe costs on a machine of Wine, and what a program does that does nothing: times in milliseconds, medians of so many starts, and
// peaks in bytes.
type Wine struct {
	Starts     int     `json:"starts"`
	Start      float64 `json:"start_ms"`
	Peak       int64   `json:"peak_bytes"`
	FloorStart float64 `json:"floor_start_ms"`
	FloorPeak  int64   `json:"floor_peak_bytes"`
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
	cmd := exec.CommandContext(ctx, local, "serve")
	if err := Answered(cmd, func() error { p.Peak, err = Peak(cmd.Process.Pid); return err }); err != nil {
		return p, fmt.Errorf("%s serve: %w", local, err)
	}
	return p, nil
}

// Answered has `wmcb serve` answer one command and calls look while it waits for the next: the peak that the kernel keeps of a process that has ended
// is at least that of the process which made it.
func Answered(serve *exec.Cmd, look func() error) (err error) {
	in, err := serve.StdinPipe()
	if err != nil {
		return err
	}
	out, err := serve.StdoutPipe()
	if err != nil {
		return err
	}
	if err := serve.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close(), serve.Wait()) }()
	if err := console.Send(in, 1, []string{"version", "--json"}, nil); err != nil {
		return err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, done := console.ParseDone(lines.Bytes()); done {
			return look()
		}
	}
	return io.ErrUnexpectedEOF
}

// Peak is the most memory that a process has taken so far, in bytes.
func Peak(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return kilobytes(string(status), "VmHWM:"), err
}

// errNotRoot: a machine of Wine is made of namespaces and mounts.
var errNotRoot = errors.New("that takes a machine of Wine and so root: run `sudo make bench`")

// underWine has the program measure, in namespaces of its own, find out what the agent costs as it goes to Windows.
func underWine(ctx context.Context, measure, agent string, uid int) (*Wine, error) {
	if uid != 0 {
		return nil, errNotRoot
	}
	// Its network and its machine's processes end with it.
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", "-c", `ip link set lo up; exec "$@"`, "sh", measure, "-agent", agent)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		text := errs.Bytes()
		return nil, fmt.Errorf("measuring on a machine of Wine: %w: %s", err, text[max(0, len(text)-500):])
	}
	w := &Wine{}
	if err := json.Unmarshal(out, w); err != nil {
		return nil, fmt.Errorf("reading what %s measured: %w", measure, err)
	}
	return w, nil
}

func (p Program) table(b *strings.Builder) {
	if p.Size == 0 {
		return
	}
	fmt.Fprintf(b, "wmcb.exe has %.1f MB\n\n| program | start ms | peak MB |\n| --- | --- | --- |\n", mega(p.Size))
	row := func(name string, start float64, peak int64) {
		fmt.Fprintf(b, "| %s | %.0f | %.0f |\n", name, start, mega(peak))
	}
	if w := p.Wine; w != nil {
		row("`wmcb.exe version`, under Wine", w.Start, w.Peak)
		row("a program that does nothing, under Wine", w.FloorStart, w.FloorPeak)
	}
	row("`wmcb version`, built for this system", p.Start, p.Peak)
	if p.LeftOut != "" {
		fmt.Fprintf(b, "\nwmcb.exe itself was not started: %s\n", p.LeftOut)
	}
	b.WriteString("\n")
}
