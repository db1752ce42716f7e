package windows

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/plan"
)

func l2bridge() plan.Network {
	return plan.Network{Name: "cbr0", Type: plan.NetworkL2Bridge, ManagementIP: "192.0.2.10", Prefix: "10.244.3.0/24", Gateway: "10.244.3.1"}
}

func overlay() plan.Network {
	return plan.Network{Name: "vxlan0", Type: plan.NetworkOverlay, ManagementIP: "192.0.2.10", Prefix: "10.244.3.0/24", Gateway: "10.244.3.1", VSID: 4096}
}

func with(n plan.Network, change func(*plan.Network)) plan.Network {
	change(&n)
	return n
}

// The documents that create networks, byte for byte as HCN v2 takes them.
func TestNetworkDocuments(t *testing.T) {
	for _, tt := range []struct {
		golden, adapter string
		network         plan.Network
	}{
		{"testdata/l2bridge.json", "Ethernet", l2bridge()},
		{"testdata/l2bridge-ipv6.json", "Ethernet [LAN] 2", with(l2bridge(), func(n *plan.Network) { n.Prefix, n.Gateway = "fd00:3::/64", "fd00:3::1" })},
		{"testdata/overlay.json", "Ethernet", overlay()},
	} {
		got, err := networkDocument(tt.network, tt.adapter)
		if err != nil {
			t.Fatal(err)
		}
		golden, err := os.ReadFile(tt.golden)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := json.Compact(&want, golden); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), string(got)); diff != "" {
			t.Errorf("%s: %s", tt.golden, diff)
		}
	}
}

func TestNetworkDocumentRefuses(t *testing.T) {
	for _, tt := range []struct {
		name    string
		network plan.Network
	}{
		{"VSID below 4096", with(overlay(), func(n *plan.Network) { n.VSID = 4095 })},
		{"VSID beyond 24 bits", with(overlay(), func(n *plan.Network) { n.VSID = 1 << 24 })},
		{"unknown type", with(l2bridge(), func(n *plan.Network) { n.Type = "NAT" })},
		{"no prefix", with(l2bridge(), func(n *plan.Network) { n.Prefix = "" })},
		{"gateway outside", with(l2bridge(), func(n *plan.Network) { n.Gateway = "10.244.4.1" })},
		{"gateway of another family", with(l2bridge(), func(n *plan.Network) { n.Gateway = "fd00::1" })},
	} {
		if got, err := networkDocument(tt.network, "Ethernet"); err == nil {
			t.Errorf("%s gives %s", tt.name, got)
		}
	}
}

// What is created is what is read back, also when HNS adds what it makes up itself.
func TestNetworkRoundTrip(t *testing.T) {
	for _, want := range []plan.Network{l2bridge(), overlay()} {
		document, err := networkDocument(want, "Ethernet")
		if err != nil {
			t.Fatal(err)
		}
		document = bytes.Replace(document, []byte(`"Policies":[`),
			[]byte(`"ID":"1c2d","Health":{"Data":null},"MacPool":{"Ranges":[{}]},"Policies":[{"Type":"HostRoute","Settings":{}},{"Type":"DrMacAddress","Settings":{"Address":"00-15"}},`), 1)
		got, err := networkFrom(document, "192.0.2.10")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", want.Name, diff)
		}
	}
}

func TestNetworkFrom(t *testing.T) {
	const twoSubnets = `{"Name":"cbr0","Type":"L2Bridge","Ipams":[{"Subnets":[{"IpAddressPrefix":"10.0.0.0/24"},{"IpAddressPrefix":"fd00::/64"}]}]}`
	for _, tt := range []struct {
		name, document, address string
		want                    plan.Network
	}{
		{
			"NAT network of Docker", `{"Name":"nat","Type":"NAT","Ipams":[{"Subnets":[{"IpAddressPrefix":"172.20.0.0/20","Routes":[{"NextHop":"172.20.0.1","DestinationPrefix":"0.0.0.0/0"}]}]}]}`, "",
			plan.Network{Name: "nat", Type: "NAT", Prefix: "172.20.0.0/20", Gateway: "172.20.0.1"},
		},
		{"several subnets", twoSubnets, "192.0.2.10", plan.Network{Name: "cbr0", Type: "L2Bridge", ManagementIP: "192.0.2.10"}},
		{
			"address from the policy", `{"Name":"v","Type":"Overlay","Policies":[{"Type":"ProviderAddress","Settings":{"ProviderAddress":"192.0.2.10"}}]}`, "",
			plan.Network{Name: "v", Type: "Overlay", ManagementIP: "192.0.2.10"},
		},
		{
			"address from HNS goes first", `{"Name":"v","Type":"Overlay","Policies":[{"Type":"ProviderAddress","Settings":{"ProviderAddress":"192.0.2.99"}}]}`, "192.0.2.10",
			plan.Network{Name: "v", Type: "Overlay", ManagementIP: "192.0.2.10"},
		},
		{
			"settings of another shape", `{"Name":"v","Type":"Overlay","Policies":[{"Type":"ProviderAddress","Settings":7},{"Type":"NetAdapterName"}]}`, "",
			plan.Network{Name: "v", Type: "Overlay"},
		},
	} {
		got, err := networkFrom([]byte(tt.document), tt.address)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
	for _, document := range []string{"", "[]", `{"Ipams":7}`, strings.Repeat("[", 20000)} {
		if _, err := networkFrom([]byte(document), ""); !errors.Is(err, errDocument) {
			t.Errorf("%.20q: %v", document, err)
		}
	}
}

func TestHNSVersionFloor(t *testing.T) {
	for _, tt := range []struct {
		v    hcnVersion
		want bool
	}{{hcnVersion{7, 2}, false}, {hcnVersion{9, 1}, false}, {hcnVersion{9, 2}, true}, {hcnVersion{10, 0}, true}, {hcnVersion{15, 4}, true}} {
		if got := tt.v.atLeast(hcnFloor()); got != tt.want {
			t.Errorf("HNS %v: %v, want %v", tt.v, got, tt.want)
		}
	}
}
