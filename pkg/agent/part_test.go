package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

func set(name string) plan.Plan {
	return plan.Plan{APIVersion: plan.APIVersion, Env: []plan.EnvVar{{Name: name, Value: "v"}}}
}

func TestCompose(t *testing.T) {
	before := accepted{
		Host: localHost + "https://a", Generation: 7, Digest: plan.Merge(set("A"), set("B")).Digest(),
		Parts: map[string]json.RawMessage{"a": set("A").Encode(), "b": set("B").Encode()},
	}
	operators := accepted{Host: "uid-1", Generation: 3, Digest: set("A").Digest()}
	emptied := accepted{Host: "uid-1", Generation: 3, Digest: plan.Empty().Digest()}
	for _, tc := range []struct {
		name       string
		prev       accepted
		part       Part
		host       string
		generation int64
		env        []string
		parts      int
		err        error
	}{
		{"first", accepted{}, Part{Name: "a", Plan: set("A"), Cluster: "https://a"}, "local:https://a", 1, []string{"A"}, 1, nil},
		{"beside", before, Part{Name: "c", Plan: set("C")}, before.Host, 8, []string{"A", "B", "C"}, 3, nil},
		{"instead", before, Part{Name: "a", Plan: set("X")}, before.Host, 8, []string{"X", "B"}, 2, nil},
		{"the same", before, Part{Name: "a", Plan: set("A")}, before.Host, 7, []string{"A", "B"}, 2, nil},
		{"and drop", before, Part{Name: "a", Plan: set("A"), Drop: []string{"b"}}, before.Host, 8, []string{"A"}, 1, nil},
		{"away", before, Part{Name: "a", Plan: plan.Empty()}, before.Host, 8, []string{"B"}, 1, nil},
		{"another cluster", before, Part{Name: "c", Plan: set("C"), Cluster: "https://b"}, "local:https://b", 8, []string{"C"}, 1, nil},
		{"operator's", operators, Part{Name: "a", Plan: set("A")}, "", 0, nil, 0, ErrHostMismatch},
		{"operator's no more", emptied, Part{Name: "a", Plan: set("A"), Cluster: "https://a"}, "local:https://a", 4, []string{"A"}, 1, nil},
	} {
		got, err := compose(tc.prev, tc.prev.Host != "", tc.part)
		if !errors.Is(err, tc.err) {
			t.Errorf("%s: error %v", tc.name, err)
		}
		var env []string
		for _, e := range got.envelope.Plan.Env {
			env = append(env, e.Name)
		}
		if d := cmp.Diff(tc.env, env); d != "" || got.envelope.Host != tc.host || got.envelope.Generation != tc.generation || len(got.parts) != tc.parts {
			t.Errorf("%s: %s, %+v", tc.name, d, got)
		}
	}
}

func TestPartsAreBounded(t *testing.T) {
	for name, want := range map[string]error{
		strings.Repeat("n", maxPart): nil, strings.Repeat("n", maxPart+1): ErrPlanInvalid, "": ErrPlanInvalid, "a\nb": ErrPlanInvalid, "\u00e4": ErrPlanInvalid,
	} {
		if err := (Part{Name: name}).admit(); !errors.Is(err, want) {
			t.Errorf("%.20q: %v, want %v", name, err, want)
		}
	}
	parts := map[string]json.RawMessage{}
	for i := range maxParts + 1 {
		err := Part{Name: fmt.Sprint(i), Plan: set("A")}.into(parts)
		if full := i >= maxParts; full != errors.Is(err, ErrPlanInvalid) || full != (err != nil) {
			t.Errorf("part %d: %v", i+1, err)
		}
	}
}

// TestPartsOnTheMachine: parts come and go one by one, a preview changes nothing, and a whole plan is refused beside them.
func TestPartsOnTheMachine(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		for _, p := range []Part{{Name: "a", Plan: set("A")}, {Name: "b", Plan: set("B")}} {
			before := r.m.Dump()
			if d, err := r.a.PreviewPart(t.Context(), p); err != nil || len(d) != 1 || d[0].Kind != plan.ChangeAdd {
				t.Errorf("%+v, %v", d, err)
			}
			if d := cmp.Diff(before, r.m.Dump()); d != "" {
				t.Errorf("a preview changed something: %s", d)
			}
			_, err := r.a.AcceptPart(t.Context(), p)
			r.must(err)
			_, err = r.a.Run(t.Context())
			r.must(err)
		}
		parts, whole, err := r.a.Parts()
		if err != nil || whole || len(parts) != 2 {
			t.Errorf("%v, %v, %v", parts, whole, err)
		}
		for _, name := range []string{"A", "B"} {
			if v, _, _ := r.a.sys.Env.Get(name); v != "v" {
				t.Errorf("%s is not set", name)
			}
		}
		_, err = r.a.Accept(t.Context(), plan.Envelope{Host: "uid-1", Generation: 1, Plan: set("C")})
		r.wants(err, ErrHostMismatch)
		if _, err := r.a.AcceptPart(t.Context(), Part{Name: "", Plan: set("C")}); !errors.Is(err, ErrPlanInvalid) {
			t.Errorf("error %v", err)
		}
	})
}
