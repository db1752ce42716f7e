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
	// Nobody reads any more when writing fails; the command itself will notice.
	for p.env.System.Clock.Sleep(ctx, beatEvery) == nil && p.repeat() == nil {
		continue
	}
}

// repeat prints the last report again when it is old. It looks and prints under one lock: between the two the command may say something newer,
// which has to stay the last word.
func (p *program) repeat() error {
	p.beat.mu.Lock()
	defer p.beat.mu.Unlock()
	if p.env.System.Clock.Now().Sub(p.beat.at) < beatEvery {
		return nil
	}
	if p.beat.last != nil {
		return p.say(*p.beat.last)
	}
	// Nothing was said yet; the present state is as good.
	r, err := p.agent.Report()
	if err != nil {
		return nil
	}
	return p.say(r)
}
