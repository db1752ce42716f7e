package podcidr

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

func TestAllocate(t *testing.T) {
	for name, c := range map[string]struct {
		cluster []netip.Prefix
		mask    int
		taken   []netip.Prefix
		want    string
		err     error
	}{
		"nothing taken":             {prefixes("10.200.0.0/16"), 24, nil, "10.200.0.0/24", nil},
		"the lowest gap":            {prefixes("10.200.0.0/16"), 24, prefixes("10.200.2.0/24", "10.200.0.0/24"), "10.200.1.0/24", nil},
		"a single address":          {prefixes("10.200.0.0/16"), 24, prefixes("10.200.0.9/32"), "10.200.1.0/24", nil},
		"a longer one in it":        {prefixes("10.200.0.0/16"), 24, prefixes("10.200.0.128/25"), "10.200.1.0/24", nil},
		"a shorter one around it":   {prefixes("10.200.0.0/16"), 24, prefixes("10.200.0.0/22", "10.200.1.0/24"), "10.200.4.0/24", nil},
		"unmasked":                  {prefixes("10.200.0.0/16"), 24, prefixes("10.200.1.5/22"), "10.200.4.0/24", nil},
		"what is outside":           {prefixes("10.200.0.0/16"), 24, prefixes("10.32.0.0/24", "10.201.0.0/16", "fd00::/64"), "10.200.0.0/24", nil},
		"the second range":          {prefixes("10.200.0.0/24", "10.210.0.0/16"), 24, prefixes("10.200.0.0/24"), "10.210.0.0/24", nil},
		"IPv6 is passed over":       {prefixes("fd00::/56", "10.200.0.0/16"), 24, nil, "10.200.0.0/24", nil},
		"another size":              {prefixes("10.200.0.0/16"), 26, prefixes("10.200.0.0/25"), "10.200.0.128/26", nil},
		"all of it":                 {prefixes("10.200.0.0/24"), 24, nil, "10.200.0.0/24", nil},
		"the last one":              {prefixes("10.200.0.0/23"), 24, prefixes("10.200.0.0/24"), "10.200.1.0/24", nil},
		"none left":                 {prefixes("10.200.0.0/23"), 24, prefixes("10.200.0.0/24", "10.200.1.1/32"), "", ErrExhausted},
		"a range around all":        {prefixes("10.200.0.0/16"), 24, prefixes("10.0.0.0/8"), "", ErrExhausted},
		"none left at the very end": {prefixes("255.255.255.0/24"), 24, prefixes("255.255.255.255/32"), "", ErrExhausted},
		"larger than the range":     {prefixes("10.200.0.0/24"), 23, nil, "", ErrMask},
		"no range":                  {nil, 24, nil, "", ErrMask},
		"IPv6 only":                 {prefixes("fd00::/56"), 64, nil, "", ErrMask},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Allocate(c.cluster, c.mask, c.taken...)
			if !errors.Is(err, c.err) || err == nil && got.String() != c.want {
				t.Errorf("%s, %v; want %s, %v", got, err, c.want, c.err)
			}
		})
	}
}

// TestAllocateNeverOverlaps fills ranges around others until there is nothing left, and finds the same as trying one block after the other.
func TestAllocateNeverOverlaps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var taken []netip.Prefix
		for range r.IntN(12) {
			a := netip.AddrFrom4([4]byte{10, 200, byte(r.IntN(8)), byte(r.IntN(256))})
			taken = append(taken, netip.PrefixFrom(a, 20+r.IntN(13)))
		}
		before := slices.Clone(taken)
		mask := 22 + r.IntN(6)
		cluster := netip.MustParsePrefix("10.200.0.0/21")
		for {
			want, any := slowly(cluster, mask, taken)
			got, err := Allocate([]netip.Prefix{cluster}, mask, taken...)
			if any != (err == nil) || any && got != want {
				t.Fatalf("/%d beside %v: %s, %v; want %s", mask, taken, got, err, want)
			}
			if !any {
				break
			}
			taken = append(taken, got)
		}
		if !slices.Equal(before, taken[:len(before)]) {
			t.Fatal("what is taken was written to")
		}
	}
}

func slowly(cluster netip.Prefix, mask int, taken []netip.Prefix) (netip.Prefix, bool) {
	for p := netip.PrefixFrom(cluster.Addr(), mask); cluster.Contains(p.Addr()); p = netip.PrefixFrom(last(p).Next(), mask) {
		if !slices.ContainsFunc(taken, p.Overlaps) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

// overrides are those that a hard-way cluster needs when the operator gives ranges.
func overrides(e *Evidence) {
	for i, r := range []string{"10.200.0.0/24", "10.200.1.0/24", "10.200.2.0/24"} {
		override(e.Nodes[i].Name, r)(e)
	}
}

func TestGrants(t *testing.T) {
	for name, c := range map[string]struct {
		e      Evidence
		want   []string
		reason string
		says   string
	}{
		"the controller manager gives": {hardWay(overrides, windows("win-1")), nil, "", ""},
		"beside overrides and pods":    {hardWay(byOperator, overrides, windows("win-1")), []string{"win-1 10.200.3.0/24"}, "", ""},
		"two at once":                  {hardWay(byOperator, overrides, windows("win-1"), windows("win-2")), []string{"win-1 10.200.3.0/24", "win-2 10.200.4.0/24"}, "", ""},
		"one has its own":              {hardWay(byOperator, overrides, windows("win-1", "10.200.3.0/24"), windows("win-2"), given), []string{"win-2 10.200.4.0/24"}, "", ""},
		"pods where no override is": {
			hardWay(byOperator, overrides, windows("win-1"), func(e *Evidence) { e.Nodes[0].Pods = append(e.Nodes[0].Pods, addrs("10.200.3.9")...) }),
			[]string{"win-1 10.200.4.0/24"},
			"", "",
		},
		"beside Services and Nodes": {
			hardWay(byOperator, overrides, windows("win-1"), func(e *Evidence) {
				e.Services, e.Nodes[0].Addresses = prefixes("10.200.3.0/24"), addrs("10.200.4.250")
			}),
			[]string{"win-1 10.200.5.0/24"},
			"", "",
		},
		"a Node's range is not known": {
			hardWay(byOperator, windows("win-1")), nil, v1alpha1.ReasonNodeCIDRsIncomplete,
			`kubectl patch winprofile default --type=merge -p '{"spec":{"network":{"nodes":[{"name":"worker-0","podCIDRs":["10.200.0.0/24"]},{"name":"worker-1","podCIDRs":["10.200.1.0/24"]},{"name":"worker-2","podCIDRs":["10.200.2.0/24"]}]}}}'`,
		},
		"a Node's range is not known, and it has no pods": {
			hardWay(byOperator, windows("win-1"), func(e *Evidence) { e.Nodes[0].Pods = nil; e.Nodes = append(e.Nodes[:1:1], e.Nodes[3]) }),
			nil, v1alpha1.ReasonNodeCIDRsIncomplete, `"worker-0","podCIDRs":["<its range>"]`,
		},
		"somebody else gave one": {
			hardWay(byOperator, spec("10.200.1.0/24"), windows("win-1")), nil, v1alpha1.ReasonPodCIDRTwoWriters, "Node worker-0 has 10.200.1.0/24, which this operator did not give",
		},
		"somebody else gave one of ours": {
			hardWay(byOperator, overrides, windows("win-1", "10.200.9.0/24"), windows("win-2")), nil, v1alpha1.ReasonPodCIDRTwoWriters, "Node win-1 has 10.200.9.0/24",
		},
		"another one than was given": {
			hardWay(byOperator, overrides, windows("win-1", "10.200.9.0/24"), given, windows("win-2"), func(e *Evidence) { e.Nodes[3].Ranges = prefixes("10.200.8.0/24") }),
			nil, v1alpha1.ReasonPodCIDRTwoWriters, "Node win-1 has 10.200.8.0/24",
		},
		"the controller manager is to": {
			hardWay(byOperator, overrides, args("--allocate-node-cidrs=true"), windows("win-1")), nil, v1alpha1.ReasonPodCIDRTwoWriters,
			`--type=merge -p '{"spec":{"network":{"podCIDRs":{"allocation":"ControllerManager"}}}}'`,
		},
		"the controller manager did, and does no more": {
			hardWay(byOperator, spec("10.200.0.0/24", "10.200.1.0/24", "10.200.2.0/24"), args("--cluster-cidr=10.200.0.0/16"), windows("win-1")),
			[]string{"win-1 10.200.3.0/24"},
			"", "",
		},
		"none left": {
			hardWay(byOperator, overrides, windows("win-1"), windows("win-2"), func(e *Evidence) { e.Cluster = prefixes("10.200.0.0/22") }),
			[]string{"win-1 10.200.3.0/24"},
			v1alpha1.ReasonPodCIDRRangeExhausted, "spec.cluster.podCIDRs of WindowsNodeProfile default",
		},
		"no range of the cluster": {
			hardWay(byOperator, overrides, windows("win-1"), func(e *Evidence) { e.Cluster = nil }), nil, v1alpha1.ReasonNodeCIDRsNotAllocated, "spec.network.podCIDRs.maskSize",
		},
	} {
		t.Run(name, func(t *testing.T) {
			grants, why := Grants(c.e)
			var got []string
			for _, g := range grants {
				got = append(got, g.Node+" "+g.Range.String())
				if g.UID != "uid-"+g.Node {
					t.Errorf("UID %s of %s", g.UID, g.Node)
				}
			}
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("grants (-want +got):\n%s", diff)
			}
			if why.Reason != c.reason || !strings.Contains(why.Message, c.says) {
				t.Errorf("%s: %s; want %s: %s", why.Reason, why.Message, c.reason, c.says)
			}
		})
	}
}
