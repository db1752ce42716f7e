package host

import (
	"time"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/host"
	"github.com/windowsmachine/operator/pkg/plan"
)

// claim gives a verb that changes what the machine is to be its place among all that were begun for the host. It goes into the status, and the status is
// written with the version that the pass has seen before the verb begins: no two verbs have the same place, and an operator that was asleep, or a
// command that comes late on a connection that was given up, has a lower one, which the machine refuses.
func (p *pass) claim(s *v1alpha1.WindowsHostStatus) {
	if !changes(p.verb) {
		return
	}
	s.Order = nextOrder(s.Order, p.now)
	p.args.Envelope.Order = s.Order
	p.args.Claim = plan.Claim{Host: string(p.host.UID), Order: s.Order}
}

// nextOrder is a hybrid logical clock. It counts what is on record, whatever the clocks of two operators say, and leaps to the time, so that a record
// that was restored from a backup gets ahead of the machine.
func nextOrder(last int64, now time.Time) int64 { return max(last+1, now.UnixMilli()) }

// changes reports whether a verb makes the machine another one. Asking and following do not; what late ones of the others may do stands in
// docs/reliability.md.
func changes(v host.Verb) bool {
	return v == host.VerbStage || v == host.VerbApply || v == host.VerbRemove
}
