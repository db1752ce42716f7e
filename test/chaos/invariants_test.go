package chaos

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent"
)

// The invariants of the storm. Each is a pure function from what was seen to what is wrong with it, nil when nothing is.

// seenHost is a WindowsHost and, read while it did not change, its machine.
type seenHost struct {
	Name  string
	Ready bool
	// Desired and Applied are the digests of its status, Generation that of the plan.
	Desired, Applied string
	Generation       int64
	// HasMachine is false while the machine is being replaced; the rest is what the machine has accepted, "" for nothing.
	HasMachine        bool
	Machine           string
	MachineGeneration int64
}

// readyWithout: no host is Ready whose applied plan is not the desired one, by its status and by what its machine has.
func readyWithout(h seenHost) []string {
	switch {
	case !h.Ready:
		return nil
	case h.Desired == "" || h.Applied != h.Desired:
		return []string{fmt.Sprintf("%s is Ready with plan %.8q applied and %.8q desired", h.Name, h.Applied, h.Desired)}
	case h.HasMachine && (h.Machine != h.Desired || h.MachineGeneration != h.Generation):
		return []string{fmt.Sprintf("%s is Ready with plan %.8s of generation %d, its machine has %.8q of generation %d",
			h.Name, h.Desired, h.Generation, h.Machine, h.MachineGeneration)}
	}
	return nil
}

// seenRequest is a CertificateSigningRequest that was approved.
type seenRequest struct {
	Name, Node string
	// Ticket is the UID of the account that asked, "" when a node asked itself.
	Ticket   string
	Approved time.Time
}

// life is the time in which a WindowsHost with that node's name existed; Gone is zero while it does.
type life struct {
	Node       string
	Born, Gone time.Time
}

// clockGrain is what the API's times are rounded to.
const clockGrain = time.Second

// approvedWithout: no request was approved for a node that no host expected at that moment, and none with a ticket that was used before.
func approvedWithout(requests []seenRequest, lives []life) (wrong []string) {
	used := map[string]string{}
	for _, r := range requests {
		if !slices.ContainsFunc(lives, func(l life) bool {
			return l.Node == r.Node && !r.Approved.Before(l.Born.Add(-clockGrain)) && (l.Gone.IsZero() || !r.Approved.After(l.Gone))
		}) {
			wrong = append(wrong, fmt.Sprintf("request %s for node %q was approved at %s, when no host expected it", r.Name, r.Node, r.Approved.UTC().Format(time.TimeOnly)))
		}
		if before, ok := used[r.Ticket]; ok && r.Ticket != "" {
			wrong = append(wrong, fmt.Sprintf("requests %s and %s were both approved with one ticket", before, r.Name))
		}
		used[r.Ticket] = r.Name
	}
	return wrong
}

// seenEntry is what a journal entry says about plans. Removed stands between what was before the agent was taken off the machine and what came
// after it: the generations begin anew there.
type seenEntry struct {
	Removed    bool
	Code       string
	Generation int64
}

// wentBack: nothing of a plan is done after a newer one was accepted.
func wentBack(entries []seenEntry) (wrong []string) {
	var accepted int64
	for _, e := range entries {
		switch {
		case e.Removed:
			accepted = 0
		case e.Generation < accepted:
			wrong = append(wrong, fmt.Sprintf("%s of generation %d after generation %d was accepted", e.Code, e.Generation, accepted))
		case e.Code == agent.CodeAccepted:
			accepted = e.Generation
		}
	}
	return wrong
}

// twoWriters: connections are numbered in the order in which they were made. Once a newer one has changed the plan or the blobs of a machine, an
// older one, be it another operator's or one that was given up, changes nothing any more.
func twoWriters(all []wrote) (wrong []string) {
	newest := wrote{}
	for _, w := range all {
		if w.Connection < newest.Connection {
			wrong = append(wrong, fmt.Sprintf("connection %d changed %s at %s, after connection %d had changed %s at %s",
				w.Connection, w.Path, w.At.Format(stampFormat), newest.Connection, newest.Path, newest.At.Format(stampFormat)))
			continue
		}
		newest = w
	}
	return wrong
}

const stampFormat = "15:04:05.000"

// wrote is the first of several changes that a connection made without another one in between.
type wrote struct {
	Connection int
	Path       string
	At         time.Time
}

// notHeld: by machine, the machine sees as many connections as the living operator holds.
func notHeld(machines, operator map[netip.Addr]int) (wrong []string) {
	for ip, n := range machines {
		if operator[ip] != n {
			wrong = append(wrong, fmt.Sprintf("the machine at %s has %d connections, the operator holds %d", ip, n, operator[ip]))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// leaked: which goroutines, by where they were made, are more than before.
func leaked(before, now map[string]int) (wrong []string) {
	for made, n := range now {
		if n > before[made] {
			wrong = append(wrong, fmt.Sprintf("%d goroutines more %s", n-before[made], made))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// goroutines counts the goroutines of a stack dump (runtime.Stack of all) by what made them. Those of the testing package are other tests'.
func goroutines(dump string) map[string]int {
	out := map[string]int{}
	for g := range strings.SplitSeq(dump, "\n\n") {
		_, made, ok := strings.Cut(g, "\ncreated by ")
		if !ok || strings.HasPrefix(made, "testing.") {
			continue
		}
		made, _, _ = strings.Cut(made, " in goroutine")
		made, _, _ = strings.Cut(made, "\n")
		out["created by "+made]++
	}
	return out
}

// peers reads /proc/net/tcp (proc_net_tcp(5)): how many established connections to that port are among the sockets of those inodes, by the
// other end's address.
func peers(table string, port uint16, inodes map[string]bool) map[netip.Addr]int {
	const remote, state, inode, established = 2, 3, 9, "01"
	out := map[netip.Addr]int{}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) <= inode || f[state] != established || !inodes[f[inode]] {
			continue
		}
		host, p, ok := strings.Cut(f[remote], ":")
		number, err := strconv.ParseUint(p, 16, 16)
		raw, err2 := strconv.ParseUint(host, 16, 32)
		if !ok || err != nil || err2 != nil || uint16(number) != port {
			continue
		}
		// The kernel prints the address as a number of its own byte order.
		var ip [4]byte
		binary.NativeEndian.PutUint32(ip[:], uint32(raw))
		out[netip.AddrFrom4(ip)]++
	}
	return out
}

func TestReadyWithout(t *testing.T) {
	t.Parallel()
	good := seenHost{Name: "a", Ready: true, Desired: "d2", Applied: "d2", Generation: 2, HasMachine: true, Machine: "d2", MachineGeneration: 2}
	for _, c := range []struct {
		name  string
		edit  func(*seenHost)
		wrong int
	}{
		{"as it should be", func(*seenHost) {}, 0},
		{"the older plan is applied", func(h *seenHost) { h.Applied = "d1" }, 1},
		{"the same, and not Ready", func(h *seenHost) { h.Applied, h.Ready = "d1", false }, 0},
		{"no plan at all", func(h *seenHost) { h.Applied, h.Desired = "", "" }, 1},
		{"the machine has an older plan", func(h *seenHost) { h.Machine, h.MachineGeneration = "d1", 1 }, 1},
		{"the machine has the same plan of another generation", func(h *seenHost) { h.MachineGeneration = 1 }, 1},
		{"the machine has nothing", func(h *seenHost) { h.Machine, h.MachineGeneration = "", 0 }, 1},
		{"the machine is being replaced", func(h *seenHost) { h.HasMachine, h.Machine = false, "" }, 0},
	} {
		h := good
		c.edit(&h)
		if got := readyWithout(h); len(got) != c.wrong {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestApprovedWithout(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	lives := []life{{"a", at, at.Add(time.Minute)}, {"a", at.Add(2 * time.Minute), time.Time{}}, {"b", at, time.Time{}}}
	for _, c := range []struct {
		name  string
		in    []seenRequest
		wrong int
	}{
		{"expected", []seenRequest{{"r", "a", "t1", at.Add(time.Second)}, {"s", "a", "", at.Add(3 * time.Minute)}, {"u", "b", "t2", at}}, 0},
		{"the time was cut to seconds", []seenRequest{{"r", "a", "", at.Add(-time.Second)}}, 0},
		{"before there was a host", []seenRequest{{"r", "a", "", at.Add(-2 * time.Second)}}, 1},
		{"between two hosts of the name", []seenRequest{{"r", "a", "", at.Add(90 * time.Second)}}, 1},
		{"nobody's", []seenRequest{{"r", "c", "", at}}, 1},
		{"one ticket, two certificates", []seenRequest{{"r", "b", "t", at}, {"s", "b", "t", at}}, 1},
		{"a node renews", []seenRequest{{"r", "b", "", at}, {"s", "b", "", at}}, 0},
	} {
		if got := approvedWithout(c.in, lives); len(got) != c.wrong {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestWentBack(t *testing.T) {
	t.Parallel()
	took := func(g int64) seenEntry { return seenEntry{Code: agent.CodeAccepted, Generation: g} }
	did := func(g int64) seenEntry { return seenEntry{Code: agent.CodeStepStarted, Generation: g} }
	for _, c := range []struct {
		name  string
		in    []seenEntry
		wrong int
	}{
		{"one after the other", []seenEntry{took(1), did(1), took(2), did(2)}, 0},
		{"the same again, with another ticket", []seenEntry{took(1), did(1), took(1), did(1)}, 0},
		{"an older one accepted", []seenEntry{took(2), did(2), took(1)}, 1},
		{"an older one worked on", []seenEntry{took(2), did(1), did(2)}, 1},
		{"removed, and anew", []seenEntry{took(7), did(7), {Removed: true}, took(1), did(1)}, 0},
		{"removed, anew, and back", []seenEntry{took(7), {Removed: true}, took(2), took(1)}, 1},
	} {
		if got := wentBack(c.in); len(got) != c.wrong {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestTwoWriters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		in    []int
		wrong int
	}{
		{"none", nil, 0},
		{"one after the other", []int{1, 1, 2, 5}, 0},
		{"the old one wakes up", []int{1, 2, 1}, 1},
		{"by turns", []int{1, 2, 1, 2, 1}, 2},
		{"one that was given up comes to its end", []int{1, 2, 2, 1, 3}, 1},
	} {
		var in []wrote
		for _, n := range c.in {
			in = append(in, wrote{Connection: n})
		}
		if got := twoWriters(in); len(got) != c.wrong {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestNotHeld(t *testing.T) {
	t.Parallel()
	a, b := netip.MustParseAddr("127.0.1.1"), netip.MustParseAddr("127.0.1.2")
	for _, c := range []struct {
		name              string
		machine, operator map[netip.Addr]int
		wrong             int
	}{
		{"each is held", map[netip.Addr]int{a: 1, b: 0}, map[netip.Addr]int{a: 1}, 0},
		{"one that nobody holds", map[netip.Addr]int{a: 2, b: 1}, map[netip.Addr]int{a: 1, b: 1}, 1},
		{"one that the machine has lost", map[netip.Addr]int{a: 0, b: 1}, map[netip.Addr]int{a: 1, b: 1}, 1},
	} {
		if got := notHeld(c.machine, c.operator); len(got) != c.wrong {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestLeaked(t *testing.T) {
	t.Parallel()
	const dump = "goroutine 1 [running]:\nmain.main()\n\t/x/main.go:1 +0x1\n\n" +
		"goroutine 2 [select]:\nx.loop(0x1)\n\t/x/x.go:2 +0x2\ncreated by x.Start in goroutine 1\n\t/x/x.go:3 +0x3\n\n" +
		"goroutine 3 [select]:\nx.loop(0x2)\n\t/x/x.go:2 +0x2\ncreated by x.Start in goroutine 2\n\t/x/x.go:3 +0x3\n\n" +
		"goroutine 4 [chan receive]:\ntesting.tRunner(0x2)\n\t/x/t.go:2 +0x2\ncreated by testing.(*T).Run in goroutine 1\n\t/x/t.go:3 +0x3\n"
	got := goroutines(dump)
	if d := cmp.Diff(map[string]int{"created by x.Start": 2}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	for _, c := range []struct {
		before int
		wrong  int
	}{{2, 0}, {3, 0}, {1, 1}, {0, 1}} {
		if w := leaked(map[string]int{"created by x.Start": c.before}, got); len(w) != c.wrong {
			t.Errorf("%d before: %q", c.before, w)
		}
	}
}

func TestPeers(t *testing.T) {
	t.Parallel()
	var word [4]byte
	copy(word[:], []byte{127, 0, 1, 9})
	row := func(port, state, inode string) string {
		return fmt.Sprintf("   0: 0100007F:A000 %08X:%s %s 00000000:00000000 00:00000000 00000000     0        0 %s 1 0\n",
			binary.NativeEndian.Uint32(word[:]), port, state, inode)
	}
	table := "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		row("0016", "01", "7") + row("0016", "01", "8") + row("0016", "06", "7") + row("0017", "01", "7") + row("0016", "01", "9")
	want := map[netip.Addr]int{netip.AddrFrom4(word): 2}
	if d := cmp.Diff(want, peers(table, 22, map[string]bool{"7": true, "8": true}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
