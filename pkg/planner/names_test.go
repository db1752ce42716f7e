package planner

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/windowsmachine/operator/pkg/plan"
)

func TestW20NodeNames(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct{ in, want string }{
		{"WIN-A", "win-a"},
		{"win-a.example.test", "win-a"},
		{"wrxp2-win-worker-centralus1-8vx4c", "wrxp2-win-worker-centralus1-8vx4c"},
		// A name of 70 characters as a cloud's metadata has it.
		{x(30) + ".c." + x(28) + ".internal", x(30)},
		{x(63), x(63)},
		{x(64), x(63)},
		{x(62) + "-y", x(62)},
		{" win-a\r\n", "win-a"},
		{"1a", "1a"},
	} {
		got, err := NodeName(c.in)
		if err != nil || got != c.want {
			t.Errorf("%q: got %q, %v", c.in, got, err)
		}
	}
	for _, in := range []string{"", ".", "1234567890", "WIN_A", "-win", "win-", "größe", "win a", "a\x00b"} {
		if got, err := NodeName(in); !errors.Is(err, ErrHostname) {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
}

func TestW20NetBIOSNames(t *testing.T) {
	for _, c := range []struct {
		in, want string
		cut      bool
	}{
		{"win-a", "WIN-A", false},
		{"abcdefghijklmno", "ABCDEFGHIJKLMNO", false},
		{"abcdefghijklmnop", "ABCDEFGHIJKLMNO", true},
		{"abcdefghijklmno.example.test", "ABCDEFGHIJKLMNO", false},
		{"wrxp2-win-worker-centralus1-8vx4c", "WRXP2-WIN-WORKE", true},
	} {
		if got, cut := NetBIOSName(c.in); got != c.want || cut != c.cut {
			t.Errorf("%q: got %q %v", c.in, got, cut)
		}
	}
}

func FuzzNodeName(f *testing.F) {
	f.Add("WIN-A.example.test")
	f.Add(strings.Repeat("x-", 40))
	f.Fuzz(func(t *testing.T, s string) {
		name, err := NodeName(s)
		if err != nil {
			return
		}
		if len(name) > 63 || !labelRule.MatchString(name) || name != strings.ToLower(name) {
			t.Errorf("%q gave %q", s, name)
		}
	})
}

func nics() []plan.AdapterAddress {
	return []plan.AdapterAddress{
		{Adapter: "Ethernet", Prefix: "169.254.7.7/16", Default: true, Usable: true},
		{Adapter: "Ethernet [LAN] 2", Prefix: "192.0.2.10/24", Default: true, Usable: true},
		{Adapter: "Ethernet [LAN] 2", Prefix: "fe80::1%7/64", Default: true, Usable: true},
		{Adapter: "Ethernet 3", Prefix: "198.51.100.10/24", Usable: true},
		{Adapter: "vEthernet (nat)", Prefix: "172.20.0.1/20", Usable: true},
		{Adapter: "Loopback Pseudo-Interface 1", Prefix: "127.0.0.1/8", Usable: true},
		{Adapter: "broken", Prefix: "x", Usable: true},
	}
}

func TestW56NodeIP(t *testing.T) {
	for _, c := range []struct {
		name   string
		wanted string
		edit   func([]plan.AdapterAddress) []plan.AdapterAddress
		want   string
		err    error
	}{
		{"the listed address", "192.0.2.10", nil, "192.0.2.10", nil},
		{"another adapter when it is listed", "198.51.100.10", nil, "198.51.100.10", nil},
		{"by the default route", "", nil, "192.0.2.10", nil},
		{"mapped IPv4", "::ffff:192.0.2.10", nil, "192.0.2.10", nil},
		{"still tentative", "192.0.2.10", func(a []plan.AdapterAddress) []plan.AdapterAddress { a[1].Usable = false; return a }, "", ErrNotUsable},
		{"still tentative, by the default route", "", func(a []plan.AdapterAddress) []plan.AdapterAddress { a[1].Usable = false; return a }, "", ErrNotUsable},
		{"not there", "192.0.2.11", nil, "", ErrNoAdapter},
		{"link-local", "169.254.7.7", nil, "", ErrNoAdapter},
		{"no address", "host.example.test", nil, "", ErrNoAdapter},
		{"only 169.254", "", func(a []plan.AdapterAddress) []plan.AdapterAddress { return a[:1] }, "", ErrNoAdapter},
		{"nothing known", "", func([]plan.AdapterAddress) []plan.AdapterAddress { return nil }, "", ErrNoAdapter},
		{"two default routes", "", func(a []plan.AdapterAddress) []plan.AdapterAddress { a[3].Default = true; return a }, "", ErrAmbiguous},
		{"IPv6 only", "", func(a []plan.AdapterAddress) []plan.AdapterAddress {
			a[1].Prefix = "2001:db8::10/64"
			return a
		}, "2001:db8::10", nil},
		{"IPv4 before IPv6", "", func(a []plan.AdapterAddress) []plan.AdapterAddress {
			return append(a, plan.AdapterAddress{Adapter: "Ethernet [LAN] 2", Prefix: "2001:db8::10/64", Default: true, Usable: true})
		}, "192.0.2.10", nil},
		{"loopback when it is asked for", "127.0.0.1", nil, "127.0.0.1", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := nics()
			if c.edit != nil {
				list = c.edit(list)
			}
			for _, reversed := range []bool{false, true} {
				if reversed {
					slices.Reverse(list)
				}
				got, err := PickNodeIP(c.wanted, list)
				if !errors.Is(err, c.err) || err == nil && got.Addr.String() != c.want {
					t.Errorf("got %v, %v", got, err)
				}
			}
		})
	}
	got, err := PickNodeIP("192.0.2.10", nics())
	if err != nil || got.Adapter != "Ethernet [LAN] 2" || got.Prefix.String() != "192.0.2.0/24" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := PickNodeIP("192.0.2.11", nics()); !strings.Contains(err.Error(), "198.51.100.10 (Ethernet 3)") {
		t.Errorf("the addresses that are there must be named: %v", err)
	}
}

func TestNodeIPMessageIsBounded(t *testing.T) {
	var list []plan.AdapterAddress
	for range 5000 {
		list = append(list, plan.AdapterAddress{Adapter: strings.Repeat("a\n", 1000), Prefix: "198.51.100.10/24", Usable: true})
	}
	_, err := PickNodeIP("192.0.2.10", list)
	if err == nil || len(err.Error()) > 2000 || strings.Contains(err.Error(), "\n") {
		t.Errorf("%d bytes", len(err.Error()))
	}
}
