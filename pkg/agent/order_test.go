package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/system/fake"
	"github.com/windowsmachine/operator/pkg/plan"
)

func TestOvertaken(t *testing.T) {
	ours := func(order int64) plan.Claim { return plan.Claim{Host: "host-1", Order: order} }
	for _, tc := range []struct {
		name   string
		prev   accepted
		staged staged
		claim  plan.Claim
		want   error
	}{
		{"the first of all", accepted{}, staged{}, ours(1), nil},
		{"the next", accepted{Host: "host-1", Order: 5}, staged{Host: "host-1", Order: 4}, ours(6), nil},
		{"the same once more", accepted{Host: "host-1", Order: 5}, staged{Host: "host-1", Order: 4}, ours(5), nil},
		{"behind a plan", accepted{Host: "host-1", Order: 5}, staged{Host: "host-1", Order: 3}, ours(4), ErrOrderOld},
		{"behind an offer", accepted{Host: "host-1", Order: 3}, staged{Host: "host-1", Order: 5}, ours(4), ErrOrderOld},
		{"behind an offer, no plan yet", accepted{}, staged{Host: "host-1", Order: 5}, ours(4), ErrOrderOld},
		{"far behind", accepted{Host: "host-1", Order: 1796083200000}, staged{}, ours(1), ErrOrderOld},
		{"without an order", accepted{Host: "host-1", Order: 5}, staged{Host: "host-1", Order: 5}, ours(0), nil},
		{"of a person", accepted{Host: "host-1", Order: 5}, staged{Host: "host-1", Order: 5}, plan.Claim{}, nil},
		{"after an older operator", accepted{Host: "host-1"}, staged{}, ours(1), nil},
		{"the order of another host", accepted{Host: "host-2", Order: 5}, staged{Host: "host-2", Order: 5}, ours(1), nil},
		{"an offer of another host", accepted{Host: "host-1", Order: 3}, staged{Host: "host-2", Order: 5}, ours(4), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := overtaken(tc.prev, tc.staged, tc.claim); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}

// ordered is an envelope of the first generation with an order and a ticket.
func ordered(order int64, p plan.Plan, secret string) plan.Envelope {
	e := envelope(1, p, map[string][]byte{"bootstrap-kubeconfig": []byte(secret)})
	e.Order = order
	return e
}

func (r *rig) secret() string {
	r.t.Helper()
	b, err := r.m.ReadFile(`C:\k\bootstrap-kubeconfig`)
	r.must(err)
	return string(b)
}

// late wants a request refused as one that comes too late, with the machine as it was.
func (r *rig) late(request func() error) {
	r.t.Helper()
	before := r.m.Dump()
	err := request()
	r.wants(err, ErrOrderOld)
	if got := CodeOf(err); got != CodeOrderOld {
		r.t.Errorf("code %s", got)
	}
	r.same(before, r.m.Dump())
}

// TestLateHandOver: a command that was under way on a connection which was given up hands the very same plan over after the next connection has. The
// bootstrap credential stays the newer one.
func TestLateHandOver(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		p := r.node()
		r.applied(ordered(8, p, "newer"), plan.PhaseInSync)
		late := ordered(7, p, "older")
		accept := func(e plan.Envelope) error {
			_, err := r.a.Accept(t.Context(), e)
			return err
		}
		r.late(func() error { return accept(late) })
		_, err := r.a.Preview(t.Context(), late)
		r.wants(err, ErrOrderOld)
		if got := r.secret(); got != "newer" {
			t.Errorf("the machine has the %s ticket", got)
		}
		// Its answer was lost, and it was sent again.
		r.applied(ordered(8, p, "newer"), plan.PhaseInSync)
		// By hand: nothing fences it, and it opens the fence to nobody.
		r.applied(ordered(0, p, "by hand"), plan.PhaseInSync)
		if got := r.secret(); got != "by hand" {
			t.Errorf("the machine has the %s ticket", got)
		}
		r.late(func() error { return accept(late) })
		r.late(func() error {
			next := late
			next.Generation = 2
			return accept(next)
		})
		// Another host's orders have nothing to do with this one's.
		other := ordered(1, p, "of another")
		other.Host, other.Adopt = "host-2", true
		r.applied(other, plan.PhaseInSync)
		if got := r.secret(); got != "of another" {
			t.Errorf("the machine has the %s ticket", got)
		}
	})
}

// TestLateOffer: blobs that come late are not taken in, since what is kept for the newer plan would be forgotten for them; and a plan that was overtaken
// by an offer is not accepted.
func TestLateOffer(t *testing.T) {
	s := newSender(t, "MZ one", "MZ two")
	offer := func(r *rig, order int64) error {
		s.offer.Host, s.offer.Order = "host-1", order
		_, res, err := r.receive(s.stream(r.t, s.digests()))
		if res.Code != CodeOf(err) {
			r.t.Errorf("answered %q for %v", res.Code, err)
		}
		return err
	}
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		_, err := r.a.Accept(t.Context(), ordered(5, r.node(), "x"))
		r.must(err)
		r.late(func() error { return offer(r, 4) })
		r.must(offer(r, 6))
		r.must(offer(r, 6))
		r.late(func() error { return offer(r, 5) })
		r.late(func() error {
			_, err := r.a.Accept(t.Context(), ordered(5, r.node(), "x"))
			return err
		})
		// What a person takes in, and what an older operator offers, leaves the fence where it is.
		r.write(`C:\mine.exe`, "MZ mine")
		r.must(r.a.Take(t.Context(), map[string]string{disk.Sum([]byte("MZ mine")): `C:\mine.exe`}))
		r.late(func() error { return offer(r, 5) })
		// A file that a power cut has torn fences nobody, and is put right by the next offer.
		r.write(rooted(stagedFile), strings.Repeat("\x00", 64))
		r.must(offer(r, 7))
		r.late(func() error { return offer(r, 6) })
	})
}

// TestLateRemove: a removal that comes late, or for another host, takes nothing off.
func TestLateRemove(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.applied(ordered(5, r.node(), "x"), plan.PhaseInSync)
		remove := func(host string, order int64) error {
			_, err := r.a.Remove(t.Context(), plan.Claim{Host: host, Order: order}, func(plan.Report) error { return nil })
			return err
		}
		r.late(func() error { return remove("host-1", 4) })
		before := r.m.Dump()
		r.wants(remove("host-2", 9), ErrHostMismatch)
		r.same(before, r.m.Dump())
		r.must(remove("host-1", 6))
		if rep := r.report(); rep.Phase != plan.PhaseIdle || rep.Host != "" {
			t.Errorf("after its removal the machine reports %+v", rep)
		}
		// Where there is nothing, there is nothing to refuse.
		r.must(remove("host-1", 4))
	})
}

// TestRemoveSparesANewerPlan: a removal that goes on while another connection hands a plan over ends before it takes that one off.
func TestRemoveSparesANewerPlan(t *testing.T) {
	withRig(t, fake.Options{}, func(t *testing.T, r *rig) {
		r.applied(ordered(5, r.node(), "x"), plan.PhaseInSync)
		p := plan.Plan{Env: []plan.EnvVar{{Name: "A", Value: "b"}}}
		_, err := r.a.Remove(t.Context(), plan.Claim{Host: "host-1", Order: 6}, func(rep plan.Report) error {
			if rep.Phase != plan.PhaseIdle {
				return nil
			}
			e := ordered(7, p, "")
			e.Generation, e.Secrets = 2, nil
			_, err := r.a.Accept(t.Context(), e)
			return err
		})
		r.wants(err, ErrSuperseded)
		if rep := r.report(); rep.Generation != 2 || rep.Host != "host-1" {
			t.Errorf("the newer plan is gone: %+v", rep)
		}
	})
}
