package bench

// Incumbent is what the operator that this one is measured against cost on the same kind of bed, with PowerShell starts of 400 ms and one host
// after the other: measured once on 2 shared cores, seconds within 30 %; 10 and 100 hosts are extrapolated. Its payload had 457 MB in 19
// files, and it sends all of it: 179 MB.
type Incumbent struct {
	Wall       float64 `json:"wall_s"`
	Channels   int     `json:"channels"`
	Turns      int     `json:"round_trips"`
	PowerShell int     `json:"powershell_starts"`
	Bytes      int64   `json:"bytes_per_host"`
}

// incumbents by hosts, RTT and phase. A round trip is an SFTP request, of which there is one under way at a time, or half of a channel's two.
func incumbent(hosts int, rtt float64, p string) *Incumbent {
	first := Incumbent{Channels: 112, Turns: 5583 + 2*112, PowerShell: 55, Bytes: 179e6}
	again := Incumbent{Channels: 101, Turns: 10 + 2*101, PowerShell: 64, Bytes: 30e3}
	upgrade := Incumbent{Channels: 151, Turns: 5583 + 2*151, PowerShell: 86, Bytes: 179e6}
	type key struct {
		hosts int
		rtt   float64
		phase phase
	}
	known := map[key]struct {
		wall float64
		cost Incumbent
	}{
		{1, 0, phaseFirst}:   {24, first},
		{1, 5, phaseFirst}:   {90, first},
		{1, 50, phaseFirst}:  {357, first},
		{10, 5, phaseFirst}:  {15 * 60, first},
		{100, 5, phaseFirst}: {2.5 * 3600, first},
		{1, 5, phaseAgain}:   {44, again},
		{1, 5, phaseChanged}: {126, upgrade},
	}
	k, ok := known[key{hosts, rtt, phase(p)}]
	if !ok {
		return nil
	}
	k.cost.Wall = k.wall
	return &k.cost
}

// compare puts the incumbent's figures beside.
func (r *Row) compare() {
	if r.Incumbent = incumbent(r.Hosts, r.RTT, r.Phase); r.Incumbent != nil && r.Wall > 0 {
		r.Ratio = r.Incumbent.Wall / r.Wall
	}
}

// Target is a limit that was set before anything was measured.
type Target struct {
	Name      string  `json:"name"`
	Incumbent string  `json:"incumbent"`
	Limit     float64 `json:"limit"`
	Measured  float64 `json:"measured"`
	Unit      string  `json:"unit"`
	Met       bool    `json:"met"`
}

// limit says how a row is held against a target.
type limit struct {
	name, scenario string
	hosts          int
	rtt            float64
	phase          phase
	incumbent      string
	unit           string
	limit          func(Row) float64
	measured       func(Row) float64
}

// anyHosts matches rows of any number of hosts.
const anyHosts = 0

// thousand scales a row to 1,000 hosts, for a run whose time did not suffice to make so many.
func thousand(r Row) float64 { return 1000 / float64(r.Hosts) }

// of reports whether the limit speaks of the row.
func (l limit) of(r Row) bool {
	return r.Scenario == l.scenario && (l.hosts == anyHosts || r.Hosts == l.hosts) && r.RTT == l.rtt && r.Phase == string(l.phase)
}

func upTo(v float64) func(Row) float64 { return func(Row) float64 { return v } }

func limits() []limit {
	wall := func(r Row) float64 { return r.Wall }
	perHost := func(r Row) float64 { return r.CPU / float64(r.Hosts) }
	kilo := func(r Row) float64 { return float64(r.BytesPerHost) / 1e3 }
	channels := func(r Row) float64 { return float64(r.Channels) }
	over := func(r Row) float64 { return r.PeakMB - r.BaseMB }
	return []limit{
		{"first configuration", "real", 1, 5, phaseFirst, "90 s", "s", upTo(5), wall},
		{"PowerShell starts, first", "real", 1, 5, phaseFirst, "55", "", upTo(0), func(r Row) float64 { return float64(r.PowerShell) }},
		{"SSH channels, first", "real", 1, 5, phaseFirst, "112", "", upTo(5), channels},
		{"SSH channels, first, where no network is made", "given", 1, 5, phaseFirst, "112", "", upTo(5), channels},
		{"round trips, first", "real", 1, 5, phaseFirst, "5,807", "", upTo(100), func(r Row) float64 { return float64(r.Turns) }},
		{"operator CPU, first", "real", 1, 5, phaseFirst, "1.0-2.2 s", "s", upTo(0.5), perHost},
		{"operator CPU a host, 10 at once", "real", 10, 5, phaseFirst, "1.0-2.2 s", "s", upTo(0.5), perHost},
		{"repeated configuration", "real", 1, 5, phaseAgain, "44 s", "s", upTo(1.5), wall},
		{"bytes, repeated", "real", 1, 5, phaseAgain, "30 kB", "kB", upTo(20), kilo},
		{"PowerShell starts, repeated", "real", 1, 5, phaseAgain, "64", "", upTo(0), func(r Row) float64 { return float64(r.PowerShell) }},
		{"bytes, one program changed", "real", 1, 5, phaseChanged, "179,000 kB", "kB", func(r Row) float64 { return (1.05*float64(r.Changed) + 50e3) / 1e3 }, kilo},
		{"memory over base, 100 hosts at once", "crowd", 100, 5, phaseFirst, "one at a time", "MB", upTo(300), over},
		{"CPU of a sweep over 1,000 idle hosts", "idle", anyHosts, 0, phaseRestart, "-", "s", upTo(10), func(r Row) float64 { return r.CPU * thousand(r) }},
		{"memory with 1,000 idle hosts", "idle", anyHosts, 0, phaseRestart, "-", "MB", upTo(200), func(r Row) float64 { return r.BaseMB + over(r)*thousand(r) }},
	}
}

// reactionLimit is the longest that a reaction may take, in ms.
const reactionLimit = 1000

// targets holds rows and reactions against the limits; those that were not measured are left out.
func targets(rows []Row, reactions []Reaction) []Target {
	var out []Target
	for _, l := range limits() {
		for _, r := range rows {
			if !l.of(r) {
				continue
			}
			t := Target{Name: l.name, Incumbent: l.incumbent, Limit: l.limit(r), Measured: l.measured(r), Unit: l.unit}
			t.Met = t.Measured <= t.Limit
			out = append(out, t)
		}
	}
	if len(reactions) == 0 {
		return out
	}
	t := Target{Name: "slowest reaction to an event", Incumbent: "15 s poll", Limit: reactionLimit, Unit: "ms"}
	for _, r := range reactions {
		t.Measured = max(t.Measured, r.Max)
	}
	t.Met = t.Measured <= t.Limit
	return append(out, t)
}
