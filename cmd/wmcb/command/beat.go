package command

import (
	"context"
	"sync"
	"time"

	"github.com/windowsmachine/operator/pkg/plan"
)

// beatEvery is how often the last report is repeated while a command that is watched has nothing new to say, so that whoever listens can
// tell a long step from a lost connection: a link that drops while a network is made is not closed by anybody.
const beatEvery = 2 * time.Second

// beat is the last report and when it was printed.
type beat struct {
	mu   sync.Mutex
	last *plan.Report
	at   time.Time
}

// watched runs a command that prints reports; with --json it also repeats the last one.
func (p *program) watched(f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if !p.json {
			return f(ctx)
		}
		beating, stop := context.WithCancel(ctx)
		var done sync.WaitGroup
		done.Go(func() { p.keepBeating(beating) })
		err := f(ctx)
		stop()
		done.Wait()
		return err
	}
}

func (p *program) keepBeating(ctx context.Context) {
	clock := p.env.System.Clock
	for clock.Sleep(ctx, beatEvery) == nil {
		p.beat.mu.Lock()
		last, quiet := p.beat.last, clock.Now().Sub(p.beat.at)
		p.beat.mu.Unlock()
		if last == nil {
			// Nothing was said yet; the present state is as good.
			if r, err := p.agent.Report(); err == nil {
				last = &r
			}
		}
		// Nobody reads any more when writing fails; the command itself will notice.
		if last != nil && quiet >= beatEvery && p.report(*last) != nil {
			return
		}
	}
}
