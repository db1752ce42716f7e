package step

import (
	"cmp"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// ConfigDrift says in what have differs from want, "" when they are equal. Nil and empty lists are equal, the order of dependencies and
// variables and the case of names and paths do not count, and an empty display name is the name, as Windows fills it in.
func ConfigDrift(have, want system.ServiceConfig) string {
	have, want = normal(have), normal(want)
	switch {
	case have.Altered:
		return "does not start by itself as LocalSystem"
	case !disk.Same(have.Exe, want.Exe):
		return "has another executable"
	case !slices.Equal(have.Args, want.Args):
		return "has other arguments"
	case !slices.EqualFunc(have.DependsOn, want.DependsOn, strings.EqualFold):
		return "has other dependencies"
	case !slices.Equal(have.Env, want.Env):
		return "has another environment"
	case have.DisplayName != want.DisplayName || have.Description != want.Description:
		return "has another description"
	case !sameRecovery(have.Recovery, want.Recovery):
		return "has other recovery actions"
	}
	return ""
}

// normal returns c in the form in which equal configurations are equal values.
func normal(c system.ServiceConfig) system.ServiceConfig {
	c.Name = strings.ToLower(c.Name)
	if strings.EqualFold(c.DisplayName, c.Name) {
		c.DisplayName = ""
	}
	c.DependsOn = slices.SortedFunc(slices.Values(c.DependsOn), func(a, b string) int {
		return cmp.Compare(strings.ToLower(a), strings.ToLower(b))
	})
	c.Env = slices.SortedStableFunc(slices.Values(c.Env), func(a, b plan.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
	if c.Recovery != nil && len(c.Recovery.RestartDelaySeconds) == 0 {
		c.Recovery = nil
	}
	return c
}

func sameRecovery(a, b *plan.Recovery) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ResetSeconds == b.ResetSeconds && slices.Equal(a.RestartDelaySeconds, b.RestartDelaySeconds)
}

// mentions reports whether one of the arguments holds path.
func mentions(args []string, path string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return strings.Contains(strings.ToLower(a), disk.Key(path)) })
}
