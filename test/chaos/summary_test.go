package chaos

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// tally counts what the matrix did, for the line at its end.
type tally struct {
	mu         sync.Mutex
	injections int
	ready      int
	sentTwice  int
	kinds      map[string]int
}

// row notes one injection: whether the node became Ready after it, and how many blobs were sent although they were there.
func (c *tally) row(kind string, ready bool, twice int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.injections++
	if ready {
		c.ready++
	}
	c.sentTwice += twice
	if c.kinds == nil {
		c.kinds = map[string]int{}
	}
	c.kinds[kind]++
}

// print writes a line for each kind of injection and the sum.
func (c *tally) print(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for kind, n := range c.kinds {
		lines = append(lines, fmt.Sprintf("%6d  %s\n", n, kind))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[8:], b[8:]) })
	fmt.Fprint(w, strings.Join(lines, ""))
	fmt.Fprintf(w, "%d injections, %d Ready, %d sent twice\n", c.injections, c.ready, c.sentTwice)
}
