package lead

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is one in memory.
type lease struct {
	resourcelock.Interface
	holder string
	err    error
}

func (l *lease) Identity() string { return "me" }

func (l *lease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if l.err != nil {
		return nil, nil, l.err
	}
	return &resourcelock.LeaderElectionRecord{HolderIdentity: l.holder}, nil, nil
}

func (l *lease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

func (l *lease) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.err == nil {
		l.holder = r.HolderIdentity
	}
	return l.err
}

func TestLock(t *testing.T) {
	me := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
	type world struct {
		*Lock
		in  *lease
		now time.Time
	}
	take := func(w *world) { _ = w.Update(t.Context(), me) }
	look := func(w *world) { _, _, _ = w.Get(t.Context()) }
	other := func(w *world) { w.in.holder = "you" }
	wait := func(d time.Duration) func(*world) { return func(w *world) { w.now = w.now.Add(d) } }
	for name, c := range map[string]struct {
		do    []func(*world)
		holds bool
		lost  string
	}{
		"never had it":                    {[]func(*world){other, look}, false, ""},
		"has it":                          {[]func(*world){take, look}, true, ""},
		"made it":                         {[]func(*world){func(w *world) { _ = w.Create(t.Context(), me) }}, true, ""},
		"just before others may have it":  {[]func(*world){take, wait(LeaseDuration - 1)}, true, ""},
		"slept until others may have it":  {[]func(*world){take, wait(LeaseDuration)}, false, ""},
		"slept, and nobody took it":       {[]func(*world){take, wait(time.Hour), look, take}, true, ""},
		"slept, and somebody has it":      {[]func(*world){take, wait(time.Hour), other, look}, false, "you"},
		"is told once":                    {[]func(*world){take, other, look, func(w *world) { w.in.holder = "they" }, look}, false, "you"},
		"gave it back":                    {[]func(*world){take, func(w *world) { _ = w.Update(t.Context(), resourcelock.LeaderElectionRecord{}) }, other, look}, false, ""},
		"could not write":                 {[]func(*world){func(w *world) { w.in.err = errors.New("away") }, take}, false, ""},
		"could not read whose it is":      {[]func(*world){take, func(w *world) { w.in.err = errors.New("away") }, look}, true, ""},
		"could not renew for long enough": {[]func(*world){take, func(w *world) { w.in.err = errors.New("away") }, wait(LeaseDuration), take}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{in: &lease{}, now: time.Unix(1000, 0)}
			lost := ""
			w.Lock = &Lock{Interface: w.in, Lost: func(h string) { lost += h }, Now: func() time.Time { return w.now }}
			for _, f := range c.do {
				f(w)
			}
			if w.Holds() != c.holds || lost != c.lost {
				t.Errorf("holds %t, lost to %q, want %t and %q", w.Holds(), lost, c.holds, c.lost)
			}
		})
	}
}
