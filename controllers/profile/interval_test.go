package profile

import (
	"testing"

	"github.com/windowsmachine/operator/pkg/facts"
)

// TestLooksMoreOftenWhileFactsAreMissing: nobody tells the operator that a MachineConfig was mended.
func TestLooksMoreOftenWhileFactsAreMissing(t *testing.T) {
	whole := again(facts.Discovered{Problems: []facts.Problem{{Message: "two sources disagree"}}})
	missing := again(facts.Discovered{Problems: []facts.Problem{{Message: "no ignition", Fatal: true}}})
	if whole != every || missing >= whole {
		t.Errorf("every %s, and every %s while a fact is missing", whole, missing)
	}
}
