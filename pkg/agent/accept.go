package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Receipt identifies an acceptance.
type Receipt struct {
	accept int64
	seq    int64
	// Digest of the accepted plan and its Generation.
	Digest     string
	Generation int64
	// Report is what the machine reports right after the acceptance: PhaseRunning.
	Report plan.Report
}

// Accept checks an envelope and stores it: the secrets first, then the plan, each by rename, so that a crash leaves the old plan or
// the new one. The same plan of the same generation is accepted again and refreshes the secrets. It refuses before anything is
// changed when the plan is invalid or too new (ErrPlanInvalid, plan.ErrTooNew), when the fence says no (ErrHostMismatch,
// ErrGenerationOld, ErrGenerationConflict, ErrOrderOld), when blobs or secrets are missing (step.ErrBlobMissing, step.ErrSecretMissing),
// and with ErrBusy while another command writes.
func (a *Agent) Accept(ctx context.Context, e plan.Envelope) (Receipt, error) {
	if err := admit(e); err != nil {
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
	if err := fence(prev, had, e); err != nil {
		return Receipt{}, err
	}
	if err := a.inOrder(prev, e.Claim()); err != nil {
		return Receipt{}, err
	}
	if err := a.complete(prev, e); err != nil {
		return Receipt{}, err
	}
	return a.store(ctx, next(prev, had, e, false), e)
}

// admit checks what can be checked without the machine.
func admit(e plan.Envelope) error {
	if e.Host == "" || e.Generation < 1 {
		return fmt.Errorf("%w: host and generation must be set", ErrPlanInvalid)
	}
	for _, c := range e.Plan.Requires {
		if !slices.Contains(capabilities(), c) {
			return fmt.Errorf("this agent lacks the capability %s: %w", c, plan.ErrTooNew)
		}
	}
	if err := e.Plan.Validate(); err != nil {
		return errors.Join(ErrPlanInvalid, err)
	}
	return nil
}

// fence decides whether an envelope may follow the accepted one.
func fence(prev accepted, had bool, e plan.Envelope) error {
	empty := prev.Digest == plan.Empty().Digest()
	switch {
	case !had:
		return nil
	case e.Host != prev.Host && !e.Adopt && !empty:
		return fmt.Errorf("%w: %s", ErrHostMismatch, prev.Host)
	case e.Host != prev.Host:
		// The generations of two hosts have nothing to do with each other.
		return nil
	case e.Generation < prev.Generation:
		return fmt.Errorf("%w: generation %d, offered %d", ErrGenerationOld, prev.Generation, e.Generation)
	case e.Generation == prev.Generation && e.Plan.Digest() != prev.Digest && !prev.Removed:
		return fmt.Errorf("%w: generation %d", ErrGenerationConflict, e.Generation)
	}
	return nil
}

// next returns the record that follows prev.
func next(prev accepted, had bool, e plan.Envelope, removed bool) accepted {
	r := accepted{
		Accept: prev.Accept + 1, Join: prev.Join, Host: e.Host, Generation: e.Generation, Order: e.Order, Digest: e.Plan.Digest(),
		Removed: removed, Steps: len(e.Plan.Steps()), Plan: e.Plan.Encode(),
	}
	if prev.Host == e.Host {
		// A hand-over without an order leaves the fence where it is.
		r.Order = max(r.Order, prev.Order)
	}
	// A new host that hands over a bootstrap secret joins the machine to a cluster, perhaps another one: it begins clean. A
	// new host without one (the object was made anew for a node that is there) takes the machine as it is.
	if had && prev.Host != e.Host && e.Plan.HasSecret(plan.SecretBootstrap) {
		r.Join = r.Accept
	}
	return r
}

// complete refuses a plan for which something is missing that only the sender has, so that the old plan goes on meanwhile.
func (a *Agent) complete(prev accepted, e plan.Envelope) error {
	var errs []error
	for _, d := range e.Plan.Blobs() {
		there, err := disk.Exists(a.sys.Files, step.BlobPath(plan.AgentRoot, d))
		if err == nil && !there {
			err = fmt.Errorf("blob %s: %w", d, step.ErrBlobMissing)
		}
		errs = append(errs, err)
	}
	waiting, err := a.loadPending(prev.Accept)
	errs = append(errs, err)
	for _, s := range e.Plan.Secrets {
		_, sent := e.Secrets[s.Name]
		_, waits := waiting[s.Name]
		if sent || waits {
			continue
		}
		if _, err := a.sys.Files.Stat(s.Path); errors.Is(err, system.ErrNotExist) {
			errs = append(errs, fmt.Errorf("secret %s: %w", s.Name, step.ErrSecretMissing))
		}
	}
	return errors.Join(errs...)
}

// store writes secrets, then the plan.
func (a *Agent) store(ctx context.Context, r accepted, e plan.Envelope) (Receipt, error) {
	st, err := a.loadState()
	if err != nil {
		return Receipt{}, err
	}
	// plan.json may have been lost while state.json was not.
	r.Accept = max(r.Accept, st.Accept+1)
	if err := a.storePending(ctx, r.Accept, e.Plan, e.Secrets); err != nil {
		return Receipt{}, err
	}
	if err := a.saveAccepted(ctx, r); err != nil {
		return Receipt{}, err
	}
	entries, err := readJournal(a.sys.Files)
	if err != nil {
		return Receipt{}, err
	}
	rep, err := a.Report()
	return Receipt{accept: r.Accept, seq: lastSeq(entries), Digest: r.Digest, Generation: r.Generation, Report: rep}, err
}
