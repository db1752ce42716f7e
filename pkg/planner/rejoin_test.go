package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/plan"
)

// TestRejoinAddsTheCredentialOnly: a machine that asks for a certificate anew keeps its pod network.
func TestRejoinAddsTheCredentialOnly(t *testing.T) {
	node := facts.Node{Registered: true, UID: "n", PodCIDR: "10.244.1.0/24"}
	build := func(n facts.Node) plan.Plan {
		t.Helper()
		return mustBuild(t, n, testOptions(ModeL2Bridge))
	}
	joined := build(node)
	node.Rejoin = true
	again := build(node)
	if len(joined.Secrets) != 0 || len(again.Secrets) != 1 {
		t.Errorf("%d places for secrets before and %d after, want 0 and 1", len(joined.Secrets), len(again.Secrets))
	}
	if d := cmp.Diff(joined, again, cmpopts.IgnoreFields(plan.Plan{}, "Secrets")); d != "" {
		t.Errorf("more than the credential changed: %s", d)
	}
}
