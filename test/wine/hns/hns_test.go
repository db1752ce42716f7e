package hns

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const bridge = `{"Name":"windowsmachine","Type":"L2Bridge","Policies":[{"Type":"NetAdapterName","Settings":{"NetworkAdapterName":"eth0"}}]}`

func newService(t *testing.T, o Options) *Service {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func create(t *testing.T, s *Service, function, network, document string) string {
	t.Helper()
	status, id, payload := s.Do(function, "", network, "", document)
	if status != OK {
		t.Fatalf("%s: %08x %s", function, uint32(status), payload)
	}
	return id
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name, function, id, network, document string
		want                                  Status
	}{
		{"members are found in any case, types are not", "CreateNetwork", "", "", `{"NAME":"other","TYPE":"l2bridge"}`, InvalidType},
		{"same network", "CreateNetwork", "", "", bridge, AlreadyExists},
		{"same name in another case", "CreateNetwork", "", "", strings.Replace(bridge, "windowsmachine", "WindowsMachine", 1), AlreadyExists},
		{"unknown type of network", "CreateNetwork", "", "", `{"Name":"other","Type":"L3Bridge"}`, InvalidType},
		{"unknown policy", "CreateNetwork", "", "", `{"Name":"other","Type":"L2Bridge","Policies":[{"Type":"NoSuch"}]}`, InvalidPolicy},
		{"no JSON", "CreateNetwork", "", "", `{`, InvalidJSON},
		{"endpoint of no network", "CreateEndpoint", "", "11111111-0000-0000-0000-000000000000", `{}`, NetworkNotFound},
		{"network that is not there", "OpenNetwork", "11111111-0000-0000-0000-000000000000", "", "", NetworkNotFound},
		{"endpoint that is not there", "DeleteEndpoint", "11111111-0000-0000-0000-000000000000", "", "", EndpointNotFound},
		{"load balancer that is not there", "QueryLoadBalancer", "11111111-0000-0000-0000-000000000000", "", "", NotFound},
		{"unknown function", "ResetNetwork", "", "", "", NotSupported},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService(t, Options{})
			create(t, s, "CreateNetwork", "", bridge)
			status, _, payload := s.Do(tc.function, tc.id, tc.network, "", tc.document)
			if status != tc.want {
				t.Errorf("%08x, want %08x: %s", uint32(status), uint32(tc.want), payload)
			}
			if len(s.Networks()) != 1 {
				t.Errorf("networks %v", s.Networks())
			}
		})
	}
}

// TestNetworkLife is what hcsshim does: create, enumerate by name, open, query, delete.
func TestNetworkLife(t *testing.T) {
	made := 0
	s := newService(t, Options{ManagementIP: "192.0.2.1", NetworkMade: func() { made++ }})
	id := create(t, s, "CreateNetwork", "", bridge)
	endpoint := create(t, s, "CreateEndpoint", id, `{"Name":"e"}`)
	_, _, list := s.Do("EnumerateNetwork", "", "", "", `{"Filter":"{\"Name\":\"windowsmachine\"}"}`)
	if want := `["` + id + `"]`; list != want {
		t.Errorf("enumeration %s, want %s", list, want)
	}
	_, _, list = s.Do("EnumerateNetwork", "", "", "", `{"Filter":"{\"Name\":\"other\"}"}`)
	if list != "[]" {
		t.Errorf("enumeration of another name: %s", list)
	}
	status, opened, _ := s.Do("OpenNetwork", strings.ToLower(id), "", "", "")
	if status != OK || opened != id {
		t.Errorf("open: %08x %s", uint32(status), opened)
	}
	_, _, old := s.Do("HNS:GET", "", "", "/networks/"+id, "")
	var answer struct {
		Success bool
		Output  struct{ Name, ManagementIP string }
	}
	if err := json.Unmarshal([]byte(old), &answer); err != nil || !answer.Success || answer.Output.ManagementIP != "192.0.2.1" {
		t.Errorf("older view %s: %v", old, err)
	}
	if status, _, _ := s.Do("DeleteNetwork", id, "", "", ""); status != OK {
		t.Errorf("delete: %08x", uint32(status))
	}
	if status, _, _ := s.Do("OpenEndpoint", endpoint, "", "", ""); status != EndpointNotFound {
		t.Errorf("the endpoint of a deleted network: %08x", uint32(status))
	}
	if made != 1 {
		t.Errorf("the link dropped %d times, want once", made)
	}
}

func TestJournal(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newService(t, Options{Now: func() time.Time { return at }})
	create(t, s, "CreateNetwork", "", bridge)
	s.Do("HNS:GET", "", "", "/globals/", "")
	s.Do("DeleteNetwork", "absent", "", "", "")
	want := []Call{
		{At: at, Function: "CreateNetwork", Document: bridge},
		{At: at, Function: "HNS:GET", Object: "/globals/"},
		{At: at, Function: "DeleteNetwork", Object: "absent", Status: NetworkNotFound},
	}
	if got := s.Journal(); !slices.Equal(got, want) {
		t.Errorf("journal %+v, want %+v", got, want)
	}
}

// TestBoot: what HNS.data holds is there again, but for what does not outlive a boot.
func TestBoot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "HNS", "HNS.data")
	s := newService(t, Options{State: file})
	create(t, s, "CreateNetwork", "", bridge)
	overlay := create(t, s, "CreateNetwork", "", `{"Name":"overlay","Type":"Overlay","Flags":8}`)
	create(t, s, "CreateEndpoint", overlay, `{}`)
	create(t, s, "CreateLoadBalancer", "", `{}`)
	s = newService(t, Options{State: file})
	if got := s.Networks(); !slices.Equal(got, []string{"windowsmachine", "overlay"}) {
		t.Errorf("networks after the service restarted: %v", got)
	}
	if err := s.Boot(); err != nil {
		t.Fatal(err)
	}
	s = newService(t, Options{State: file})
	if got := s.Networks(); !slices.Equal(got, []string{"windowsmachine"}) {
		t.Errorf("networks after a boot: %v", got)
	}
	for _, kind := range []string{"Endpoint", "LoadBalancer"} {
		if _, _, list := s.Do("Enumerate"+kind, "", "", "", ""); list != "[]" {
			t.Errorf("%s after a boot: %s", kind, list)
		}
	}
}

func TestModify(t *testing.T) {
	s := newService(t, Options{})
	network := create(t, s, "CreateNetwork", "", bridge)
	namespace := create(t, s, "CreateNamespace", "", `{}`)
	endpoint := create(t, s, "CreateEndpoint", network, `{}`)
	field := func(kind, id, name string) any {
		_, _, document := s.Do("Query"+kind, id, "", "", "")
		var o map[string]any
		if err := json.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		return o[name]
	}
	modify := func(kind, id, document string, want Status) {
		t.Helper()
		if status, _, payload := s.Do("Modify"+kind, id, "", "", document); status != want {
			t.Errorf("%s: %08x %s, want %08x", document, uint32(status), payload, uint32(want))
		}
	}
	attach := `{"ResourceType":"Endpoint","RequestType":"%","Settings":{"EndpointId":"` + endpoint + `"}}`
	modify("Namespace", namespace, strings.Replace(attach, "%", "Add", 1), OK)
	if got := field("Endpoint", endpoint, "HostComputeNamespace"); got != namespace {
		t.Errorf("namespace of the endpoint %v", got)
	}
	modify("Namespace", namespace, strings.Replace(attach, "%", "Remove", 1), OK)
	if got := field("Endpoint", endpoint, "HostComputeNamespace"); got != "" {
		t.Errorf("namespace of the endpoint afterwards %v", got)
	}
	policy := `{"ResourceType":"Policy","RequestType":"%","Settings":{"Policies":[{"Type":"HostRoute","Settings":{}}]}}`
	modify("Network", network, strings.Replace(policy, "%", "Add", 1), OK)
	if got := field("Network", network, "Policies").([]any); len(got) != 2 {
		t.Errorf("policies %v", got)
	}
	modify("Network", network, strings.Replace(policy, "%", "Remove", 1), OK)
	if got := field("Network", network, "Policies").([]any); len(got) != 1 {
		t.Errorf("policies afterwards %v", got)
	}
	modify("Network", network, strings.Replace(policy, "%", "Reset", 1), NotSupported)
	modify("Network", network, strings.Replace(strings.Replace(policy, "%", "Add", 1), "HostRoute", "NoSuch", 1), InvalidPolicy)
	modify("Network", network, `{"ResourceType":"Port","RequestType":"Add"}`, NotSupported)
}

// TestLoadBalancers is what kube-proxy does, and what it is refused.
func TestLoadBalancers(t *testing.T) {
	s := newService(t, Options{})
	network := create(t, s, "CreateNetwork", "", bridge)
	endpoint := create(t, s, "CreateEndpoint", network, `{"IpConfigurations":[{"IpAddress":"192.0.2.7"}],"Flags":1}`)
	local := create(t, s, "CreateEndpoint", network, `{"IpConfigurations":[{"IpAddress":"192.0.2.8"}]}`)
	want := []Endpoint{{ID: endpoint, Addresses: []string{"192.0.2.7"}, Remote: true}, {ID: local, Addresses: []string{"192.0.2.8"}}}
	if diff := cmp.Diff(want, s.Endpoints()); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
	document := func(endpoint, vips, port string) string {
		return `{"HostComputeEndpoints":["` + endpoint + `"],"FrontendVIPs":[` + vips + `],"PortMappings":[{"Protocol":6,"InternalPort":8080,"ExternalPort":` + port + `}]}`
	}
	id := create(t, s, "CreateLoadBalancer", "", document(strings.ToLower(endpoint), `"198.51.100.1"`, "80"))
	balancers := []LoadBalancer{{
		ID: id, VIPs: []string{"198.51.100.1"}, Ports: []Port{{Protocol: 6, External: 80, Internal: 8080}}, Endpoints: []string{strings.ToLower(endpoint)},
	}}
	if diff := cmp.Diff(balancers, s.LoadBalancers()); diff != "" {
		t.Errorf("load balancers (-want +got):\n%s", diff)
	}
	for _, tc := range []struct {
		name, document string
		want           Status
	}{
		{"unknown endpoint", document(network, `"198.51.100.2"`, "80"), EndpointNotFound},
		{"front end that is taken", document(endpoint, `"198.51.100.2","198.51.100.1"`, "80"), PortExists},
		{"another port", document(endpoint, `"198.51.100.1"`, "81"), OK},
		{"port of the machine", document(endpoint, ``, "80"), OK},
		{"port of the machine that is taken", document(endpoint, ``, "80"), PortExists},
		{"port that is none", document(endpoint, ``, "70000"), InvalidJSON},
	} {
		if status, _, payload := s.Do("CreateLoadBalancer", "", "", "", tc.document); status != tc.want {
			t.Errorf("%s: %08x %s, want %08x", tc.name, uint32(status), payload, uint32(tc.want))
		}
	}
	if status, _, _ := s.Do("DeleteLoadBalancer", id, "", "", ""); status != OK {
		t.Errorf("delete: %08x", uint32(status))
	}
	create(t, s, "CreateLoadBalancer", "", document(endpoint, `"198.51.100.1"`, "80"))
}
