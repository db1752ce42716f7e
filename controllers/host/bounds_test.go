package host

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/plan"
)

// schema is what of an OpenAPI schema bounds a value.
type schema struct {
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
	MaxLength  *int              `json:"maxLength"`
	MaxItems   *int              `json:"maxItems"`
}

// statusSchema is the schema of a WindowsHost's status, from the CRD that is installed.
func statusSchema(t *testing.T) schema {
	t.Helper()
	text, err := os.ReadFile("../../config/crd/bases/windowsmachine.dev_windowshosts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	s := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	if len(s.Properties) < 5 {
		t.Fatalf("the CRD has no status: %+v", s)
	}
	return s
}

// holds compares a value with its schema and counts the bounds that were looked at.
func (s schema) holds(t *testing.T, at string, v any) int {
	t.Helper()
	looked := 0
	switch v := v.(type) {
	case string:
		if s.MaxLength != nil {
			looked++
			if n := utf8.RuneCountInString(v); n > *s.MaxLength {
				t.Errorf("%s has %d characters, the API server takes %d", at, n, *s.MaxLength)
			}
		}
	case []any:
		if s.MaxItems != nil && len(v) > *s.MaxItems {
			t.Errorf("%s has %d items, the API server takes %d", at, len(v), *s.MaxItems)
		}
		for _, e := range v {
			if s.Items != nil {
				looked += s.Items.holds(t, at+"[]", e)
			}
		}
	case map[string]any:
		for name, e := range v {
			looked += s.Properties[name].holds(t, at+"."+name, e)
		}
	}
	return looked
}

// TestAStatusAlwaysFits: whatever a machine says of itself, the API server takes the status that comes of it. It refuses one with one field
// too long as a whole, and then nobody would see what is wrong.
func TestAStatusAlwaysFits(t *testing.T) {
	long := strings.Repeat("x", plan.MaxDetail)
	lies := plan.Report{
		Phase: plan.PhaseFailed, Step: long, Index: math.MaxInt32, Total: math.MaxInt32, Code: strings.Repeat("C", 64), Detail: long, Seq: 1 << 53,
	}
	machine := func(edit func(*plan.HostFacts)) func(*view) {
		return func(v *view) {
			f := v.snap.Facts
			f.BootID, f.AgentVersion, f.Build, f.UBR = long, long, math.MaxInt32, math.MaxInt32
			edit(f)
		}
	}
	refused := &host.Refusal{Code: strings.Repeat("C", 64), Detail: long}
	s := statusSchema(t)
	for name, v := range map[string]view{
		"facts": aView(connected, machine(func(*plan.HostFacts) {})),
		"name":  aView(connected, machine(func(f *plan.HostFacts) { f.Hostname = long })),
		"bad name, many services": aView(connected, machine(func(f *plan.HostFacts) {
			f.Hostname = strings.Repeat("?", plan.MaxDetail)
			for range plan.MaxItems {
				f.ForeignServices = append(f.ForeignServices, long)
			}
		})),
		"probe":      aView(connected, machine(func(f *plan.HostFacts) { f.API = &plan.ProbeResult{Code: long, Detail: long} })),
		"zone":       aView(connected, machine(func(f *plan.HostFacts) { f.Addresses[0].Prefix = "fe80::1%" + long + "/64" })),
		"refusal":    aView(failed(host.VerbFacts, refused, math.MaxInt32)),
		"report":     aView(connected, machine(func(*plan.HostFacts) {}), named, loaded, recorded(lies)),
		"stage":      aView(connected, machine(func(*plan.HostFacts) {}), named, failed(host.VerbStage, refused, 9)),
		"apply":      aView(connected, machine(func(*plan.HostFacts) {}), named, loaded, failed(host.VerbApply, refused, 9)),
		"generation": aView(connected, named, loaded, func(v *view) { v.snap.Facts.Report.Generation = 1 << 53 }),
	} {
		t.Run(name, func(t *testing.T) {
			status := walk(v).status()
			text, err := json.Marshal(status)
			if err != nil {
				t.Fatal(err)
			}
			var tree map[string]any
			if err := json.Unmarshal(text, &tree); err != nil {
				t.Fatal(err)
			}
			if s.holds(t, "status", tree) == 0 {
				t.Error("no bound was looked at")
			}
			if status.Plan != nil && status.Plan.Generation < 1 {
				t.Errorf("generation %d", status.Plan.Generation)
			}
			for _, c := range status.Conditions {
				if len(c.Message) > v1alpha1.MaxMessage {
					t.Errorf("%s: %d bytes", c.Type, len(c.Message))
				}
			}
		})
	}
	if s.Properties["bootID"].MaxLength == nil || *s.Properties["bootID"].MaxLength != maxBootID {
		t.Error("maxBootID is not the CRD's")
	}
}

// FuzzPin: a line of hostKeys gives a key and no surprise, and what is written on first use is read back as the same key.
func FuzzPin(f *testing.F) {
	f.Add(formatPin(aKey("one")))
	f.Add("ssh-ed25519 AAAA comment with spaces")
	f.Add("from=\"*\" ssh-rsa AAAA")
	f.Fuzz(func(t *testing.T, line string) {
		p, err := parsePin(line)
		if err != nil {
			return
		}
		k := aKey("")
		k.Algorithm, k.Key = p.algorithm, p.key
		again, err := parsePin(formatPin(k))
		if err != nil || again.algorithm != p.algorithm || string(again.key) != string(p.key) {
			t.Errorf("%q is read back as %+v, %v", line, again, err)
		}
		if match([]pin{p}, k) == nil {
			t.Error("a pinned key does not match itself")
		}
		k.Key = append(k.Key, 0)
		if match([]pin{p}, k) != nil {
			t.Error("a longer key matches")
		}
	})
}
