package ssh

import "sync"

// group counts goroutines. Unlike a sync.WaitGroup it may be added to while somebody waits: a connection is closed by one goroutine while others
// still end what they had under way on it, each of which may start a last one. The zero group is ready.
type group struct {
	mu sync.Mutex
	n  int
	// idle is closed when n gets to 0; nil while nobody waits.
	idle chan struct{}
}

// Go runs f in a goroutine.
func (g *group) Go(f func()) {
	g.mu.Lock()
	g.n++
	g.mu.Unlock()
	go func() {
		defer g.done()
		f()
	}()
}

func (g *group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n--
	if g.n == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Wait returns when there is a moment at which none runs.
func (g *group) Wait() {
	g.mu.Lock()
	if g.n == 0 {
		g.mu.Unlock()
		return
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mu.Unlock()
	<-idle
}
