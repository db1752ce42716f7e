package ssh

import (
	"sync"
	"sync/atomic"
	"testing"
)

// A connection that is closed while others end what they had under way: goroutines are added while one, and another, waits. A sync.WaitGroup
// panics here.
func TestGroupGrowsWhileWaitedFor(t *testing.T) {
	for range 200 {
		var g group
		var runs atomic.Int32
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				for range 5 {
					g.Go(func() { runs.Add(1) })
				}
			})
			callers.Go(g.Wait)
		}
		callers.Wait()
		g.Wait()
		if n := runs.Load(); n != 20 {
			t.Fatalf("%d of 20 had ended", n)
		}
	}
}
