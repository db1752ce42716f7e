package hns

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Port is what a load balancer does with one port.
type Port struct {
	// Protocol is the number of IP: 6 for TCP, 17 for UDP.
	Protocol uint32
	// External is where traffic comes in, Internal where the backends listen.
	External uint16 `json:"ExternalPort"`
	Internal uint16 `json:"InternalPort"`
}

// LoadBalancer is a load balancer as HNS has it.
type LoadBalancer struct {
	ID string
	// VIPs are the addresses in front, none for a port of the machine itself.
	VIPs  []string `json:"FrontendVIPs"`
	Ports []Port   `json:"PortMappings"`
	// Endpoints are the ids of the endpoints behind.
	Endpoints []string `json:"HostComputeEndpoints"`
}

// Endpoint is an endpoint as HNS has it.
type Endpoint struct {
	ID        string
	Addresses []string
	// Remote is for one that stands for a pod of another machine.
	Remote bool
}

// remoteEndpoint is EndpointFlagsRemoteEndpoint in an endpoint's flags.
const remoteEndpoint = 1

// LoadBalancers returns the load balancers that there are.
func (s *Service) LoadBalancers() []LoadBalancer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []LoadBalancer
	for _, o := range s.objects[kindLoadBalancer] {
		if b, err := balancer(o); err == nil { // Others are not let in.
			out = append(out, b)
		}
	}
	return out
}

// Endpoints returns the endpoints that there are.
func (s *Service) Endpoints() []Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Endpoint
	for _, o := range s.objects[kindEndpoint] {
		flags, _ := o["Flags"].(float64)
		e := Endpoint{ID: o.text(keyID), Remote: int(flags)&remoteEndpoint != 0}
		list, _ := o["IpConfigurations"].([]any)
		for _, c := range list {
			m, _ := c.(map[string]any)
			e.Addresses = append(e.Addresses, object(m).text("IpAddress"))
		}
		out = append(out, e)
	}
	return out
}

func balancer(o object) (b LoadBalancer, err error) {
	err = json.Unmarshal([]byte(encode(o)), &b)
	return b, err
}

// checkLoadBalancer refuses endpoints that are not there, and a front end that another load balancer has.
func (s *Service) checkLoadBalancer(o object) answer {
	b, err := balancer(o)
	if err != nil {
		return refuse(InvalidJSON, "%v", err)
	}
	for _, id := range b.Endpoints {
		if _, ok := s.find(kindEndpoint, id); !ok {
			return missing(kindEndpoint)
		}
	}
	taken := b.fronts()
	for _, other := range s.objects[kindLoadBalancer] {
		have, _ := balancer(other) // It was checked when it was made.
		for _, f := range have.fronts() {
			if slices.Contains(taken, f) {
				return refuse(PortExists, "load balancer %s has %s", have.ID, f)
			}
		}
	}
	return answer{}
}

// fronts are the addresses with protocol and port at which traffic comes in.
func (b LoadBalancer) fronts() []string {
	var out []string
	for _, p := range b.Ports {
		for _, vip := range append(slices.Clone(b.VIPs), "")[:max(1, len(b.VIPs))] {
			out = append(out, strings.ToLower(fmt.Sprintf("%s port %d protocol %d", vip, p.External, p.Protocol)))
		}
	}
	return out
}
