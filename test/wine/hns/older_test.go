package hns

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// old calls the older interface and returns what it answers.
func old(t *testing.T, s *Service, method, path, document string) (success bool, out map[string]any) {
	t.Helper()
	_, _, payload := s.Do("HNS:"+method, "", "", path, document)
	var a struct {
		Success bool
		Output  json.RawMessage
	}
	if err := json.Unmarshal([]byte(payload), &a); err != nil {
		t.Fatalf("%s %s: %s: %v", method, path, payload, err)
	}
	_ = json.Unmarshal(a.Output, &out) // Lists have no members.
	return a.Success, out
}

// TestHostEndpoint is what an agent does for the host's own endpoint, and what HNS does when the machine restarts.
func TestHostEndpoint(t *testing.T) {
	var addresses []string
	s := newService(t, Options{HostAddress: func(a string, there bool) {
		addresses = append(addresses, map[bool]string{true: "+", false: "-"}[there]+a)
	}})
	network := create(t, s, "CreateNetwork", "", bridge)
	const host = `{"SystemType":"Host","CompartmentId":1}`
	for range 2 {
		ok, made := old(t, s, "POST", "/endpoints/", `{"Name":"cbr0_ep","VirtualNetwork":"`+strings.ToLower(network)+`","IPAddress":"10.244.1.2","GatewayAddress":"0.0.0.0"}`)
		if !ok || made["State"] != 1.0 {
			t.Fatalf("%t %v", ok, made)
		}
		id, _ := made["ID"].(string)
		if ok, _ := old(t, s, "POST", "/endpoints/", `{"Name":"pod","VirtualNetwork":"`+network+`","IPAddress":"10.244.1.2"}`); ok {
			t.Error("two endpoints with one address")
		}
		if ok, _ := old(t, s, "POST", "/endpoints/"+id+"/attach", host); !ok {
			t.Error("it does not attach")
		}
		if ok, _ := old(t, s, "POST", "/endpoints/"+id+"/attach", host); ok {
			t.Error("it attaches twice")
		}
		ok, got := old(t, s, "GET", "/endpoints/"+id, "")
		want := map[string]any{"ID": id, "Name": "cbr0_ep", "VirtualNetwork": network, "IPAddress": "10.244.1.2", "State": 2.0}
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Error(diff)
		}
		if err := s.Boot(); err != nil {
			t.Fatal(err)
		}
		if ok, _ := old(t, s, "GET", "/endpoints/"+id, ""); ok || len(s.Networks()) != 1 {
			t.Errorf("after a boot: endpoint %t, networks %v", ok, s.Networks())
		}
	}
	if diff := cmp.Diff([]string{"+10.244.1.2", "-10.244.1.2", "+10.244.1.2", "-10.244.1.2"}, addresses); diff != "" {
		t.Error(diff)
	}
}

func TestOlderRefusals(t *testing.T) {
	s := newService(t, Options{})
	network := create(t, s, "CreateNetwork", "", bridge)
	_, made := old(t, s, "POST", "/endpoints/", `{"Name":"e","VirtualNetwork":"`+network+`","IPAddress":"10.244.1.2"}`)
	id, _ := made["ID"].(string)
	for name, c := range map[string][3]string{
		"no JSON":          {"POST", "/endpoints/", `{`},
		"no network":       {"POST", "/endpoints/", `{"Name":"x","VirtualNetwork":"1","IPAddress":"10.244.1.9"}`},
		"unknown endpoint": {"DELETE", "/endpoints/1", ``},
		"a container":      {"POST", "/endpoints/" + id + "/attach", `{"SystemType":"Container","CompartmentId":1}`},
		"a compartment":    {"POST", "/endpoints/" + id + "/attach", `{"SystemType":"Host","CompartmentId":2}`},
		"no document":      {"POST", "/endpoints/" + id + "/attach", ``},
		"an update":        {"POST", "/endpoints/" + id, `{}`},
		"a new network":    {"POST", "/networks/", `{}`},
	} {
		if ok, out := old(t, s, c[0], c[1], c[2]); ok {
			t.Errorf("%s: %v", name, out)
		}
	}
	if ok, _ := old(t, s, "DELETE", "/endpoints/"+strings.ToLower(id), ""); !ok {
		t.Error("it does not go")
	}
}

// TestOverlayHasARouter whose address is told in a policy.
func TestOverlayHasARouter(t *testing.T) {
	s := newService(t, Options{})
	id := create(t, s, "CreateNetwork", "", `{"Name":"flannel.4096","Type":"Overlay","Flags":8}`)
	if _, _, got := s.Do("QueryNetwork", id, "", "", ""); !strings.Contains(got, `"DrMacAddress"`) || !strings.Contains(got, "00-15-5D-FF-00-01") {
		t.Errorf("got %s", got)
	}
}
