package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Part is a share of the accepted plan that one command owns. What other commands own stays when it changes.
type Part struct {
	// Name of the share.
	Name string
	// Plan of the share; the empty plan takes it away.
	Plan plan.Plan
	// Drop names other shares that are taken away with the same acceptance.
	Drop []string
	// Secrets is the content of Plan.Secrets by name.
	Secrets map[string][]byte
	// Cluster identifies the cluster that the machine joins, in printable ASCII; "" keeps the one that it belongs to. A machine that
	// changes the cluster begins clean: everything that was made for the former one is taken back first.
	Cluster string
}

// localHost begins the name of a machine that is configured by commands on it. The operator's names are UIDs.
const localHost = "local:"

// maxPart bounds a part's name, maxParts their number.
const (
	maxPart  = 64
	maxParts = 16
)

// AcceptPart puts a part into the accepted plan, as Accept does with a whole one. ErrHostMismatch when the machine has a plan that did not come
// in parts: the operator's, or one that was handed over whole.
func (a *Agent) AcceptPart(ctx context.Context, p Part) (Receipt, error) {
	if err := p.admit(); err != nil {
		return Receipt{}, err
	}
	if err := a.secureRoot(ctx); err != nil {
		return Receipt{}, err
	}
	release, err := a.lock(lockFile)
	if err != nil {
		return Receipt{}, err
	}
	defer func() { _ = release() }()
	prev, had, err := a.loadAccepted()
	if err != nil {
		return Receipt{}, err
	}
	c, err := compose(prev, had, p)
	if err != nil {
		return Receipt{}, err
	}
	if err := admit(c.envelope); err != nil {
		return Receipt{}, err
	}
	if err := a.complete(prev, c.envelope); err != nil {
		return Receipt{}, err
	}
	r := next(prev, had, c.envelope, false)
	r.Parts = c.parts
	return a.store(ctx, r, c.envelope)
}

func (p Part) admit() error {
	if p.Name == "" || len(p.Name) > maxPart || strings.ContainsFunc(p.Name+p.Cluster, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		return fmt.Errorf("%w: a part's name is 1 to %d printable ASCII characters", ErrPlanInvalid, maxPart)
	}
	return nil
}

// composed is what the parts of a machine come to.
type composed struct {
	envelope plan.Envelope
	parts    map[string]json.RawMessage
}

// compose puts a part among those that are there. The generation grows when the plan changes.
func compose(prev accepted, had bool, p Part) (composed, error) {
	free := !had || prev.Digest == plan.Empty().Digest()
	if !free && !prev.inParts() {
		return composed{}, fmt.Errorf("%w: %s; delete its WindowsHost object, or run 'wmcb remove'", ErrHostMismatch, prev.Host)
	}
	host := p.host(prev)
	parts := map[string]json.RawMessage{}
	if host == prev.Host && !free {
		maps.Copy(parts, prev.Parts)
	}
	if err := p.into(parts); err != nil {
		return composed{}, err
	}
	merged, err := mergeParts(parts)
	if err != nil {
		return composed{}, err
	}
	e := plan.Envelope{APIVersion: plan.EnvelopeVersion, Host: host, Generation: prev.Generation, Plan: merged, Secrets: p.Secrets}
	if !had || e.Plan.Digest() != prev.Digest || host != prev.Host {
		e.Generation++
	}
	return composed{e, parts}, nil
}

// inParts: the plan came from commands on the machine.
func (r accepted) inParts() bool { return r.Parts != nil && strings.HasPrefix(r.Host, localHost) }

// host names the machine by the cluster that it joins.
func (p Part) host(prev accepted) string {
	if p.Cluster == "" && strings.HasPrefix(prev.Host, localHost) {
		return prev.Host
	}
	return localHost + p.Cluster
}

// into puts the part in its place, and takes away those that it drops.
func (p Part) into(parts map[string]json.RawMessage) error {
	for _, name := range append([]string{p.Name}, p.Drop...) {
		delete(parts, name)
	}
	if p.Plan.Digest() != plan.Empty().Digest() {
		parts[p.Name] = p.Plan.Encode()
	}
	if len(parts) > maxParts {
		return fmt.Errorf("%w: %d parts, at most %d", ErrPlanInvalid, len(parts), maxParts)
	}
	return nil
}

// mergeParts merges in the order of names.
func mergeParts(parts map[string]json.RawMessage) (plan.Plan, error) {
	var plans []plan.Plan
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		p, err := plan.Parse(parts[name])
		if err != nil {
			return plan.Plan{}, fmt.Errorf("reading part %s of the accepted plan: %w", name, err)
		}
		plans = append(plans, p)
	}
	return plan.Merge(plans...), nil
}

// Parts returns the parts of the accepted plan, none when it came whole, and whether there is one that did.
func (a *Agent) Parts() (parts map[string]plan.Plan, whole bool, err error) {
	rec, had, err := a.known()
	if err != nil || !had || rec.Digest == plan.Empty().Digest() {
		return nil, false, err
	}
	if rec.Parts == nil {
		return nil, true, nil
	}
	parts = map[string]plan.Plan{}
	for name, b := range rec.Parts {
		if parts[name], err = plan.Parse(b); err != nil {
			return nil, false, fmt.Errorf("reading part %s of the accepted plan: %w", name, err)
		}
	}
	return parts, false, nil
}

// known is the accepted plan of a folder that nobody else could write into.
func (a *Agent) known() (accepted, bool, error) {
	if ok, err := a.trusted(); err != nil || !ok {
		return accepted{}, false, err
	}
	return a.loadAccepted()
}

// errDry is what a step would do if it tried to record something while it is only looked at.
var errDry = errors.New("nothing may be changed")

// PreviewPart says what AcceptPart and the run behind it would do to the machine, and changes nothing.
func (a *Agent) PreviewPart(ctx context.Context, p Part) ([]step.Difference, error) {
	if err := p.admit(); err != nil {
		return nil, err
	}
	prev, had, err := a.known()
	if err != nil {
		return nil, err
	}
	c, err := compose(prev, had, p)
	if err != nil {
		return nil, err
	}
	if err := admit(c.envelope); err != nil {
		return nil, err
	}
	return a.preview(ctx, next(prev, had, c.envelope, false), c.envelope)
}

// Preview says what Accept and the run behind it would do to the machine, and changes nothing.
func (a *Agent) Preview(ctx context.Context, e plan.Envelope) ([]step.Difference, error) {
	if err := admit(e); err != nil {
		return nil, err
	}
	prev, had, err := a.known()
	if err != nil {
		return nil, err
	}
	if err := fence(prev, had, e); err != nil {
		return nil, err
	}
	if err := a.inOrder(prev, e.Claim()); err != nil {
		return nil, err
	}
	return a.preview(ctx, next(prev, had, e, false), e)
}

// preview compares. A machine that joins another cluster loses everything first, so the comparison is that of a machine that owns what it
// owns and wants nothing of it.
func (a *Agent) preview(ctx context.Context, rec accepted, e plan.Envelope) ([]step.Difference, error) {
	var st state
	ok, err := a.trusted()
	if err == nil && ok {
		st, err = a.loadState()
	}
	if err != nil {
		return nil, err
	}
	ledger := step.NewLedger(st.Inventory, func(step.Inventory) error { return errDry })
	opts := step.Options{Root: plan.AgentRoot, Secrets: e.Secrets, Timing: a.timing}
	var out []step.Difference
	if rec.Join != st.Joined {
		out, err = step.Differences(ctx, plan.Empty(), ledger, a.sys, opts)
		if err != nil {
			return nil, err
		}
		ledger = step.NewLedger(nil, func(step.Inventory) error { return errDry })
	}
	more, err := step.Differences(ctx, e.Plan, ledger, a.sys, opts)
	return append(out, more...), err
}
