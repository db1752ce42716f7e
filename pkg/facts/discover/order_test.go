package discover

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
)

func TestMissingRightsLeadWhereAFactIsMissing(t *testing.T) {
	disagree := facts.Problem{Reason: v1alpha1.ReasonFactsDisagree}
	missing := facts.Problem{Reason: v1alpha1.ReasonFactsMissing, Fatal: true}
	forbidden := facts.Problem{Reason: v1alpha1.ReasonFactsForbidden}
	stops := forbidden
	stops.Fatal = true
	for name, c := range map[string]struct{ in, want []facts.Problem }{
		"a fact is missing": {[]facts.Problem{disagree, missing, forbidden}, []facts.Problem{stops, missing, disagree}},
		"none is":           {[]facts.Problem{disagree, forbidden}, []facts.Problem{disagree, forbidden}},
		"nothing":           {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, order(c.in)); d != "" {
				t.Error(d)
			}
		})
	}
}
