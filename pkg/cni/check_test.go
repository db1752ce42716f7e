package cni

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	bridged := `{"cniVersion":"0.3.1","name":"cbr0","type":"win-bridge","apiVersion":2,"ipam":{"type":"host-local"}}`
	here := Surroundings{
		Programs: []string{"win-bridge.exe", "WIN-OVERLAY.EXE", "host-local.exe", "flannel.exe", "sdnbridge.exe"}, HCN: true, Containerd: 2,
		Networks: map[string]string{"cbr0": "L2Bridge", "vxlan0": "Overlay"},
	}
	for _, tc := range []struct {
		name, conf string
		edit       func(*Surroundings)
		want       []string
	}{
		{name: "good", conf: bridged},
		{name: "no plugin", conf: bridged, edit: func(s *Surroundings) { s.Programs = nil }, want: []string{
			`type "win-bridge": there is no win-bridge.exe`, `ipam.type "host-local": there is no host-local.exe`,
		}},
		{name: "no network", conf: bridged, edit: func(s *Surroundings) { s.Networks = nil }, want: []string{`no HNS network "cbr0"`}},
		{name: "other network", conf: bridged, edit: func(s *Surroundings) { s.Networks = map[string]string{"cbr0": "NAT"} }, want: []string{"of type NAT"}},
		{name: "old HNS", conf: strings.Replace(bridged, `"apiVersion":2,`, "", 1), want: []string{"apiVersion 0"}},
		{name: "old HNS with Docker", conf: strings.Replace(bridged, `"apiVersion":2,`, "", 1), edit: func(s *Surroundings) { s.HCN = false }},
		{name: "list", conf: `{"cniVersion":"1.0.0","name":"vxlan0","plugins":[{"type":"win-overlay","apiVersion":2,"ipam":{"type":"host-local"}}]}`},
		{name: "overlay without ipam", conf: `{"cniVersion":"1.0.0","name":"vxlan0","type":"win-overlay","apiVersion":2}`, want: []string{"no ipam"}},
		{name: "flannel", conf: `{"cniVersion":"0.3.0","name":"vxlan0","type":"flannel","delegate":{"type":"win-overlay","apiVersion":2}}`},
		{name: "flannel of old", conf: `{"cniVersion":"0.3.0","name":"vxlan0","type":"flannel","delegate":{"type":"win-overlay"}}`, want: []string{"apiVersion 0"}},
		{name: "makes its own network", conf: `{"cniVersion":"0.2.0","name":"new","type":"sdnbridge"}`},
		{name: "new version", conf: strings.Replace(bridged, "0.3.1", "1.1.0", 1), edit: func(s *Surroundings) { s.Containerd = 1 }, want: []string{"cniVersion 1.1.0"}},
	} {
		c, err := Parse([]byte(tc.conf))
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		s := here
		if tc.edit != nil {
			tc.edit(&s)
		}
		got := Check(c, s)
		if len(got) != len(tc.want) {
			t.Errorf("%s: %+v, want %q", tc.name, got, tc.want)
			continue
		}
		for i, w := range tc.want {
			if !strings.Contains(got[i].Text, w) || got[i].Fatal == (tc.name == "new version") {
				t.Errorf("%s: %+v, want %q", tc.name, got[i], w)
			}
		}
	}
}

func TestW15Normal(t *testing.T) {
	if got := string(Normal([]byte("\xef\xbb\xbf{\r\n}\r\n"))); got != "{\n}\n" {
		t.Errorf("%q", got)
	}
}
