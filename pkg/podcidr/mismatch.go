package podcidr

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// maxShown is how many names or addresses a sentence lists.
const maxShown = 3

// mismatch is a Node whose ranges do not hold its pods.
type mismatch struct {
	node *Node
	// stray are addresses of pods outside of its ranges.
	stray []netip.Addr
	// ranges are those to set for it, nil where the addresses do not tell.
	ranges []netip.Prefix
	// why there are none.
	why string
}

// mismatches compares every Node that is not ours with where its pods are.
func (e *Evidence) mismatches() []mismatch {
	var out []mismatch
	blocks := e.blocks()
	for i := range e.Nodes {
		n := &e.Nodes[i]
		// A Node without a range is no mismatch where it still waits for one.
		if n.Ours || len(e.effective(n)) == 0 && !operatorGives(e) {
			continue
		}
		if stray := e.strays(n); len(stray) > 0 {
			m := mismatch{node: n, stray: stray}
			m.ranges, m.why = e.propose(n, blocks)
			out = append(out, m)
		}
	}
	return out
}

// strays are the IPv4 addresses of the Node's pods outside of its ranges.
func (e *Evidence) strays(n *Node) []netip.Addr {
	var out []netip.Addr
	ranges := e.effective(n)
	for _, a := range n.Pods {
		if a.Is4() && !inAny(ranges, a) && !slices.Contains(n.Addresses, a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// bits is how long the prefix of a Node's range is: its own, else that of most others, else what the profile says.
func (e *Evidence) bits(n *Node) int {
	for _, p := range n.Ranges {
		if p.Addr().Is4() {
			return p.Bits()
		}
	}
	if b := e.commonBits(); b > 0 {
		return b
	}
	return e.MaskSize
}

// commonBits is the length of most ranges, 0 when there are none.
func (e *Evidence) commonBits() int {
	var count [33]int
	for i := range e.Nodes {
		for _, p := range e.effective(&e.Nodes[i]) {
			if p.Addr().Is4() {
				count[p.Bits()]++
			}
		}
	}
	best := 0
	for b, c := range count {
		if c > 0 && c >= count[best] {
			best = b
		}
	}
	return best
}

// maxOverride is how many ranges an override takes.
const maxOverride = 2

// blocks says whose pods are in which block.
func (e *Evidence) blocks() map[netip.Prefix][]string {
	out := map[netip.Prefix][]string{}
	for i := range e.Nodes {
		n := &e.Nodes[i]
		for _, p := range e.blocksOf(n) {
			out[p] = append(out[p], n.Name)
		}
	}
	return out
}

// blocksOf are the blocks that hold the Node's pods, in order.
func (e *Evidence) blocksOf(n *Node) []netip.Prefix {
	var out []netip.Prefix
	bits := e.bits(n)
	for _, a := range n.Pods {
		if a.Is4() && !slices.Contains(n.Addresses, a) {
			out = append(out, netip.PrefixFrom(a, bits).Masked())
		}
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	return slices.Compact(out)
}

// propose reads a Node's ranges off its pods.
func (e *Evidence) propose(n *Node, blocks map[netip.Prefix][]string) (ranges []netip.Prefix, why string) {
	own := e.blocksOf(n)
	if len(own) > maxOverride {
		return nil, fmt.Sprintf("they are in %d blocks of /%d", len(own), e.bits(n))
	}
	for _, p := range own {
		if who := blocks[p]; len(who) > 1 {
			return nil, fmt.Sprintf("%s holds pods of %s", p, list(who))
		}
	}
	return own, ""
}

// sentences are the mismatches for people, and the command at the end.
func (e *Evidence) sentences(ms []mismatch) []string {
	var out []string
	shown := ms[:min(len(ms), MaxMismatches-2)]
	for i := range shown {
		out = append(out, e.sentence(&shown[i]))
	}
	if n := len(ms) - len(shown); n > 0 {
		out = append(out, fmt.Sprintf("and %d more Nodes, which are named once these are set", n))
	}
	if c := e.command(shown); c != "" {
		out = append(out, c)
	}
	return out
}

func (e *Evidence) sentence(m *mismatch) string {
	where := "has no spec.podCIDR"
	switch o := e.override(m.node.Name); {
	case len(o) > 0:
		where = "has " + list(o) + " in spec.network.nodes of WindowsNodeProfile " + e.Profile
	case len(m.node.Ranges) > 0:
		where = "has spec.podCIDRs " + list(m.node.Ranges)
	}
	text := fmt.Sprintf("Node %s %s, and its pods have %s", m.node.Name, where, list(m.stray))
	if m.ranges == nil {
		return text + ": " + m.why + ", so that its addresses are not given by Node; set its ranges in spec.network.nodes by hand, or choose a network.mode that needs none"
	}
	return fmt.Sprintf("%s: set spec.network.nodes {name: %s, podCIDRs: [%s]}", text, m.node.Name, list(m.ranges))
}

// op is an operation of a JSON patch (RFC 6902).
type op struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// entry is what is set of an entry of spec.network.nodes.
type entry struct {
	Name     string         `json:"name"`
	PodCIDRs []netip.Prefix `json:"podCIDRs"`
}

// command is the kubectl command that sets all overrides that are known, "" when none is. A merge patch would drop the entries that are there
// already: it makes the list, and an existing one is added to.
func (e *Evidence) command(ms []mismatch) string {
	var fresh []entry
	var ops []op
	for i := range ms {
		m := &ms[i]
		if m.ranges == nil {
			continue
		}
		at := slices.IndexFunc(e.Overrides, func(o Override) bool { return o.Name == m.node.Name })
		switch {
		case len(e.Overrides) == 0:
			fresh = append(fresh, entry{m.node.Name, m.ranges})
		case at < 0:
			ops = append(ops, op{"add", "/spec/network/nodes/-", entry{m.node.Name, m.ranges}})
		default:
			// Between the reading and the command somebody may have changed the order.
			path := "/spec/network/nodes/" + strconv.Itoa(at)
			ops = append(ops, op{"test", path + "/name", m.node.Name}, op{"add", path + "/podCIDRs", m.ranges})
		}
	}
	switch {
	case len(fresh) > 0:
		return Patch(e.Profile, "merge", map[string]any{"spec": map[string]any{"network": map[string]any{"nodes": fresh}}})
	case len(ops) > 0:
		return Patch(e.Profile, "json", ops)
	}
	return ""
}

// Patch is the kubectl command that patches a WindowsNodeProfile. Nothing in what it is used for holds a single quote.
func Patch(profile, kind string, body any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		return ""
	}
	return fmt.Sprintf("kubectl patch winprofile %s --type=%s -p '%s'", profile, kind, strings.TrimSpace(b.String()))
}

// list names the first few.
func list[T any](all []T) string {
	var out []string
	for _, x := range all[:min(len(all), maxShown)] {
		out = append(out, fmt.Sprint(x))
	}
	if n := len(all) - len(out); n > 0 {
		out = append(out, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(out, ", ")
}
