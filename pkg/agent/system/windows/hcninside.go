package windows

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/windowsmachine/operator/pkg/plan"
)

// Policies of an Overlay network that come and go with other nodes, the one that HNS adds itself, and the one that lets the host reach its pods.
const (
	policyHostRoute    = "HostRoute"
	policyRemoteSubnet = "RemoteSubnetRoute"
	policyDRMAC        = "DrMacAddress"
)

// hnsEndpoint is the HNS v1 document of an endpoint ("HNSEndpoint"), as far as it is used. Only this older interface attaches an endpoint to the host
// itself.
type hnsEndpoint struct {
	Name           string `json:"Name"`
	VirtualNetwork string `json:"VirtualNetwork"`
	IPAddress      string `json:"IPAddress"`
	// GatewayAddress 0.0.0.0 keeps HNS from giving the host a second default route, by way of the pods' gateway.
	GatewayAddress string `json:"GatewayAddress"`
}

// endpointDocument returns the document that creates e in the network with that id.
func endpointDocument(networkID string, e plan.HostEndpoint) ([]byte, error) {
	address, err := netip.ParseAddr(e.Address)
	if err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", e.Name, err)
	}
	return json.Marshal(hnsEndpoint{
		Name: e.Name, VirtualNetwork: networkID, IPAddress: address.String(), GatewayAddress: netip.IPv4Unspecified().String(),
	})
}

// endpointAttached: the states of HNS' EndpointState that stand for an endpoint in use.
func endpointAttached(state uint16) bool {
	const attached, attachedSharing = 2, 3
	return state == attached || state == attachedSharing
}

// remoteSubnet are the settings of policyRemoteSubnet. Package hcn has them with a virtual subnet of 16 bits.
type remoteSubnet struct {
	DestinationPrefix           string `json:"DestinationPrefix"`
	IsolationID                 int    `json:"IsolationId"`
	ProviderAddress             string `json:"ProviderAddress"`
	DistributedRouterMacAddress string `json:"DistributedRouterMacAddress"`
}

// remotePolicy returns the policy that sends packets for r.Prefix to its node.
func remotePolicy(r plan.RemoteSubnet) hcnPolicy {
	return hcnPolicy{Type: policyRemoteSubnet, Settings: settings(remoteSubnet{
		DestinationPrefix: r.Prefix, IsolationID: r.VSID, ProviderAddress: r.ProviderAddress,
		DistributedRouterMacAddress: hnsMAC(r.MAC),
	})}
}

// remoteFrom reads such a policy; ok is false for another type and for what is none.
func remoteFrom(p hcnPolicy) (r plan.RemoteSubnet, ok bool) {
	var s remoteSubnet
	if p.Type != policyRemoteSubnet || json.Unmarshal(p.Settings, &s) != nil {
		return r, false
	}
	return plan.RemoteSubnet{
		Prefix: s.DestinationPrefix, ProviderAddress: s.ProviderAddress, MAC: planMAC(s.DistributedRouterMacAddress), VSID: s.IsolationID,
	}, true
}

// drMAC returns the router's address out of the policies of a network, "" when HNS has given none.
func drMAC(policies []hcnPolicy) string {
	var s struct {
		Address string `json:"Address"`
	}
	if !find(policies, policyDRMAC, &s) {
		return ""
	}
	return planMAC(s.Address)
}

// hnsMAC writes a hardware address as HNS does: capitals and dashes.
func hnsMAC(mac string) string { return strings.ToUpper(strings.ReplaceAll(mac, ":", "-")) }

// planMAC writes one as plans do, "" for what is none.
func planMAC(mac string) string {
	a, err := net.ParseMAC(mac)
	if err != nil || len(a) != 6 {
		return ""
	}
	return a.String()
}
