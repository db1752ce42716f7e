package cni

import (
	"fmt"
	"slices"
	"strings"
)

// Surroundings are what a configuration is checked against.
type Surroundings struct {
	// Programs are the file names in the folder with the plugins.
	Programs []string
	// HCN is whether the runtime is containerd, which gives pods no network through the older HNS.
	HCN bool
	// Containerd is its major version, 0 where it is not known or there is none.
	Containerd int
	// Networks are the HNS networks of the machine, their types by name. NetworkTypes that nobody could ask for are left out.
	Networks map[string]string
}

// Problem is one thing that is wrong with a configuration for a machine.
type Problem struct {
	// Text says what, and the way out.
	Text string
	// Fatal problems leave the pods without a network; the others are worth a word.
	Fatal bool
}

// Check returns everything that speaks against a configuration on a machine, in a fixed order.
func Check(c Config, s Surroundings) []Problem {
	var out []Problem
	for i, p := range c.Plugins {
		out = append(out, checkPlugin(c, p, s, i == 0)...)
	}
	if c.Version == "1.1.0" && s.Containerd == 1 {
		out = append(out, Problem{Text: "cniVersion 1.1.0 is newer than what containerd 1 is tested with; use 1.0.0"})
	}
	return out
}

func checkPlugin(c Config, p Plugin, s Surroundings, main bool) []Problem {
	var out []Problem
	for _, program := range []struct{ name, field string }{{p.Type, "type"}, {p.IPAM, "ipam.type"}, {p.Delegate, "delegate.type"}} {
		if program.name != "" && !s.has(program.name) {
			out = append(out, fatal("%s %q: there is no %s.exe in the folder with the plugins", program.field, program.name, program.name))
		}
	}
	if main {
		out = append(out, checkMain(c, p, s)...)
	}
	return out
}

// checkMain looks at the plugin that makes the pods' endpoints.
func checkMain(c Config, p Plugin, s Surroundings) []Problem {
	var out []Problem
	kind := p.Type
	if p.Delegate != "" {
		kind = p.Delegate
	}
	if p.Type == winOverlay && !p.HasIPAM {
		out = append(out, fatal("plugin %s has no ipam: its pods would get no address", p.Type))
	}
	if s.HCN && p.APIVersion != 2 && (kind == winBridge || kind == winOverlay) {
		out = append(out, fatal("plugin %s has apiVersion %d: with containerd it must be 2, or the pods have no network", kind, p.APIVersion))
	}
	return append(out, checkNetwork(c.Name, kind, s)...)
}

// The plugins that need an HNS network of the configuration's name.
const (
	winBridge  = "win-bridge"
	winOverlay = "win-overlay"
)

// checkNetwork: win-bridge and win-overlay look for the HNS network by the name of the configuration; others make theirs.
func checkNetwork(name, kind string, s Surroundings) []Problem {
	types := map[string][]string{winBridge: {"L2Bridge", "L2Tunnel"}, winOverlay: {"Overlay"}}[kind]
	have, there := s.Networks[name]
	switch {
	case types == nil:
		return nil
	case !there:
		return []Problem{fatal("there is no HNS network %q, which %s looks for; make it first, or give the configuration the name of one that is there", name, kind)}
	case !slices.Contains(types, have):
		return []Problem{fatal("HNS network %q is of type %s, %s needs %s", name, have, kind, strings.Join(types, " or "))}
	}
	return nil
}

func (s Surroundings) has(program string) bool {
	return slices.ContainsFunc(s.Programs, func(name string) bool { return strings.EqualFold(name, program+".exe") })
}

func fatal(format string, args ...any) Problem {
	return Problem{Text: fmt.Sprintf(format, args...), Fatal: true}
}
