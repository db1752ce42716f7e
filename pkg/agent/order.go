package agent

import (
	"errors"
	"fmt"

	"github.com/windowsmachine/operator/pkg/plan"
)

// inOrder refuses a request with ErrOrderOld when a later one of the same host has changed the machine before: what was under way on a connection that
// was given up comes late, and must not undo what the connection after that has done. The caller holds the lock.
func (a *Agent) inOrder(prev accepted, c plan.Claim) error {
	s, err := a.loadStaged()
	if err != nil {
		return err
	}
	return overtaken(prev, s, c)
}

// loadStaged returns staged.json. One that cannot be read counts as none: the next offer replaces it.
func (a *Agent) loadStaged() (staged, error) {
	var s staged
	if _, err := a.loadJSON(stagedFile, stagedVersion, &s); errors.Is(err, ErrStateInvalid) {
		return staged{}, nil
	} else if err != nil {
		return staged{}, err
	}
	return s, nil
}

// overtaken decides whether a request comes too late. One of the same order is the same request, sent again since its answer was lost. One without an
// order comes from a person or an older operator and is judged by its generation alone.
func overtaken(prev accepted, s staged, c plan.Claim) error {
	if c.Order == 0 {
		return nil
	}
	for _, done := range []plan.Claim{{Host: prev.Host, Order: prev.Order}, {Host: s.Host, Order: s.Order}} {
		if done.Host == c.Host && done.Order > c.Order {
			return fmt.Errorf("%w: order %d, offered %d", ErrOrderOld, done.Order, c.Order)
		}
	}
	return nil
}
