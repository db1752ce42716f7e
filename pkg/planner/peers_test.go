package planner

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/plan"
)

func peer(name, ip string, ranges ...string) facts.Peer {
	return facts.Peer{Name: name, OS: "linux", InternalIP: ip, ProviderAddress: ip, PodCIDRs: ranges}
}

func vtep(p facts.Peer, mac string, vni int) facts.Peer {
	p.VTEPMAC, p.VNI = mac, vni
	return p
}

func TestPeers(t *testing.T) {
	const mac = "0a:00:00:00:00:01"
	for name, c := range map[string]struct {
		mode    string
		peers   []facts.Peer
		routes  []plan.Route
		remotes []plan.RemoteSubnet
		// findings are codes, each with a word of its message.
		findings map[Code]string
	}{
		"nobody": {mode: ModeL2Bridge},
		"on the link, by address": {
			mode:  ModeL2Bridge,
			peers: []facts.Peer{peer("a", "192.0.2.20", "10.244.3.0/24"), peer("b", "192.0.2.21", "fd00::/64", "10.244.2.0/24")},
			routes: []plan.Route{
				{Destination: "10.244.2.0/24", NextHop: "192.0.2.21"}, {Destination: "10.244.3.0/24", NextHop: "192.0.2.20"},
			},
		},
		"flannel's host-gw": {
			mode: ModeFlannelHostGW, peers: []facts.Peer{peer("a", "192.0.2.20", "10.244.3.0/24")},
			routes: []plan.Route{{Destination: "10.244.3.0/24", NextHop: "192.0.2.20"}},
		},
		"behind a router": {
			mode:     ModeL2Bridge,
			peers:    []facts.Peer{peer("far", "198.51.100.9", "10.244.3.0/24"), peer("near", "192.0.2.20", "10.244.4.0/24")},
			routes:   []plan.Route{{Destination: "10.244.4.0/24", NextHop: "192.0.2.20"}},
			findings: map[Code]string{CodePeerElsewhere: "nodes far:"},
		},
		"no range yet": {mode: ModeL2Bridge, peers: []facts.Peer{peer("new", "192.0.2.20")}, findings: map[Code]string{CodePeerUnknown: "nodes new:"}},
		"two with one range": {
			mode: ModeL2Bridge,
			peers: []facts.Peer{
				peer("a", "192.0.2.20", "10.244.2.0/24"), peer("b", "192.0.2.21", "10.244.2.128/25"), peer("c", "192.0.2.22", "10.244.2.0/26"),
				peer("d", "192.0.2.23", "10.244.5.0/24"),
			},
			routes:   []plan.Route{{Destination: "10.244.5.0/24", NextHop: "192.0.2.23"}},
			findings: map[Code]string{CodePeerRange: "nodes a, b, c:"},
		},
		"overlay": {
			mode:    ModeOverlay,
			peers:   []facts.Peer{vtep(peer("a", "203.0.113.20", "10.244.3.0/24"), mac, 4096), vtep(peer("b", "192.0.2.21", "10.244.2.0/24"), mac, 0)},
			remotes: []plan.RemoteSubnet{{Prefix: "10.244.2.0/24", ProviderAddress: "192.0.2.21", MAC: mac, VSID: 4096}, {Prefix: "10.244.3.0/24", ProviderAddress: "203.0.113.20", MAC: mac, VSID: 4096}},
		},
		"flannel has not come up there": {
			mode: ModeFlannelVXLAN, peers: []facts.Peer{peer("a", "192.0.2.20", "10.244.3.0/24")},
			findings: map[Code]string{CodePeerUnknown: "nodes a:"},
		},
		"flannel before its change there": {
			mode: ModeFlannelVXLAN, peers: []facts.Peer{vtep(peer("a", "192.0.2.20", "10.244.3.0/24"), mac, 1)},
			findings: map[Code]string{CodePeerVNI: "nodes a (1):"},
		},
		"one that says it is us": {
			mode: ModeFlannelVXLAN, peers: []facts.Peer{vtep(peer("a", "192.0.2.10", "10.244.3.0/24"), mac, 4096)},
			findings: map[Code]string{CodePeerUnknown: "nodes a:"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := proxied(testCluster(), flannelPlane("vxlan", 4096, 4789))
			o := testOptions(c.mode)
			p, err := Build(cluster, testHost(), joinedNode(c.peers...), o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.routes, p.Routes); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.remotes, p.Networks[0].Remotes); diff != "" {
				t.Error(diff)
			}
			findings := PeerFindings(cluster, testHost(), joinedNode(c.peers...), o)
			if len(findings) != len(c.findings) {
				t.Errorf("findings %v", findings)
			}
			for _, f := range findings {
				if want, ok := c.findings[f.Code]; !ok || !strings.HasPrefix(f.Message, want) || f.Fatal {
					t.Errorf("got %+v", f)
				}
			}
		})
	}
}

func TestPeerFindingsHaveNothingToSay(t *testing.T) {
	far := peer("far", "198.51.100.9", "10.244.3.0/24")
	for name, c := range map[string]struct {
		node facts.Node
		mode string
	}{
		"before it has joined":     {facts.Node{Peers: []facts.Peer{far}}, ModeL2Bridge},
		"a mode without peers":     {joinedNode(far), ModeNone},
		"a range of its neighbour": {joinedNode(peer("x", "192.0.2.20", "10.244.1.0/24")), ModeL2Bridge},
		"a mode that is none":      {joinedNode(far), "x"},
	} {
		if got := PeerFindings(testCluster(), testHost(), c.node, testOptions(c.mode)); got != nil {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestOneThousandNodes: a plan for a large cluster is in order and within its limits.
func TestOneThousandNodes(t *testing.T) {
	var peers []facts.Peer
	for i := range 4000 {
		ip := netip.AddrFrom4([4]byte{192, 0, 2, byte(20 + i%200)}).String()
		peers = append(peers, vtep(peer(fmt.Sprintf("n%04d", i), ip, fmt.Sprintf("10.%d.%d.0/24", 16+i/256, i%256)), "0a:00:00:00:00:01", 4096))
	}
	for _, mode := range []string{ModeL2Bridge, ModeOverlay} {
		p := mustBuild(t, facts.Node{Registered: true, PodCIDR: "10.244.1.0/24", Peers: peers}, testOptions(mode))
		if n := len(p.Routes) + len(p.Networks[0].Remotes); n != len(peers) {
			t.Errorf("%s: %d of %d", mode, n, len(peers))
		}
		if size := len(p.Encode()); size > plan.MaxPlan/2 {
			t.Errorf("%s: the plan has %d bytes", mode, size)
		}
	}
}

func TestNodeList(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"b", "a", "b"}, "nodes a, b"},
		{[]string{"g", "f", "e", "d", "c", "b", "a"}, "nodes a, b, c, d, e and 2 more"},
		{[]string{"x\ny"}, "nodes x?y"},
	} {
		if got := nodeList(c.names); got != c.want {
			t.Errorf("got %s", got)
		}
	}
}

func TestLinuxRoutes(t *testing.T) {
	windows := func(p facts.Peer) facts.Peer { p.OS = "windows"; return p }
	got := LinuxRoutes([]facts.Peer{
		peer("linux", "192.0.2.9", "10.244.9.0/24"), windows(peer("b", "192.0.2.11", "10.244.3.0/24", "fd00::/64")),
		windows(peer("a", "192.0.2.10", "10.244.1.0/24")), windows(peer("new", "", "10.244.4.0/24")), windows(peer("none", "192.0.2.12")),
	})
	want := []string{"ip route replace 10.244.1.0/24 via 192.0.2.10", "ip route replace 10.244.3.0/24 via 192.0.2.11"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
