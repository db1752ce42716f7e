package podcidr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

func TestDecideOnlyWhereItIsNeeded(t *testing.T) {
	for mode, want := range map[v1alpha1.NetworkMode]bool{
		v1alpha1.NetworkL2Bridge: true, v1alpha1.NetworkOverlay: true, v1alpha1.NetworkFlannelVXLAN: true, v1alpha1.NetworkFlannelHostGW: true,
		v1alpha1.NetworkCalico: false, v1alpha1.NetworkNone: false, v1alpha1.NetworkCustom: false, v1alpha1.NetworkAuto: false, "": false,
	} {
		e := hardWay(windows("win-1", "10.200.0.0/24"))
		e.Mode = mode
		got := Decide(e)
		if got.Needed != want || (got.Wait != Finding{}) != want || len(got.Nodes) > 0 != want {
			t.Errorf("mode %q: %+v", mode, got)
		}
	}
}

// TestWait: what keeps machines from being begun.
func TestWait(t *testing.T) {
	all := spec("10.200.0.0/24", "10.200.1.0/24", "10.200.2.0/24")
	for name, c := range map[string]struct {
		e      Evidence
		reason string
		says   []string
	}{
		"all is well":                   {e: hardWay(all)},
		"none has one":                  {hardWay(), v1alpha1.ReasonNodeCIDRsNotAllocated, []string{"--allocate-node-cidrs=true"}},
		"one has none":                  {hardWay(spec("10.200.0.0/24", "10.200.1.0/24")), v1alpha1.ReasonNodeCIDRsIncomplete, []string{"Node worker-2"}},
		"ours has none":                 {e: hardWay(all, windows("win-1"))},
		"the operator gives":            {e: hardWay(byOperator, overrides)},
		"the operator does not know":    {hardWay(byOperator), v1alpha1.ReasonNodeCIDRsIncomplete, []string{"3 Nodes (worker-0, worker-1, worker-2)", "kubectl patch"}},
		"the operator has none left":    {hardWay(byOperator, overrides, func(e *Evidence) { e.Cluster = prefixes("10.200.0.0/23") }), v1alpha1.ReasonPodCIDRRangeExhausted, nil},
		"two writers":                   {hardWay(byOperator, all), v1alpha1.ReasonPodCIDRTwoWriters, nil},
		"pods where Services are":       {hardWay(func(e *Evidence) { e.Services = prefixes("10.200.32.0/24") }), v1alpha1.ReasonPodCIDROverlap, []string{"10.200.0.0/16 holds the service range 10.200.32.0/24", "--cluster-cidr"}},
		"pods where Nodes are":          {hardWay(func(e *Evidence) { e.Cluster = prefixes("10.0.0.0/8") }, func(e *Evidence) { e.Services = nil }), v1alpha1.ReasonPodCIDROverlap, []string{"10.240.0.20 of Node worker-0"}},
		"what covers the ranges":        {e: hardWay(all, func(e *Evidence) { e.Cluster = prefixes("10.0.0.0/8") })},
		"pods elsewhere":                {hardWay(spec("10.200.1.0/24", "10.200.0.0/24", "10.200.2.0/24")), v1alpha1.ReasonPodCIDRMismatch, []string{"the pods of 2 Nodes"}},
		"pods elsewhere under flannel":  {e: hardWay(spec("10.200.1.0/24", "10.200.0.0/24", "10.200.2.0/24"), func(e *Evidence) { e.Mode = v1alpha1.NetworkFlannelVXLAN })},
		"pods elsewhere, and it is set": {e: hardWay(spec("10.200.1.0/24", "10.200.0.0/24", "10.200.2.0/24"), overrides)},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(c.e).Wait
			if got.Reason != c.reason {
				t.Fatalf("reason %q, want %q: %s", got.Reason, c.reason, got.Message)
			}
			for _, word := range c.says {
				if !strings.Contains(got.Message, word) {
					t.Errorf("%q is not said in: %s", word, got.Message)
				}
			}
			if len(got.Message) > v1alpha1.MaxMessage {
				t.Errorf("a message of %d bytes", len(got.Message))
			}
		})
	}
}

// TestAllocatorInEitherOrder: the pods of three Linux nodes live on 10.200.{0,1,2}.0/24, by their CNI files; the allocator gives the same ranges to
// them in the order in which it meets them.
func TestAllocatorInEitherOrder(t *testing.T) {
	own := []string{"10.200.0.0/24", "10.200.1.0/24", "10.200.2.0/24"}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			e := hardWay(spec(own[order[0]], own[order[1]], own[order[2]]), windows("win-1", "10.200.3.0/24"))
			var lines, entries []string
			for i, o := range order {
				if i != o {
					lines = append(lines, fmt.Sprintf(
						"Node worker-%d has spec.podCIDRs 10.200.%d.0/24, and its pods have 10.200.%d.4, 10.200.%d.7: set spec.network.nodes {name: worker-%d, podCIDRs: [10.200.%d.0/24]}", i, o, i, i, i, i))
					entries = append(entries, fmt.Sprintf(`{"name":"worker-%d","podCIDRs":["10.200.%d.0/24"]}`, i, i))
				}
			}
			if len(entries) > 0 {
				lines = append(lines, `kubectl patch winprofile default --type=merge -p '{"spec":{"network":{"nodes":[`+strings.Join(entries, ",")+`]}}}'`)
			}
			got := Decide(e)
			if diff := cmp.Diff(lines, got.Mismatches, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("mismatches (-want +got):\n%s", diff)
			}
			if (got.Wait.Reason == v1alpha1.ReasonPodCIDRMismatch) != (len(entries) > 0) || len(entries) > 0 && !strings.Contains(got.Wait.Message, lines[len(lines)-1]) {
				t.Errorf("waits for %+v", got.Wait)
			}
			if j := got.Nodes["win-1"]; j != (Judgement{UID: "uid-win-1", Range: "10.200.3.0/24"}) {
				t.Errorf("the range of ours: %+v", j)
			}
			for i, o := range order {
				if i != o {
					override(fmt.Sprintf("worker-%d", i), own[i])(&e)
				}
			}
			if got := Decide(e); len(got.Mismatches) > 0 || got.Wait != (Finding{}) || got.Nodes["win-1"].Refused != (Finding{}) {
				t.Errorf("with the overrides: %+v", got)
			}
		})
	}
}

func TestMismatches(t *testing.T) {
	all := spec("10.200.0.0/24", "10.200.1.0/24", "10.200.2.0/24")
	pods := func(i int, a ...string) func(*Evidence) {
		return func(e *Evidence) { e.Nodes[i].Pods = addrs(a...) }
	}
	for name, c := range map[string]struct {
		e Evidence
		// want are words of each line.
		want []string
	}{
		"none":                     {hardWay(all), nil},
		"no pods":                  {hardWay(all, pods(0)), nil},
		"pods of the other family": {hardWay(all, pods(0, "10.200.0.4", "fd00::4")), nil},
		"the Node's own address":   {hardWay(all, pods(0, "10.240.0.20")), nil},
		"still waiting":            {hardWay(spec("10.200.0.0/24", "10.200.1.0/24")), nil},
		"ours":                     {hardWay(all, windows("win-1", "10.200.3.0/24"), func(e *Evidence) { e.Nodes[3].Pods = addrs("10.200.9.9") }), nil},
		"old pods and new ones": {
			hardWay(all, pods(0, "10.200.0.4", "10.200.7.4")),
			[]string{"and its pods have 10.200.7.4: set spec.network.nodes {name: worker-0, podCIDRs: [10.200.0.0/24, 10.200.7.0/24]}", `{"name":"worker-0","podCIDRs":["10.200.0.0/24","10.200.7.0/24"]}`},
		},
		"the size is the Node's own": {
			hardWay(all, spec("10.200.0.0/26"), pods(0, "10.200.0.100")), []string{"podCIDRs: [10.200.0.64/26]", "patch"},
		},
		"an override that is wrong": {
			hardWay(all, override("worker-0", "10.200.8.0/24")),
			[]string{
				"Node worker-0 has 10.200.8.0/24 in spec.network.nodes of WindowsNodeProfile default, and its pods have 10.200.0.4, 10.200.0.7: set",
				`--type=json -p '[{"op":"test","path":"/spec/network/nodes/0/name","value":"worker-0"},{"op":"add","path":"/spec/network/nodes/0/podCIDRs","value":["10.200.0.0/24"]}]'`,
			},
		},
		"beside an override": {
			hardWay(all, pods(0, "10.200.7.4"), override("worker-9", "10.200.9.0/24")),
			[]string{"worker-0", `--type=json -p '[{"op":"add","path":"/spec/network/nodes/-","value":{"name":"worker-0","podCIDRs":["10.200.7.0/24"]}}]'`},
		},
		"pods everywhere": {
			hardWay(all, pods(0, "10.200.5.1", "10.200.6.1", "10.200.7.1", "10.200.8.1")),
			[]string{"its pods have 10.200.5.1, 10.200.6.1, 10.200.7.1, and 1 more: they are in 4 blocks of /24, so that its addresses are not given by Node"},
		},
		"a block of two Nodes": {
			hardWay(all, pods(0, "10.200.9.1"), pods(1, "10.200.9.2")),
			[]string{"10.200.9.0/24 holds pods of worker-0, worker-1", "10.200.9.0/24 holds pods of worker-0, worker-1"},
		},
		"no spec, and the operator gives": {
			hardWay(byOperator, override("worker-0", "10.200.0.0/24"), override("worker-1", "10.200.1.0/24")),
			[]string{"Node worker-2 has no spec.podCIDR, and its pods have 10.200.2.4, 10.200.2.7: set", `"path":"/spec/network/nodes/-"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(c.e).Mismatches
			if len(got) != len(c.want) {
				t.Fatalf("%d lines, want %d: %q", len(got), len(c.want), got)
			}
			for i, word := range c.want {
				if !strings.Contains(got[i], word) {
					t.Errorf("%q is not said in: %s", word, got[i])
				}
			}
		})
	}
}

// The list in the status takes so many; a large cluster has more Nodes.
func TestMismatchesOfALargeCluster(t *testing.T) {
	e := hardWay()
	e.Nodes = nil
	for i := range 200 {
		e.Nodes = append(e.Nodes, Node{
			Name: fmt.Sprintf("worker-%03d", i), Ranges: prefixes(fmt.Sprintf("10.201.%d.0/24", i)), Pods: addrs(fmt.Sprintf("10.200.%d.4", i)),
		})
	}
	got := Decide(e)
	if n := len(got.Mismatches); n != MaxMismatches {
		t.Fatalf("%d lines", n)
	}
	if more := got.Mismatches[MaxMismatches-2]; !strings.Contains(more, "138 more Nodes") {
		t.Errorf("%q", more)
	}
	if command := got.Mismatches[MaxMismatches-1]; strings.Count(command, `"name"`) != MaxMismatches-2 {
		t.Errorf("%q", command)
	}
	if m := got.Wait.Message; len(m) > v1alpha1.MaxMessage || !strings.Contains(m, "the pods of 200 Nodes") || !strings.Contains(m, "status.network.mismatches of WindowsNodeProfile default") {
		t.Errorf("%d bytes: %s", len(m), m)
	}
}

func TestJudge(t *testing.T) {
	all := spec("10.200.0.0/24", "10.200.1.0/24", "10.200.2.0/24")
	for name, c := range map[string]struct {
		e    Evidence
		says string
	}{
		"nobody's":     {hardWay(all, windows("win-1", "10.200.3.0/24")), ""},
		"its own pods": {hardWay(all, windows("win-1", "10.200.3.0/24"), func(e *Evidence) { e.Nodes[3].Pods = addrs("10.200.3.9") }), ""},
		"what a Linux node's pods have": {
			hardWay(windows("win-1", "10.200.1.0/24")), "Node win-1 was given 10.200.1.0/24, which holds the address 10.200.1.4 of a running pod of Node worker-1",
		},
		"what an override says":     {hardWay(all, windows("win-1", "10.200.9.0/24"), override("worker-0", "10.200.8.0/21")), "10.200.8.0/21 of Node worker-0"},
		"spec against an override":  {hardWay(spec("10.200.9.0/24"), windows("win-1", "10.200.9.0/24"), override("worker-0", "10.200.0.0/24")), ""},
		"another Node's spec":       {hardWay(all, windows("win-1", "10.200.9.0/24"), windows("win-2", "10.200.9.0/25")), "10.200.9.0/25 of Node win-2"},
		"Services":                  {hardWay(all, windows("win-1", "10.32.0.0/25")), "the service range 10.32.0.0/24"},
		"where Nodes are":           {hardWay(all, windows("win-1", "10.240.0.0/27")), "the address 10.240.0.20 of Node worker-0 itself"},
		"where the Node itself is":  {hardWay(all, windows("win-1", "10.240.0.32/27")), "the address 10.240.0.40 of Node win-1 itself"},
		"the second of two ranges":  {hardWay(all, windows("win-1", "fd00::/64", "10.200.1.0/25")), "10.200.1.0/25, which holds 10.200.1.0/24 of Node worker-1"},
		"the way out is named once": {hardWay(windows("win-1", "10.200.1.0/24")), "kubectl delete node win-1 and restart the service kubelet on the machine"},
	} {
		t.Run(name, func(t *testing.T) {
			j := Decide(c.e).Nodes["win-1"]
			if c.says == "" && j.Refused != (Finding{}) || c.says != "" && j.Refused.Reason != v1alpha1.ReasonPodCIDROverlap || !strings.Contains(j.Refused.Message, c.says) {
				t.Errorf("%+v, want %q", j, c.says)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	all := spec("10.200.0.0/24", "10.200.1.0/24", "10.200.2.0/24")
	for name, c := range map[string]struct {
		e            Evidence
		reason, says string
	}{
		"not given":        {hardWay(windows("win-1")), v1alpha1.ReasonNodeCIDRsNotAllocated, "none of 4"},
		"not given yet":    {hardWay(all, windows("win-1")), v1alpha1.ReasonNodeCIDRsIncomplete, "3 of 4 have one"},
		"used up":          {hardWay(all, windows("win-1"), event(EventNotAvailable, "win-1", "x")), v1alpha1.ReasonPodCIDRRangeExhausted, "(3 of the 256 ranges"},
		"the operator":     {hardWay(byOperator, overrides, windows("win-1")), v1alpha1.ReasonNodeCIDRsIncomplete, "this operator has not given"},
		"the operator not": {hardWay(byOperator, all, windows("win-1")), v1alpha1.ReasonPodCIDRTwoWriters, "Node worker-0"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Decide(c.e).Missing; got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
				t.Errorf("%s: %s; want %s: %s", got.Reason, got.Message, c.reason, c.says)
			}
		})
	}
}

func TestStoreTellsWhatChanged(t *testing.T) {
	one := Result{Needed: true, Hosts: []string{"a"}, Nodes: map[string]Judgement{"win-1": {UID: "u", Range: "10.200.3.0/24"}}, Missing: Finding{"R", "m"}}
	with := func(edit func(*Result)) Result {
		r := one
		r.Nodes = map[string]Judgement{"win-1": one.Nodes["win-1"]}
		edit(&r)
		return r
	}
	for name, c := range map[string]struct {
		now  Result
		want []Change
	}{
		"nothing":       {with(func(*Result) {}), nil},
		"missing only":  {with(func(r *Result) { r.Missing.Message = "other" }), nil},
		"a host left":   {with(func(r *Result) { r.Hosts = nil }), nil},
		"a host came":   {with(func(r *Result) { r.Hosts = []string{"a", "b"} }), []Change{{Profile: "p", Hosts: []string{"b"}}}},
		"a reason":      {with(func(r *Result) { r.Wait = Finding{"R", "m"} }), []Change{{Profile: "p", All: true}}},
		"not needed":    {Result{}, []Change{{Profile: "p", All: true, Nodes: []string{"win-1"}}}},
		"mismatches":    {with(func(r *Result) { r.Mismatches = []string{"x"} }), []Change{{Profile: "p", Mismatches: true}}},
		"a judgement":   {with(func(r *Result) { r.Nodes["win-1"] = Judgement{UID: "u", Range: "10.200.4.0/24"} }), []Change{{Profile: "p", Nodes: []string{"win-1"}}}},
		"a Node is new": {with(func(r *Result) { r.Nodes["win-2"] = Judgement{UID: "v"} }), []Change{{Profile: "p", Nodes: []string{"win-2"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var s Store
			s.Set("p", one)
			var got []Change
			s.Subscribe(func(c Change) { got = append(got, c) })
			s.Set("p", c.now)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if r, ok := s.Get("p"); !ok || cmp.Diff(c.now, r) != "" {
				t.Errorf("%+v, %t", r, ok)
			}
		})
	}
	var first Store
	told := 0
	first.Subscribe(func(c Change) {
		if c.All {
			told++
		}
	})
	first.Set("p", Result{})
	first.Set("p", Result{})
	first.Delete("p")
	if _, ok := first.Get("p"); ok || told != 1 {
		t.Errorf("there: %t, told %d times", ok, told)
	}
	var none *Store
	none.Subscribe(nil)
	if _, ok := none.Get("p"); ok {
		t.Error("a nil store has something")
	}
}
