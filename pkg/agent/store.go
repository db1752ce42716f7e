package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Versions of the agent's own files.
const (
	acceptedVersion = "accepted.windowsmachine.dev/v1"
	stateVersion    = "state.windowsmachine.dev/v1"
)

// maxOwnFile bounds plan.json and state.json, in bytes.
const maxOwnFile = 8 << 20

// accepted is plan.json: the last accepted envelope without its secrets.
type accepted struct {
	APIVersion string `json:"apiVersion"`
	// Accept counts acceptances; a refresh of secrets counts too.
	Accept int64 `json:"accept"`
	// Join is the Accept at which the machine was taken over by a host that bootstraps it anew; what the agent made for the
	// host before is taken back first.
	Join       int64  `json:"join,omitempty"`
	Host       string `json:"host"`
	Generation int64  `json:"generation"`
	// Order is the highest of the host's requests that were accepted, 0 when none had one.
	Order  int64  `json:"order,omitempty"`
	Digest string `json:"digest"`
	// Removed is whether the empty plan came from `wmcb remove` on the machine, which has no generation of its own.
	Removed bool `json:"removed,omitempty"`
	// Steps counts the steps of the plan.
	Steps int `json:"steps"`
	// Plan is the plan in the version in which it came.
	Plan json.RawMessage `json:"plan"`
	// Parts are the plans that Plan is merged of, by the name of who owns them; nil when it came whole.
	Parts map[string]json.RawMessage `json:"parts,omitempty"`
}

// plan parses the accepted plan; an agent that is older than the plan answers plan.ErrTooNew.
func (r accepted) plan() (plan.Plan, error) {
	p, err := plan.Parse(r.Plan)
	if err != nil {
		return plan.Plan{}, fmt.Errorf("reading the accepted plan: %w", err)
	}
	return p, nil
}

// state is state.json.
type state struct {
	APIVersion string `json:"apiVersion"`
	// Accept is the newest acceptance that the engine has taken up, Joined the newest Join that it has cleaned up for.
	Accept int64 `json:"accept,omitempty"`
	Joined int64 `json:"joined,omitempty"`
	// Synced is the digest of the plan that the machine was last in sync with, Blobs its blobs, Previous those of the one before.
	Synced   string   `json:"synced,omitempty"`
	Blobs    []string `json:"blobs,omitempty"`
	Previous []string `json:"previous,omitempty"`
	// Inventory is what the agent owns.
	Inventory step.Inventory `json:"inventory,omitempty"`
	// DRMAC is the address of the distributed router of the plan's Overlay network, "" without one.
	DRMAC string `json:"drMAC,omitempty"`
}

// loadAccepted returns plan.json, and false when there is none.
func (a *Agent) loadAccepted() (accepted, bool, error) {
	var r accepted
	ok, err := a.loadJSON(planFile, acceptedVersion, &r)
	return r, ok, err
}

func (a *Agent) saveAccepted(ctx context.Context, r accepted) error {
	r.APIVersion = acceptedVersion
	return a.saveJSON(ctx, planFile, r)
}

// loadState returns state.json, or the state of a machine that has none.
func (a *Agent) loadState() (state, error) {
	var s state
	_, err := a.loadJSON(stateFile, stateVersion, &s)
	return s, err
}

func (a *Agent) saveState(s state) error {
	s.APIVersion = stateVersion
	// The write is short and must not be torn by a stopping agent.
	return a.saveJSON(context.Background(), stateFile, s)
}

// versioned is a file of the agent's with its version.
type versioned interface{ version() string }

func (r *accepted) version() string { return r.APIVersion }
func (s *state) version() string    { return s.APIVersion }
func (s *staged) version() string   { return s.APIVersion }

func (a *Agent) loadJSON(name, version string, into versioned) (bool, error) {
	b, err := disk.Read(a.sys.Files, rooted(name), maxOwnFile)
	if errors.Is(err, system.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrStateInvalid, err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return false, fmt.Errorf("%w: %s: %w", ErrStateInvalid, rooted(name), err)
	}
	if into.version() != version {
		return false, fmt.Errorf("%w: %s has version %q", ErrStateInvalid, rooted(name), into.version())
	}
	return true, nil
}

// maxHead is more than saveAccepted writes before the plan, in bytes.
const maxHead = 1 << 10

// currentAccept returns accepted.Accept from the beginning of plan.json, 0 when there is none. It is asked every few seconds and
// between steps, and a plan may be megabytes.
func (a *Agent) currentAccept() (int64, error) {
	f, err := a.sys.Files.Open(rooted(planFile))
	if errors.Is(err, system.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("opening %s: %w", rooted(planFile), err)
	}
	defer f.Close()
	d := json.NewDecoder(io.LimitReader(f, maxHead))
	d.UseNumber()
	for key := false; ; {
		t, err := d.Token()
		if err != nil {
			return 0, fmt.Errorf("%w: %s: %w", ErrStateInvalid, rooted(planFile), err)
		}
		if n, ok := t.(json.Number); ok && key {
			return n.Int64()
		}
		key = t == "accept"
	}
}

// saveJSON replaces a file of the agent in one step.
func (a *Agent) saveJSON(ctx context.Context, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	write := func() error {
		return disk.Write(ctx, a.sys.Files, rooted(name+newSuffix), plan.AccessSecret, bytes.NewReader(b), "")
	}
	if err := a.withReserve(write); err != nil {
		return err
	}
	if err := a.sys.Files.Rename(rooted(name+newSuffix), rooted(name)); err != nil {
		return fmt.Errorf("replacing %s: %w", rooted(name), err)
	}
	return nil
}

// reserveSize is what the reserve holds, in bytes: room for a state file and some journal lines.
const reserveSize = 256 << 10

// fillReserve makes the reserve unless it is there. A disk too full for it has none.
func (a *Agent) fillReserve(ctx context.Context) {
	if there, err := disk.Exists(a.sys.Files, rooted(reserveFile)); err != nil || there {
		return
	}
	_ = disk.Write(ctx, a.sys.Files, rooted(reserveFile), plan.AccessSecret, bytes.NewReader(make([]byte, reserveSize)), "")
}

// withReserve does a write, and does it again without the reserve when the disk is full: a full disk must be reported.
func (a *Agent) withReserve(write func() error) error {
	err := write()
	if !errors.Is(err, system.ErrDiskFull) {
		return err
	}
	if rerr := a.sys.Files.Remove(rooted(reserveFile)); rerr != nil {
		return err
	}
	return write()
}
