package hns

import (
	"encoding/json"
	"strings"
)

// change is the document of a modification.
type change struct {
	ResourceType, RequestType string
	Settings                  object
}

func (s *Service) modify(kind, id, _, document string) answer {
	o, ok := s.find(kind, id)
	if !ok {
		return missing(kind)
	}
	var c change
	if err := json.Unmarshal([]byte(document), &c); err != nil {
		return refuse(InvalidJSON, "%v", err)
	}
	switch {
	case kind == kindNamespace && (c.ResourceType == "Endpoint" || c.ResourceType == "Container"):
		s.attach(o, c)
	case c.ResourceType == "Policy":
		if a := setPolicies(o, c); a.status != OK {
			return a
		}
	default:
		return refuse(NotSupported, "modifying %s of a %s", c.ResourceType, kind)
	}
	return answer{id: id, changed: true}
}

// attach lists a resource in its namespace, and the namespace in the endpoint.
func (s *Service) attach(namespace object, c change) {
	kept := []any{}
	resources, _ := namespace["Resources"].([]any)
	for _, r := range resources {
		if m, _ := r.(map[string]any); encode(m["Data"]) != encode(c.Settings) {
			kept = append(kept, r)
		}
	}
	holder := ""
	if c.RequestType == "Add" {
		kept = append(kept, map[string]any{"Type": c.ResourceType, "Data": map[string]any(c.Settings)})
		holder = namespace.text(keyID)
	}
	namespace["Resources"] = kept
	if e, ok := s.find(kindEndpoint, strings.ToUpper(c.Settings.text("EndpointId"))); ok {
		e[keyNamespace] = holder
	}
}

func setPolicies(o object, c change) answer {
	given, _ := c.Settings[keyPolicies].([]any)
	if a := checkPolicies(c.Settings[keyPolicies]); a.status != OK {
		return a
	}
	have, _ := o[keyPolicies].([]any)
	switch c.RequestType {
	case "Add":
		have = append(have, given...)
	case "Update":
		have = given
	case "Remove":
		have = without(have, given)
	default:
		return refuse(NotSupported, "request %q", c.RequestType)
	}
	o[keyPolicies] = have
	return answer{}
}

func without(have, gone []any) []any {
	kept := []any{}
	for _, p := range have {
		remove := false
		for _, g := range gone {
			remove = remove || encode(p) == encode(g)
		}
		if !remove {
			kept = append(kept, p)
		}
	}
	return kept
}
