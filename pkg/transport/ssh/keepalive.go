package ssh

import (
	"errors"
	"time"
)

// maxMissed is how many keepalive periods may pass without any byte from the machine.
const maxMissed = 3

// errSilent: the machine answered nothing for maxMissed keepalive periods.
var errSilent = errors.New("no sign of life")

// silence counts periods without a byte. Any byte is a sign of life, not only an answer, since an answer may wait behind a long
// transfer.
type silence struct {
	received int64
	missed   int
}

// tick takes the number of bytes received so far and reports whether the connection is lost.
func (s *silence) tick(received int64) (lost bool) {
	if received != s.received {
		s.received, s.missed = received, 0
		return false
	}
	s.missed++
	return s.missed >= maxMissed
}

// watch asks for a sign of life at each tick and gives the connection up when none comes.
func (c *conn) watch(ticks <-chan time.Time) {
	s := silence{received: c.net.received.Load()}
	for {
		select {
		case <-c.done:
			return
		case <-ticks:
		}
		if s.tick(c.net.received.Load()) {
			c.give(errSilent)
			return
		}
		c.wg.Go(func() {
			// Any answer will do; OpenSSH refuses the request, which is one. An error means that the connection has ended.
			_, _, _ = c.client.SendRequest("keepalive@openssh.com", true, nil)
		})
	}
}
