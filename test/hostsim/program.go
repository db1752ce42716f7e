package hostsim

import "github.com/windowsmachine/operator/pkg/agent/system/fake"

// AgentProgram is wmcb.exe for a modelled machine that has no SSH server in front of it: tests of the agent alone run it in the time of a
// synctest bubble.
func AgentProgram(version string) fake.Program { return agentProgram(version, nil) }
