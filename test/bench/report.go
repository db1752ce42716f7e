package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Row is what one phase cost.
type Row struct {
	Scenario string  `json:"scenario"`
	Phase    string  `json:"phase"`
	Hosts    int     `json:"hosts"`
	RTT      float64 `json:"rtt_ms"`
	// Wall is until the last host is done, in seconds.
	Wall float64 `json:"wall_s"`
	// The most that one machine saw.
	Connections  int   `json:"connections"`
	Channels     int   `json:"channels"`
	Turns        int   `json:"round_trips"`
	SFTP         int   `json:"sftp_requests"`
	BytesPerHost int64 `json:"bytes_per_host"`
	// PowerShell and Bytes are sums over all machines.
	PowerShell int   `json:"powershell_starts"`
	Bytes      int64 `json:"bytes"`
	// Of the operator's process: processor seconds, memory before and at the most, writing requests to the API server.
	CPU    float64 `json:"cpu_s"`
	BaseMB float64 `json:"base_mb"`
	PeakMB float64 `json:"peak_mb"`
	Writes int     `json:"api_writes"`
	// Changed is the compressed size of what an upgrade changed.
	Changed int64 `json:"changed_bytes,omitempty"`
	// Incumbent is what the incumbent cost, and Ratio its wall time over ours.
	Incumbent *Incumbent `json:"incumbent,omitempty"`
	Ratio     float64    `json:"ratio,omitempty"`
}

// Result is a whole run.
type Result struct {
	Date      string     `json:"date"`
	Quick     bool       `json:"quick"`
	Machine   Machine    `json:"machine"`
	Agent     Program    `json:"wmcb"`
	Seconds   float64    `json:"seconds"`
	Rows      []Row      `json:"rows"`
	Reactions []Reaction `json:"reactions"`
	Targets   []Target   `json:"targets"`
}

// line is one row for reading while it runs.
func (r Row) line() string {
	return fmt.Sprintf("%-6s %4d hosts %3.0f ms %-8s %6.1f s, %d channels, %d round trips, %.2f MB a host, %.2f CPU-s, %.0f MB over %.0f",
		r.Scenario, r.Hosts, r.RTT, r.Phase, r.Wall, r.Channels, r.Turns, float64(r.BytesPerHost)/1e6, r.CPU, r.PeakMB-r.BaseMB, r.BaseMB)
}

// Write prints the JSON object on one line, and then the tables.
func (r Result) Write(w io.Writer) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", text)
	r.rows(&b)
	r.reactions(&b)
	r.targets(&b)
	r.Agent.table(&b)
	fmt.Fprintf(&b, "%d CPUs (%s), %d GB, load %s before and %s after; %.0f s in all\n",
		r.Machine.CPUs, r.Machine.Model, r.Machine.MemoryGB, r.Machine.Load, r.Machine.LoadAfter, r.Seconds)
	_, err = io.WriteString(w, b.String())
	return err
}

func (r Result) rows(b *strings.Builder) {
	b.WriteString("| hosts | RTT ms | payload | phase | wall s | incumbent s | ratio | channels | round trips | MB a host | CPU-s a host | peak MB (over base) | API writes a host |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, x := range r.Rows {
		theirs, ratio := "-", "-"
		if x.Incumbent != nil {
			theirs = fmt.Sprintf("%.0f", x.Incumbent.Wall)
			ratio = fmt.Sprintf("%.0f", x.Ratio)
		}
		fmt.Fprintf(b, "| %d | %.0f | %s | %s | %.1f | %s | %s | %d | %d | %.2f | %.3f | %.0f (%+.0f) | %.1f |\n",
			x.Hosts, x.RTT, x.Scenario, x.Phase, x.Wall, theirs, ratio, x.Channels, x.Turns, float64(x.BytesPerHost)/1e6,
			x.CPU/float64(x.Hosts), x.PeakMB, x.PeakMB-x.BaseMB, float64(x.Writes)/float64(x.Hosts))
	}
	b.WriteString("\n")
}

func (r Result) reactions(b *strings.Builder) {
	b.WriteString("| from an event to the reaction | n | p50 ms | p95 ms | max ms |\n| --- | --- | --- | --- | --- |\n")
	for _, x := range r.Reactions {
		fmt.Fprintf(b, "| %s | %d | %.0f | %.0f | %.0f |\n", x.Name, x.N, x.P50, x.P95, x.Max)
	}
	b.WriteString("\n")
}

func (r Result) targets(b *strings.Builder) {
	b.WriteString("| target | incumbent | limit | measured | |\n| --- | --- | --- | --- | --- |\n")
	for _, t := range r.Targets {
		verdict := "met"
		if !t.Met {
			verdict = "MISSED"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", t.Name, t.Incumbent, number(t.Limit, t.Unit), number(t.Measured, t.Unit), verdict)
	}
	b.WriteString("\n")
}

func number(v float64, unit string) string {
	digits := 0
	if v < 10 && v != float64(int(v)) {
		digits = 2
	}
	return strings.TrimSpace(fmt.Sprintf("%.*f %s", digits, v, unit))
}
