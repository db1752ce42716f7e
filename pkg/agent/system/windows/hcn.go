package windows

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"github.com/windowsmachine/operator/pkg/plan"
)

// The HCN v2 network document, as far as it is used ("HCN_NETWORK", HNS.Schema.Network). Package hcn of hcsshim has the
// same types for Windows only; here they are so that the documents can be proven everywhere.
type (
	hcnNetwork struct {
		Name          string      `json:"Name"`
		Type          string      `json:"Type"`
		Policies      []hcnPolicy `json:"Policies,omitempty"`
		Ipams         []hcnIpam   `json:"Ipams,omitempty"`
		Flags         uint32      `json:"Flags,omitempty"`
		SchemaVersion hcnVersion  `json:"SchemaVersion"`
	}
	hcnPolicy struct {
		Type     string          `json:"Type"`
		Settings json.RawMessage `json:"Settings,omitempty"`
	}
	hcnIpam struct {
		Type    string      `json:"Type"`
		Subnets []hcnSubnet `json:"Subnets"`
	}
	hcnSubnet struct {
		IPAddressPrefix string      `json:"IpAddressPrefix"`
		Policies        []hcnPolicy `json:"Policies,omitempty"`
		Routes          []hcnRoute  `json:"Routes,omitempty"`
	}
	hcnRoute struct {
		NextHop           string `json:"NextHop"`
		DestinationPrefix string `json:"DestinationPrefix"`
	}
	hcnVersion struct {
		Major int `json:"Major"`
		Minor int `json:"Minor"`
	}
)

// Settings of the policies, and their names.
type (
	netAdapterName struct {
		NetworkAdapterName string `json:"NetworkAdapterName"`
	}
	virtualSubnet struct {
		IsolationID uint32 `json:"IsolationId"`
	}
	providerAddress struct {
		ProviderAddress string `json:"ProviderAddress"`
	}
)

const (
	policyNetAdapterName  = "NetAdapterName"
	policyVSID            = "VSID"
	policyProviderAddress = "ProviderAddress"
)

// flagNonPersistent is EnableNonPersistent.
const flagNonPersistent = 8

// maxVSID is the largest VXLAN network identifier (24 bits); minVSID the smallest that Windows takes.
const (
	minVSID = 4096
	maxVSID = 1<<24 - 1
)

// hcnFloor is the first HNS version with the v2 API, RemoteSubnet and HostRoute (hcsshim's table: 9.2).
func hcnFloor() hcnVersion { return hcnVersion{Major: 9, Minor: 2} }

// atLeast compares versions.
func (v hcnVersion) atLeast(floor hcnVersion) bool {
	return v.Major > floor.Major || v.Major == floor.Major && v.Minor >= floor.Minor
}

// networkDocument returns the document that creates n on the adapter. An L2Bridge network survives a reboot. An Overlay network is
// made with EnableNonPersistent, as the CNI plugins that know overlays make theirs: its remote subnets and endpoints would
// be stale after a reboot, so it goes, and the agent's first run after the boot makes it again.
func networkDocument(n plan.Network, adapterName string) ([]byte, error) {
	prefix, gateway, err := networkPrefix(n)
	if err != nil {
		return nil, err
	}
	var flags uint32
	subnet := hcnSubnet{
		IPAddressPrefix: prefix.String(),
		Routes:          []hcnRoute{{NextHop: gateway.String(), DestinationPrefix: defaultRoute(gateway)}},
	}
	switch n.Type {
	case plan.NetworkL2Bridge:
	case plan.NetworkOverlay:
		if n.VSID < minVSID || n.VSID > maxVSID {
			return nil, fmt.Errorf("network %s: virtual subnet %d is not between %d and %d", n.Name, n.VSID, minVSID, maxVSID)
		}
		flags = flagNonPersistent
		subnet.Policies = []hcnPolicy{{Type: policyVSID, Settings: settings(virtualSubnet{IsolationID: uint32(n.VSID)})}}
	default:
		return nil, fmt.Errorf("network %s: unknown type %q", n.Name, n.Type)
	}
	return json.Marshal(hcnNetwork{
		Name: n.Name, Type: n.Type,
		Policies:      []hcnPolicy{{Type: policyNetAdapterName, Settings: settings(netAdapterName{NetworkAdapterName: adapterName})}},
		Ipams:         []hcnIpam{{Type: "Static", Subnets: []hcnSubnet{subnet}}},
		Flags:         flags,
		SchemaVersion: hcnVersion{Major: 2},
	})
}

func networkPrefix(n plan.Network) (netip.Prefix, netip.Addr, error) {
	prefix, err := netip.ParsePrefix(n.Prefix)
	if err != nil {
		return prefix, netip.Addr{}, fmt.Errorf("network %s: prefix: %w", n.Name, err)
	}
	gateway, err := netip.ParseAddr(n.Gateway)
	if err != nil {
		return prefix, gateway, fmt.Errorf("network %s: gateway: %w", n.Name, err)
	}
	if !prefix.Contains(gateway) {
		return prefix, gateway, fmt.Errorf("network %s: gateway %s is not within %s", n.Name, gateway, prefix)
	}
	return prefix.Masked(), gateway, nil
}

func defaultRoute(a netip.Addr) string {
	if a.Is4() {
		return "0.0.0.0/0"
	}
	return "::/0"
}

// settings encodes the settings of a policy.
func settings(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		// The settings are structs of strings and numbers; json.Marshal cannot refuse them.
		panic(fmt.Sprintf("windows: encoding policy settings: %v", err))
	}
	return b
}

// errDocument: HNS answered with a document that is none of a network.
var errDocument = errors.New("malformed network document")

// networkFrom returns what a document says. managementIP is what HNS keeps for the network outside of the v2 document, ""
// when unknown; the ProviderAddress policy of an Overlay network says the same. A network of several subnets, or of a
// type that plans do not know, comes back with what it has, and so equals no planned network.
func networkFrom(document []byte, managementIP string) (plan.Network, error) {
	var d hcnNetwork
	if err := json.Unmarshal(document, &d); err != nil {
		return plan.Network{}, fmt.Errorf("%w: %w", errDocument, err)
	}
	n := plan.Network{Name: d.Name, Type: d.Type, ManagementIP: managementIP}
	if pa := (providerAddress{}); n.ManagementIP == "" && find(d.Policies, policyProviderAddress, &pa) {
		n.ManagementIP = pa.ProviderAddress
	}
	subnet, ok := onlySubnet(d.Ipams)
	if !ok {
		return n, nil
	}
	n.Prefix = subnet.IPAddressPrefix
	for _, r := range subnet.Routes {
		if r.DestinationPrefix == "0.0.0.0/0" || r.DestinationPrefix == "::/0" {
			n.Gateway = r.NextHop
		}
	}
	if vs := (virtualSubnet{}); find(subnet.Policies, policyVSID, &vs) {
		n.VSID = int(vs.IsolationID)
	}
	return n, nil
}

// onlySubnet returns the subnet of a network that has exactly one.
func onlySubnet(ipams []hcnIpam) (hcnSubnet, bool) {
	if len(ipams) != 1 || len(ipams[0].Subnets) != 1 {
		return hcnSubnet{}, false
	}
	return ipams[0].Subnets[0], true
}

// find decodes the settings of the first policy of that type.
func find(policies []hcnPolicy, name string, into any) bool {
	for _, p := range policies {
		if p.Type == name {
			return json.Unmarshal(p.Settings, into) == nil
		}
	}
	return false
}
