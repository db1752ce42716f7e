package windows

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/golden"
	"github.com/windowsmachine/operator/test/sources"
)

var _ = flag.Bool("update", false, "write the files in testdata/requests")

// planned are the networks of a golden of pkg/planner, so that the two goldens together lead from a cluster to the requests.
func planned(t *testing.T, mode string) []plan.Network {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "planner", "testdata", "networks", mode+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Networks []plan.Network `json:"networks"`
	}
	if err := json.Unmarshal(b, &doc); err != nil || len(doc.Networks) == 0 {
		t.Fatalf("%s: %v, %d networks", mode, err, len(doc.Networks))
	}
	return doc.Networks
}

// requests are all documents that HNS gets for a network, by the call that takes them.
func requests(t *testing.T, n plan.Network) map[string]any {
	t.Helper()
	create, err := networkDocument(n, "Ethernet")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{"HcnCreateNetwork": json.RawMessage(create)}
	if n.HostEndpoint != nil {
		e, err := endpointDocument("00000000-0000-0000-0000-000000000001", *n.HostEndpoint)
		if err != nil {
			t.Fatal(err)
		}
		out["POST /endpoints/"] = json.RawMessage(e)
	}
	var policies []hcnPolicy
	if n.Type == plan.NetworkOverlay {
		policies = append(policies, hcnPolicy{Type: policyHostRoute, Settings: json.RawMessage(`{}`)})
	}
	for _, r := range n.Remotes {
		policies = append(policies, remotePolicy(r))
	}
	if len(policies) > 0 {
		out["HcnModifyNetwork"] = policies
	}
	return out
}

// TestRequestGoldens compares what HNS is asked for in each mode with a file, and has a source for every field of it.
func TestRequestGoldens(t *testing.T) {
	lines, err := sources.Read(filepath.Join("testdata", "requests", "sources.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for _, mode := range []string{"l2bridge", "l2bridge-sdnbridge", "l2bridge-dsr", "overlay", "flannelvxlan", "flannelhostgw"} {
		got, err := json.MarshalIndent(requests(t, planned(t, mode)[0]), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		path := filepath.Join("testdata", "requests", mode+".json")
		golden.Equal(t, path, got)
		of, err := sources.Fields(got)
		if err != nil {
			t.Fatal(err)
		}
		fields = append(fields, of...)
	}
	missing, unused := sources.Compare(lines, fields)
	if len(missing)+len(unused) > 0 {
		t.Errorf("fields without a source: %q; sources of no field: %q", missing, unused)
	}
}

func TestRemotePolicies(t *testing.T) {
	want := plan.RemoteSubnet{Prefix: "10.244.0.0/24", ProviderAddress: "192.0.2.20", MAC: "0a:00:00:00:00:0f", VSID: 70000}
	p := remotePolicy(want)
	got, ok := remoteFrom(p)
	if !ok || got != want {
		t.Errorf("got %+v, %t", got, ok)
	}
	// HNS gives hardware addresses in either form.
	p.Settings = bytes.ReplaceAll(p.Settings, []byte("0A-00-00-00-00-0F"), []byte("0a:00:00:00:00:0f"))
	if got, ok = remoteFrom(p); !ok || got != want {
		t.Errorf("got %+v, %t", got, ok)
	}
	for name, p := range map[string]hcnPolicy{
		"another type": {Type: policyVSID, Settings: p.Settings},
		"no settings":  {Type: policyRemoteSubnet},
		"no document":  {Type: policyRemoteSubnet, Settings: json.RawMessage(`[]`)},
	} {
		if got, ok := remoteFrom(p); ok {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestDRMAC(t *testing.T) {
	for settings, want := range map[string]string{
		`{"Address":"00-15-5D-AB-CD-EF"}`: "00:15:5d:ab:cd:ef",
		`{"Address":"00:15:5d:ab:cd:ef"}`: "00:15:5d:ab:cd:ef",
		`{"Address":""}`:                  "",
		`{}`:                              "",
		`1`:                               "",
	} {
		if got := drMAC([]hcnPolicy{{Type: policyVSID}, {Type: policyDRMAC, Settings: json.RawMessage(settings)}}); got != want {
			t.Errorf("%s: got %q", settings, got)
		}
	}
	if got := drMAC(nil); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestEndpointDocumentRefuses(t *testing.T) {
	if _, err := endpointDocument("x", plan.HostEndpoint{Name: "e", Address: "10.244.1"}); err == nil {
		t.Error("half an address is one")
	}
}

func TestEndpointAttached(t *testing.T) {
	for state, want := range []bool{false, false, true, true, false, false, false} {
		if got := endpointAttached(uint16(state)); got != want {
			t.Errorf("state %d: got %t", state, got)
		}
	}
}
