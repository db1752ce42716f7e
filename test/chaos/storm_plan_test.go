package chaos

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// trial is a kind of event in the storm.
type trial string

// What happens to one host. Whatever lasts is over when the storm is.
const (
	crashAtEntry   trial = "agent killed at a journal entry"
	tornEntry      trial = "agent killed in the middle of a journal entry"
	crashAtWrite   trial = "agent killed after a write"
	tornWrite      trial = "agent killed in the middle of a write"
	connectionCut  trial = "connection cut at a random byte"
	linkLost       trial = "link lost"
	rebooted       trial = "machine rebooted"
	pulled         trial = "machine pulled from the wall"
	slowLine       trial = "slow line"
	dripping       trial = "sshd drips bytes"
	hanging        trial = "sshd hangs without closing"
	diskFull       trial = "disk full, freed later"
	accessDenied   trial = "access denied, allowed later"
	loginRefused   trial = "login refused, allowed later"
	clockMoved     trial = "clock moved, put right later"
	keySwapped     trial = "host key swapped, put back"
	keyAccepted    trial = "host key swapped, accepted by the admin"
	hostMadeAnew   trial = "host deleted and made anew"
	machineRebuilt trial = "machine installed anew, host made anew"
)

// What happens to one host and stays: it ends with a condition that names the cause.
const (
	keyForeign     trial = "host key swapped for good"
	windowsTooOld  trial = "Windows too old"
	clockWrong     trial = "clock an hour ahead"
	diskSmall      trial = "disk too small"
	serviceForeign trial = "somebody else's service kubelet"
)

// What happens to everybody.
const (
	operatorKilled    trial = "operator killed, another takes over"
	operatorStopped   trial = "operator told to stop, another takes over"
	operatorSuspended trial = "operator suspended, another takes over, the first wakes up"
	apiRestarted      trial = "API server restarted"
	profileChanged    trial = "profile changed: a new plan for everybody"
	strangerAsks      trial = "stranger asks for a node's certificate"
	// joins is no trouble: the WindowsHost is made.
	joins trial = "host made"
)

// hostTrials are dealt in equal shares.
func hostTrials() []trial {
	return []trial{
		crashAtEntry, tornEntry, crashAtWrite, tornWrite, connectionCut, linkLost, rebooted, pulled, slowLine, dripping, hanging, diskFull,
		accessDenied, loginRefused, clockMoved, keySwapped, keyAccepted, hostMadeAnew, machineRebuilt,
	}
}

// lastingTrials take one host each.
func lastingTrials() []trial {
	return []trial{keyForeign, windowsTooOld, clockWrong, diskSmall, serviceForeign}
}

func ruleTrials() []trial {
	return []trial{operatorKilled, operatorStopped, operatorSuspended, apiRestarted, profileChanged, strangerAsks}
}

// nobody is the host of an event that happens to everybody.
const nobody = -1

// storming is an event of the storm.
type storming struct {
	// At is when it begins, Last how long it holds where it lasts.
	At, Last time.Duration
	Trial    trial
	// Host is its number, or nobody.
	Host int
	// N says more: the how manieth write, the byte, the way a file is torn.
	N uint64
}

// How often something happens.
const (
	// perHost is the mean time between two events of a host.
	perHost = 12 * time.Second
	// perRule is the time between two events that happen to everybody: a new leader needs up to 15 s.
	perRule = 9 * time.Second
	// lasting bounds how long a trouble holds, and is longer than an operator waits for a running agent's word.
	lastingMin, lastingMax = 500 * time.Millisecond, 10 * time.Second
	// joining is the share of the storm in which the hosts are made.
	joining = 0.4
)

// planStorm deals the events of a storm, in the order of their times: the same seed gives the same storm. Every kind occurs, however short it is.
func planStorm(seed uint64, hosts int, length time.Duration) []storming {
	r := rand.New(rand.NewPCG(seed, 0))
	within := func(from, to time.Duration) time.Duration {
		return from + time.Duration(r.Int64N(int64(max(1, to-from))))
	}
	var out []storming
	// The first hosts of a random order have what stays.
	order := r.Perm(hosts)
	var others []int
	joined := make([]time.Duration, hosts)
	for i, h := range order {
		joined[h] = within(0, time.Duration(float64(length)*joining))
		out = append(out, storming{At: joined[h], Trial: joins, Host: h})
		stays := lastingTrials()
		switch {
		case i >= len(stays):
			others = append(others, h)
		case stays[i] == keyForeign:
			out = append(out, storming{At: within(joined[h], length), Trial: stays[i], Host: h})
		default:
			// The machine is like that before its host is made.
			out = append(out, storming{Trial: stays[i], Host: h})
		}
	}
	slices.Sort(others)
	kinds := hostTrials()
	for i := range max(len(kinds), int(time.Duration(len(others))*length/perHost)) {
		if i%len(kinds) == 0 {
			r.Shuffle(len(kinds), func(a, b int) { kinds[a], kinds[b] = kinds[b], kinds[a] })
		}
		h := others[r.IntN(len(others))]
		out = append(out, storming{At: within(joined[h], length), Last: within(lastingMin, lastingMax), Trial: kinds[i%len(kinds)], Host: h, N: r.Uint64()})
	}
	rules := ruleTrials()
	n := max(len(rules), int(length/perRule))
	for i := range n {
		if i%len(rules) == 0 {
			r.Shuffle(len(rules), func(a, b int) { rules[a], rules[b] = rules[b], rules[a] })
		}
		at := length * time.Duration(i) / time.Duration(n)
		out = append(out, storming{At: at, Last: within(lastingMin, lastingMax), Trial: rules[i%len(rules)], Host: nobody, N: r.Uint64()})
	}
	slices.SortStableFunc(out, func(a, b storming) int { return cmp.Compare(a.At, b.At) })
	return out
}

// of are the events of one host, or of nobody.
func of(all []storming, host int) (out []storming) {
	for _, e := range all {
		if e.Host == host {
			out = append(out, e)
		}
	}
	return out
}

func TestPlanStorm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		seed   uint64
		hosts  int
		length time.Duration
	}{
		{"two minutes", 1, 50, 2 * time.Minute},
		{"another seed", 2, 50, 2 * time.Minute},
		{"few hosts", 3, 8, 2 * time.Minute},
		{"short", 4, 50, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := planStorm(c.seed, c.hosts, c.length)
			if d := gocmp.Diff(got, planStorm(c.seed, c.hosts, c.length)); d != "" {
				t.Errorf("the same seed gave another storm:\n%s", d)
			}
			if gocmp.Equal(got, planStorm(c.seed+1, c.hosts, c.length)) {
				t.Error("another seed gave the same storm")
			}
			if !slices.IsSortedFunc(got, func(a, b storming) int { return cmp.Compare(a.At, b.At) }) {
				t.Error("it is not in the order of time")
			}
			checkPlanned(t, got, c.hosts, c.length)
		})
	}
}

// checkPlanned: every kind occurs, every host is made once and before anything but its own nature befalls it, and who has what stays has
// nothing else.
func checkPlanned(t *testing.T, all []storming, hosts int, length time.Duration) {
	t.Helper()
	seen := map[trial]int{}
	for _, e := range all {
		seen[e.Trial]++
		if e.At < 0 || e.At >= length || e.Last < 0 || e.Last > lastingMax {
			t.Errorf("%+v is out of bounds", e)
		}
		if own := slices.Contains(ruleTrials(), e.Trial); own != (e.Host == nobody) || e.Host >= hosts {
			t.Errorf("%+v befalls the wrong one", e)
		}
	}
	for _, k := range slices.Concat(hostTrials(), lastingTrials(), ruleTrials(), []trial{joins}) {
		if seen[k] == 0 {
			t.Errorf("%q does not occur", k)
		}
	}
	for h := range hosts {
		mine := of(all, h)
		first := slices.IndexFunc(mine, func(e storming) bool { return e.Trial == joins })
		stays := slices.ContainsFunc(mine, func(e storming) bool { return slices.Contains(lastingTrials(), e.Trial) })
		if first < 0 || stays && len(mine) != 2 {
			t.Errorf("host %d has %+v", h, mine)
		}
		for i, e := range mine[:max(0, first)] {
			if e.At > 0 && e.At != mine[first].At || !stays && i < first && e.At < mine[first].At {
				t.Errorf("host %d has %+v before it is made", h, e)
			}
		}
	}
	if n := len(of(all, 0)) + len(of(all, hosts-1)); n == 0 {
		t.Error("nothing happens to the first and the last host")
	}
}
