package ssh

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windowsmachine/operator/pkg/transport"
)

// errClosed: Close was called.
var errClosed = errors.New("closed by us")

// conn implements transport.Conn.
type conn struct {
	client   *ssh.Client
	net      *countingConn
	grace    time.Duration
	channels atomic.Int64
	done     chan struct{}
	wg       group

	mu sync.Mutex
	// cause is why the connection was given up, nil while it lives or when the machine ended it.
	cause error
	err   error
}

func newConn(client *ssh.Client, nc *countingConn, ticks <-chan time.Time, stop func(), grace time.Duration) *conn {
	c := &conn{client: client, net: nc, grace: grace, done: make(chan struct{})}
	c.wg.Go(func() {
		err := client.Wait()
		nc.Close()
		c.mu.Lock()
		c.err = lostError(c.cause, err)
		c.mu.Unlock()
		close(c.done)
	})
	c.wg.Go(func() {
		defer stop()
		c.watch(ticks)
	})
	return c
}

// lostError says why a connection ended; nil when we closed it.
func lostError(cause, err error) error {
	switch {
	case errors.Is(cause, errClosed):
		return nil
	case cause != nil:
		return fmt.Errorf("%w: %w", transport.ErrDisconnected, cause)
	case err != nil:
		return fmt.Errorf("%w: %w", transport.ErrDisconnected, err)
	}
	return transport.ErrDisconnected
}

// give ends the connection for a reason; the first one counts.
func (c *conn) give(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	c.mu.Unlock()
	// Closing the socket, not the client: a client's Close waits for nothing, but a write that is stuck must fail too.
	c.net.Close()
}

// Close implements transport.Conn. It waits until every goroutine of the connection has ended.
func (c *conn) Close() error {
	c.give(errClosed)
	c.wg.Wait()
	return nil
}

// Done implements transport.Conn.
func (c *conn) Done() <-chan struct{} { return c.done }

// Err implements transport.Conn: nil while the connection lives and after Close.
func (c *conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Stats implements transport.Conn.
func (c *conn) Stats() transport.Stats {
	return transport.Stats{
		Channels: int(c.channels.Load()),
		Sent:     c.net.sent.Load(),
		Received: c.net.received.Load(),
	}
}

// channel is an open session channel.
type channel struct {
	ssh.Channel
	requests <-chan *ssh.Request
}

// onChannel opens a session channel, runs use on it and closes it. When ctx ends first, the channel is closed and use must come
// back within the grace time, or the whole connection is given up, so that nothing of use runs on when onChannel has returned.
func (c *conn) onChannel(ctx context.Context, use func(channel) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	opened := make(chan channel, 1)
	result := make(chan error, 1)
	go func() { result <- c.open(opened, use) }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	// What has succeeded in the same moment has succeeded.
	if err := c.abort(opened, result); err != nil {
		return context.Cause(ctx)
	}
	return nil
}

// abort ends what onChannel started and returns its error when it has ended.
func (c *conn) abort(opened <-chan channel, result <-chan error) error {
	timer := time.NewTimer(c.grace)
	defer timer.Stop()
	var ch channel
	select {
	case err := <-result:
		return err
	case ch = <-opened:
	case <-timer.C:
		c.give(errSilent)
		return <-result
	}
	// Close writes to the network and may be stuck there.
	c.wg.Go(func() { _ = ch.Close() })
	select {
	case err := <-result:
		return err
	case <-timer.C:
		c.give(errSilent)
		return <-result
	}
}

func (c *conn) open(opened chan<- channel, use func(channel) error) error {
	ch, requests, err := c.client.OpenChannel("session", nil)
	if refused := (*ssh.OpenChannelError)(nil); errors.As(err, &refused) {
		// OpenSSH answers so beyond MaxSessions.
		return fmt.Errorf("%w: %w", transport.ErrBusy, err)
	}
	if err != nil {
		return c.lost(err)
	}
	c.channels.Add(1)
	opened <- channel{Channel: ch, requests: requests}
	defer ch.Close()
	return use(channel{Channel: ch, requests: requests})
}

// lost wraps an error of a connection or channel that ended.
func (c *conn) lost(err error) error {
	c.mu.Lock()
	cause := c.cause
	c.mu.Unlock()
	if cause != nil {
		return fmt.Errorf("%w: %w", transport.ErrDisconnected, cause)
	}
	return fmt.Errorf("%w: %w", transport.ErrDisconnected, err)
}
