package wmcbe2e

import (
	"context"
	"fmt"
	"time"
)

// until calls f every second until it is done, fails, or patience is over; why is what it waits for.
func until(ctx context.Context, patience time.Duration, f func(context.Context) (done bool, why string, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		done, why, err := f(ctx)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting %s: %w; last: %s", patience, ctx.Err(), why)
		case <-ticker.C:
		}
	}
}
