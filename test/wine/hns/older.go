package hns

import (
	"encoding/json"
	"strings"
)

// older answers the interface before version 2, of which hcsshim uses the version, the lists, a single network, and the endpoints of the host.
func (s *Service) older(method, path, document string) answer {
	kind, rest, _ := strings.Cut(path, "/")
	id, action, _ := strings.Cut(rest, "/")
	switch {
	case kind == "endpoints" && method == "POST" && rest == "":
		return s.oldCreate(document)
	case kind == "endpoints" && id != "":
		return s.oldEndpoint(method, strings.ToUpper(id), action, document)
	case method == "GET":
		return s.oldGet(kind, id)
	}
	return answer{payload: refuse(NotSupported, "%s %s", method, path).payload}
}

func (s *Service) oldGet(kind, id string) answer {
	switch {
	case kind == "globals":
		return success(object{"Version": object{"Major": 13, "Minor": 2}, "Major": 13, "Minor": 2})
	case kind == "policylists":
		return success([]object{})
	case kind == "networks" && id != "":
		o, ok := s.find(kindNetwork, id)
		if !ok {
			return answer{payload: missing(kindNetwork).payload}
		}
		return success(s.old(o))
	case kind == "networks", kind == "endpoints":
		out := []object{}
		for _, o := range s.objects[map[string]string{"networks": kindNetwork, "endpoints": kindEndpoint}[kind]] {
			out = append(out, s.old(o))
		}
		return success(out)
	}
	return answer{payload: refuse(NotSupported, "GET %s", kind).payload}
}

// States of an endpoint (EndpointState).
const (
	stateCreated  = 1
	stateAttached = 2
)

const (
	keyState   = "State"
	keyConfigs = "IpConfigurations"
)

// oldCreate makes an endpoint of the document of the older interface, and keeps it as one of version 2, in which everybody else sees it.
func (s *Service) oldCreate(document string) answer {
	var e struct{ Name, VirtualNetwork, IPAddress, GatewayAddress string }
	if err := json.Unmarshal([]byte(document), &e); err != nil {
		return answer{payload: refuse(InvalidJSON, "%v", err).payload}
	}
	for _, o := range s.objects[kindEndpoint] {
		if strings.EqualFold(o.text(keyNetwork), e.VirtualNetwork) && addressOf(o) == e.IPAddress {
			return answer{payload: refuse(ObjectExists, "the object already exists").payload}
		}
	}
	made := s.create(kindEndpoint, "", strings.ToUpper(e.VirtualNetwork), encode(object{
		keyName: e.Name, keyConfigs: []object{{"IpAddress": e.IPAddress}}, keyState: stateCreated,
	}))
	if made.status != OK {
		return answer{payload: made.payload}
	}
	o, _ := s.find(kindEndpoint, made.id)
	out := success(s.old(o))
	out.changed = true
	return out
}

// oldEndpoint is a call about one endpoint.
func (s *Service) oldEndpoint(method, id, action, document string) answer {
	o, ok := s.find(kindEndpoint, id)
	if !ok {
		return answer{payload: missing(kindEndpoint).payload}
	}
	switch {
	case method == "GET" && action == "":
		return success(s.old(o))
	case method == "DELETE" && action == "":
		s.drop(kindEndpoint, o)
	case method == "POST" && action == "attach":
		return s.oldAttach(o, document)
	default:
		return answer{payload: refuse(NotSupported, "%s of an endpoint: %s", method, action).payload}
	}
	out := success(object{})
	out.changed = true
	return out
}

// oldAttach gives the host an adapter on the endpoint. HNS refuses a second one.
func (s *Service) oldAttach(o object, document string) answer {
	var to struct {
		SystemType    string
		CompartmentID int
	}
	if err := json.Unmarshal([]byte(document), &to); err != nil || to.SystemType != "Host" || to.CompartmentID != 1 {
		return answer{payload: refuse(NotSupported, "attach %s", document).payload}
	}
	if o.attached() {
		return answer{payload: refuse(Failed, "the endpoint is already attached to the switch").payload}
	}
	o[keyState] = stateAttached
	if s.opts.HostAddress != nil {
		s.opts.HostAddress(addressOf(o), true)
	}
	out := success(object{})
	out.changed = true
	return out
}

// attached reports whether the host has an adapter on the endpoint.
func (o object) attached() bool {
	switch n := o[keyState].(type) {
	case int:
		return n == stateAttached
	case float64:
		return n == stateAttached
	}
	return false
}

func addressOf(endpoint object) string {
	var list []struct{ IPAddress string }
	if json.Unmarshal([]byte(encode(endpoint[keyConfigs])), &list) != nil || len(list) == 0 {
		return ""
	}
	return list[0].IPAddress
}

// old is an object as the older interface shows it.
func (s *Service) old(o object) object {
	out := object{keyID: o[keyID], keyName: o[keyName], "Type": o["Type"], keyPolicies: o[keyPolicies], "ManagementIP": s.opts.ManagementIP}
	if network := o.text(keyNetwork); network != "" {
		out = object{keyID: o[keyID], keyName: o[keyName], "VirtualNetwork": network, "IPAddress": addressOf(o), keyState: o[keyState]}
	}
	return out
}

func success(v any) answer { return answer{payload: encode(object{"Success": true, "Output": v})} }
