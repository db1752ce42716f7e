package wmcbe2e

import (
	"context"
	"fmt"
	"time"
)

// until calls f every second until it is done, fails, or patience is over; why is what it waits for. The error of a call that the end of
// patience has cut short says less than what was waited for.
func until(ctx context.Context, patience time.Duration, f func(context.Context) (done bool, why string, err error)) error {
	deadline := time.Now().Add(patience)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	last := "nothing was seen"
	for {
		done, why, err := f(ctx)
		if err != nil && time.Until(deadline) < pollEvery {
			return fmt.Errorf("waiting %s: %w; last: %s", patience, err, last)
		}
		if done || err != nil {
			return err
		}
		last = why
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting %s: %w; last: %s", patience, ctx.Err(), last)
		case <-ticker.C:
		}
	}
}
