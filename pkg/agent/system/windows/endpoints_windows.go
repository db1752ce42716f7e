package windows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/Microsoft/hcsshim"
	"github.com/Microsoft/hcsshim/hcn"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Numbers for what the older interface of HNS says in words only.
const (
	hcnEndpointNotFound = 0x803b0002
	codeObjectExists    = 5010
)

// hostCompartment is the host's own network compartment; others belong to containers.
const hostCompartment = 1

// endpoints lists the endpoints of a network; package hcsshim gives no number when HNS refuses.
func (n networks) endpoints(network string) (id string, list []hcsshim.HNSEndpoint, err error) {
	if err := n.ready(); err != nil {
		return "", nil, err
	}
	found, err := hcn.GetNetworkByName(network)
	if err != nil {
		return "", nil, hcnFailed("find network", network, err)
	}
	all, err := hcsshim.HNSListEndpointRequest()
	if err != nil {
		return "", nil, hcnFailed("list endpoints of network", network, err)
	}
	for _, e := range all {
		if strings.EqualFold(e.VirtualNetwork, found.Id) {
			list = append(list, e)
		}
	}
	return found.Id, list, nil
}

// Endpoint goes by the state that HNS tells and by the host's adapters: either proves that the host is attached.
func (n networks) Endpoint(network, name string) (plan.HostEndpoint, bool, error) {
	_, list, err := n.endpoints(network)
	if err != nil {
		return plan.HostEndpoint{}, false, err
	}
	for _, e := range list {
		if !strings.EqualFold(e.Name, name) {
			continue
		}
		out := plan.HostEndpoint{Name: name, Address: e.IPAddress.String()}
		held, err := held(out.Address)
		return out, held || endpointAttached(uint16(e.State)), err
	}
	return plan.HostEndpoint{}, false, refuse("find endpoint", name, hcnEndpointNotFound)
}

// held reports whether an adapter of the host holds the address.
func held(address string) (bool, error) {
	adapters, err := readAdapters()
	if err != nil {
		return false, err
	}
	ip, parseErr := netip.ParseAddr(address)
	_, ok := holding(ip, adapters)
	return ok && parseErr == nil, nil
}

func (n networks) CreateEndpoint(ctx context.Context, network string, e plan.HostEndpoint) error {
	id, list, err := n.endpoints(network)
	if err := errors.Join(ctx.Err(), err); err != nil {
		return err
	}
	for _, other := range list {
		if other.IPAddress.String() == e.Address {
			return refuse("create endpoint "+e.Name+": address "+e.Address+" is that of endpoint", other.Name, codeObjectExists)
		}
	}
	document, err := endpointDocument(id, e)
	if err != nil {
		return err
	}
	_, err = hcsshim.HNSEndpointRequest("POST", "", string(document))
	return hcnFailed("create endpoint", e.Name, err)
}

// AttachEndpoint looks again after a refusal: HNS refuses an endpoint that is attached already, in words only.
func (n networks) AttachEndpoint(ctx context.Context, name string) error {
	e, err := n.endpoint(name)
	if err := errors.Join(ctx.Err(), err); err != nil {
		return err
	}
	if endpointAttached(uint16(e.State)) {
		return nil
	}
	err = e.HostAttach(hostCompartment)
	if err == nil {
		return nil
	}
	if now, again := n.endpoint(name); again == nil && endpointAttached(uint16(now.State)) {
		return nil
	}
	return hcnFailed("attach endpoint", name, err)
}

func (n networks) endpoint(name string) (*hcsshim.HNSEndpoint, error) {
	if err := n.ready(); err != nil {
		return nil, err
	}
	list, err := hcsshim.HNSListEndpointRequest()
	if err != nil {
		return nil, hcnFailed("list endpoints for", name, err)
	}
	for i := range list {
		if strings.EqualFold(list[i].Name, name) {
			return &list[i], nil
		}
	}
	return nil, refuse("find endpoint", name, hcnEndpointNotFound)
}

func (n networks) DeleteEndpoint(ctx context.Context, name string) error {
	e, err := n.endpoint(name)
	if err := errors.Join(ctx.Err(), err); err != nil {
		return err
	}
	_, err = e.Delete()
	return hcnFailed("delete endpoint", name, err)
}

// policies returns a network with its policies in this package's own types.
func (n networks) policies(network string) (*hcn.HostComputeNetwork, []hcnPolicy, error) {
	if err := n.ready(); err != nil {
		return nil, nil, err
	}
	found, err := hcn.GetNetworkByName(network)
	if err != nil {
		return nil, nil, hcnFailed("find network", network, err)
	}
	out := make([]hcnPolicy, 0, len(found.Policies))
	for _, p := range found.Policies {
		out = append(out, hcnPolicy{Type: string(p.Type), Settings: p.Settings})
	}
	return found, out, nil
}

func (n networks) Remotes(network string) ([]plan.RemoteSubnet, error) {
	_, policies, err := n.policies(network)
	if err != nil {
		return nil, err
	}
	var out []plan.RemoteSubnet
	for _, p := range policies {
		if r, ok := remoteFrom(p); ok {
			out = append(out, r)
		}
	}
	return out, nil
}

// AddRemotes makes one request for each, so that HNS names the one that it refuses.
func (n networks) AddRemotes(ctx context.Context, network string, list []plan.RemoteSubnet) error {
	found, _, err := n.policies(network)
	if err != nil {
		return err
	}
	for _, r := range list {
		p := remotePolicy(r)
		err := ctx.Err()
		if err == nil {
			err = hcnFailed("add remote subnet "+r.Prefix+" to network", network, found.AddPolicy(policyRequest(p.Type, p.Settings)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// DeleteRemotes gives HNS each policy as it gave it, since it compares them whole.
func (n networks) DeleteRemotes(ctx context.Context, network string, list []plan.RemoteSubnet) error {
	found, policies, err := n.policies(network)
	if err != nil {
		return err
	}
	drop := make(map[plan.RemoteSubnet]bool, len(list))
	for _, r := range list {
		drop[r] = true
	}
	for _, p := range policies {
		r, ok := remoteFrom(p)
		if !ok || !drop[r] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := found.RemovePolicy(policyRequest(p.Type, p.Settings)); err != nil {
			return hcnFailed("remove remote subnet "+r.Prefix+" from network", network, err)
		}
	}
	return nil
}

func policyRequest(kind string, settings json.RawMessage) hcn.PolicyNetworkRequest {
	return hcn.PolicyNetworkRequest{Policies: []hcn.NetworkPolicy{{Type: hcn.NetworkPolicyType(kind), Settings: settings}}}
}

func (n networks) DRMAC(network string) (string, error) {
	_, policies, err := n.policies(network)
	if err != nil {
		return "", fmt.Errorf("router's address of network %s: %w", network, err)
	}
	return drMAC(policies), nil
}

var _ system.Networks = networks{}
