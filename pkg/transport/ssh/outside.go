package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// ErrInside: the address is the operator's own machine or only means something there.
var ErrInside = errors.New("address is loopback, link-local or unspecified")

// Outside is a Dialer.Net that refuses loopback, link-local and unspecified addresses with ErrInside, also where a name resolves to one: behind
// them is the operator's own machine and not a Windows host.
func Outside(ctx context.Context, network, address string) (net.Conn, error) {
	// Control sees each address after the name was resolved and before anything is sent to it.
	d := net.Dialer{Control: func(_, resolved string, _ syscall.RawConn) error { return outside(resolved) }}
	return d.DialContext(ctx, network, address)
}

func outside(resolved string) error {
	ap, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrInside, resolved)
	}
	ip := ap.Addr().Unmap()
	if ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || ip.IsMulticast() {
		return fmt.Errorf("%w: %s", ErrInside, ip)
	}
	return nil
}
