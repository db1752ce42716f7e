package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Machine is what the run ran on.
type Machine struct {
	CPUs      int    `json:"cpus"`
	Model     string `json:"model"`
	MemoryGB  int64  `json:"memory_gb"`
	Load      string `json:"load_before"`
	LoadAfter string `json:"load_after"`
}

func thisMachine() Machine {
	m := Machine{CPUs: runtime.NumCPU(), Load: loadAverage()}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.Model = strings.TrimSpace(field(string(b), "model name\t:"))
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		m.MemoryGB = kilobytes(string(b), "MemTotal:") >> 30
	}
	return m
}

// loadAverage is that of the last minute.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(b), " ")
	return load
}

// field is the rest of the line that begins with name.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return rest
		}
	}
	return ""
}

// kilobytes reads a line like "VmHWM:  1234 kB", in bytes.
func kilobytes(text, name string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(field(text, name)), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

// usage is what a process has used so far.
type usage struct {
	cpu time.Duration
	// rss is its memory now, peak the most since resetPeak.
	rss, peak int64
	// writes are its writing requests to the API server, those of leader election apart.
	writes int
}

// tick is a unit of /proc/<pid>/stat (USER_HZ, 100 on every architecture that Go knows).
const tick = 10 * time.Millisecond

var errStat = errors.New("cannot be read")

// cpuOf reads utime and stime: fields 14 and 15, counted after the name in brackets, which may hold anything.
func cpuOf(stat string) (time.Duration, error) {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) < 13 {
		return 0, fmt.Errorf("stat %w", errStat)
	}
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}

// writesOf sums client-go's counter over the methods that write.
func writesOf(metrics io.Reader) (int, error) {
	n := 0
	s := bufio.NewScanner(metrics)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		labels, ok := strings.CutPrefix(s.Text(), "rest_client_requests_total{")
		if !ok || strings.Contains(labels, `method="GET"`) {
			continue
		}
		v, err := strconv.ParseFloat(labels[strings.LastIndexByte(labels, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %q: %w", s.Text(), err)
		}
		n += int(v)
	}
	return n, s.Err()
}

// meter reads the operator's usage.
type meter struct {
	pid     int
	metrics string
}

func (m meter) read(ctx context.Context) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.pid))
	if err != nil {
		return usage{}, err
	}
	var u usage
	if u.cpu, err = cpuOf(string(stat)); err != nil {
		return usage{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.pid))
	if err != nil {
		return usage{}, err
	}
	u.rss, u.peak = kilobytes(string(status), "VmRSS:"), kilobytes(string(status), "VmHWM:")
	u.writes, err = m.writes(ctx)
	return u, err
}

func (m meter) writes(ctx context.Context) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.metrics+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return writesOf(resp.Body)
}

// resetPeak has the kernel forget the peak (proc(5), clear_refs).
func (m meter) resetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", m.pid), []byte("5"), 0)
}

// settle waits until the process does next to nothing, and returns its usage.
func (m meter) settle(ctx context.Context) (usage, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var last usage
	quiet := 0
	err := every(ctx, 200*time.Millisecond, func() (bool, error) {
		u, err := m.read(ctx)
		switch {
		case isRefused(err):
			return false, nil // it does not serve its metrics yet
		case err != nil:
			return false, err
		case u.cpu-last.cpu <= tick && u.writes == last.writes:
			quiet++
		default:
			quiet = 0
		}
		last = u
		return quiet >= 3, nil
	})
	return last, err
}

func isRefused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// every calls f now and then until it is true.
func every(ctx context.Context, d time.Duration, f func() (bool, error)) error {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		if ok, err := f(); ok || err != nil {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// freePort is a port that nobody listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
