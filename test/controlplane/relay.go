package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
)

// relay hands connections to another address of this machine over to the API server, which listens on the loopback interface only. It does not look
// into them.
type relay struct {
	listener net.Listener
	target   string
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup
}

// startRelay listens on that address, at the API server's port.
func startRelay(address net.IP, port int) (*relay, error) {
	ctx, cancel := context.WithCancel(context.Background())
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(address.String(), strconv.Itoa(port)))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("listening for machines: %w", err)
	}
	r := &relay{listener: l, target: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), ctx: ctx, cancel: cancel}
	r.work.Go(r.accept)
	return r, nil
}

func (r *relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.work.Go(func() { r.carry(c) })
	}
}

// carry ends when either side has, as a connection that is cut does.
func (r *relay) carry(c net.Conn) {
	defer c.Close()
	to, err := (&net.Dialer{}).DialContext(r.ctx, "tcp", r.target)
	if err != nil {
		return
	}
	defer to.Close()
	defer context.AfterFunc(r.ctx, func() {
		_ = c.Close()
		_ = to.Close()
	})()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{to, c}, {c, to}} {
		r.work.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			done <- struct{}{}
		})
	}
	<-done
}

// close ends it and every connection; r may be nil.
func (r *relay) close() error {
	if r == nil {
		return nil
	}
	r.cancel()
	err := r.listener.Close()
	r.work.Wait()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}
