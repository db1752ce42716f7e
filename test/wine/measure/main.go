//go:build linux

package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windowsmachine/operator/test/bench"
	"github.com/windowsmachine/operator/test/wine"
)

//go:embed idle/idle.c
var idleSource []byte

const (
	// starts is how often each of the two programs is started, in turn.
	starts = 15
	// compiler is that of the shims.
	compiler        = "x86_64-w64-mingw32-gcc"
	agentExe        = `C:\measure\wmcb.exe`
	idleExe         = `C:\measure\idle.exe`
	machinesNetwork = "10.79.0.0/24"
)

func main() {
	if err := measured(); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func measured() error {
	agent := flag.String("agent", "out/wmcb.exe", "the program that is measured")
	source := flag.String("source", "test/wine", "the folder of package wine")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	w, err := run(ctx, *agent, *source)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(w)
}

// run measures on a machine of its own, which is gone afterwards.
func run(ctx context.Context, agent, source string) (w bench.Wine, err error) {
	dir, err := os.MkdirTemp("", "windowsmachine-measure-")
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	kit, err := wine.Prepare(ctx, source, os.Stderr)
	if err != nil {
		return w, err
	}
	network, err := kit.NewNetwork(ctx, netip.MustParsePrefix(machinesNetwork))
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	m, err := network.NewMachine(wine.Options{Name: "WIN-Measure", Address: network.Address(1).String(), Dir: dir})
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, m.Destroy()) }()
	if err := furnish(ctx, m, agent, dir); err != nil {
		return w, err
	}
	if err := m.PowerOn(ctx); err != nil {
		return w, err
	}
	return measure(ctx, m)
}

// furnish puts both programs on the machine's disk.
func furnish(ctx context.Context, m *wine.Machine, agent, dir string) error {
	source, idle := filepath.Join(dir, "idle.c"), filepath.Join(dir, "idle.exe")
	if err := os.WriteFile(source, idleSource, 0o600); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, compiler, "-Os", "-s", "-o", idle, source).CombinedOutput(); err != nil {
		return fmt.Errorf("compiling idle.c: %w: %s", err, out)
	}
	for from, to := range map[string]string{agent: agentExe, idle: idleExe} {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := m.Put(to, content); err != nil {
			return err
		}
	}
	return nil
}

func measure(ctx context.Context, m *wine.Machine) (w bench.Wine, err error) {
	w.Starts = starts
	if w.Start, w.FloorStart, err = started(ctx, m); err != nil {
		return w, err
	}
	serve, err := m.Command(ctx, agentExe, "serve")
	if err != nil {
		return w, err
	}
	if err := bench.Answered(serve, func() error { w.Peak, err = peakBelow(serve.Process.Pid); return err }); err != nil {
		return w, fmt.Errorf("%s serve: %w", agentExe, err)
	}
	w.FloorPeak, err = idlePeak(ctx, m)
	return w, err
}

// started returns the median times, in milliseconds, from a start to the end. The two take turns, so that both see the same of a busy computer.
func started(ctx context.Context, m *wine.Machine) (agent, floor float64, err error) {
	took := map[string][]time.Duration{}
	// The first start of each is not counted: it reads the program from the disk.
	for range starts + 1 {
		for _, line := range [][]string{{agentExe, "version"}, {idleExe}} {
			began := time.Now()
			if out, err := m.Wine(ctx, line...); err != nil || len(out) == 0 {
				return 0, 0, fmt.Errorf("%q printed %q: %w", line, out, err)
			}
			took[line[0]] = append(took[line[0]], time.Since(began))
		}
	}
	return median(took[agentExe][1:]), median(took[idleExe][1:]), nil
}

func median(took []time.Duration) float64 {
	slices.Sort(took)
	return float64(took[len(took)/2].Microseconds()) / 1000
}

// idlePeak looks at the program that does nothing once it has said so.
func idlePeak(ctx context.Context, m *wine.Machine) (peak int64, err error) {
	cmd, err := m.Command(ctx, idleExe)
	if err != nil {
		return 0, err
	}
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
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return 0, fmt.Errorf("%s said nothing: %w", idleExe, io.ErrUnexpectedEOF)
	}
	return peakBelow(cmd.Process.Pid)
}

// peakBelow is the most memory, in bytes, that the only child of a process has taken so far. A process forgets its parent's peak when it becomes
// another program, which the child has done.
func peakBelow(pid int) (int64, error) {
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	children := strings.Fields(string(list))
	if len(children) != 1 {
		return 0, fmt.Errorf("process %d has the children %q, want one", pid, children)
	}
	child, err := strconv.Atoi(children[0])
	if err != nil {
		return 0, err
	}
	return bench.Peak(child)
}
