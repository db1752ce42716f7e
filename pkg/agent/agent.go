package agent

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Options make an Agent.
type Options struct {
	System system.System
	// Version of the agent, for reports.
	Version string
	// Timing bounds the waits of steps; zero fields have their defaults.
	Timing step.Timing
	// Random returns a number in [0, 1) that spreads repairs; nil is math/rand.
	Random func() float64
}

// Agent is the engine of one machine. Its methods may be called from several processes at once; within a process they are not
// safe for concurrent use, except for Report and Follow.
type Agent struct {
	sys     system.System
	version string
	timing  step.Timing
	random  func() float64
}

// New returns an Agent; it touches nothing.
func New(o Options) *Agent {
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return &Agent{sys: o.System, version: o.Version, timing: o.Timing, random: o.Random}
}

// Names in plan.AgentRoot.
const (
	planFile    = "plan.json"
	stateFile   = "state.json"
	journalFile = "journal.jsonl"
	journalOld  = "journal.1.jsonl"
	stagedFile  = "staged.json"
	reserveFile = "reserve"
	lockFile    = "lock"
	runLockFile = "run.lock"
	blobsDir    = "blobs"
	newSuffix   = ".new"
)

func rooted(name string) string { return disk.Join(plan.AgentRoot, name) }

// capabilities of this agent.
func capabilities() []string {
	return []string{
		plan.CapabilityBase, plan.CapabilityNetwork, plan.CapabilityRoots, plan.CapabilityExisting, plan.CapabilityHostEndpoint, plan.CapabilityPeers,
	}
}

// lock takes one of the agent's locks; ErrBusy when another process has it.
func (a *Agent) lock(name string) (func() error, error) {
	release, err := a.sys.Files.Lock(rooted(name))
	if errors.Is(err, system.ErrBusy) {
		return nil, fmt.Errorf("%w: %s is locked", ErrBusy, rooted(name))
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", rooted(name), err)
	}
	return release, nil
}
