package hostsim

import (
	"fmt"
	"net"
	"net/netip"
)

// kubeletPort is the port of a node's kubelet; a machine's address is free when it is free there too.
const kubeletPort = 10250

// reservation keeps a loopback address for one machine among all processes that simulate machines: it holds a UDP socket
// on it, which hinders neither the SSH server nor the kubelet.
type reservation struct {
	addr netip.AddrPort
	udp  net.PacketConn
}

func (r *reservation) release() { _ = r.udp.Close() }

// reserve takes ip, or the first free one from 127.0.1.1 on, and listens there; port 0 is a free one.
func reserve(ip string, port int) (*reservation, net.Listener, error) {
	if ip != "" {
		addr, err := netip.ParseAddr(ip)
		if err != nil {
			return nil, nil, fmt.Errorf("%q is no address: %w", ip, err)
		}
		return take(addr, port)
	}
	var last error
	for a := netip.AddrFrom4([4]byte{127, 0, 1, 1}); a.As4()[1] == 0; a = a.Next() {
		if b := a.As4()[3]; b == 0 || b == 255 {
			continue
		}
		r, l, err := take(a, port)
		if err == nil {
			return r, l, nil
		}
		last = err
	}
	return nil, nil, fmt.Errorf("no free loopback address: %w", last)
}

func take(addr netip.Addr, port int) (*reservation, net.Listener, error) {
	udp, err := net.ListenPacket("udp", netip.AddrPortFrom(addr, kubeletPort).String())
	if err != nil {
		return nil, nil, err
	}
	probe, err := net.Listen("tcp", netip.AddrPortFrom(addr, kubeletPort).String())
	if err != nil {
		_ = udp.Close()
		return nil, nil, err
	}
	_ = probe.Close()
	l, err := net.Listen("tcp", netip.AddrPortFrom(addr, uint16(port)).String())
	if err != nil {
		_ = udp.Close()
		return nil, nil, err
	}
	return &reservation{addr: l.Addr().(*net.TCPAddr).AddrPort(), udp: udp}, l, nil
}
