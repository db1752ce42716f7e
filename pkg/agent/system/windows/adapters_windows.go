package windows

import (
	"errors"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Bounds on what is taken of the adapters: bytes of the answer, adapters, addresses of one adapter. GetAdaptersAddresses
// recommends a first buffer of 15 KB.
const (
	firstAdapterBuffer = 15 << 10
	maxAdapterBuffer   = 4 << 20
	maxAdapters        = 4096
	maxAdapterAddrs    = 1024
)

// readAdapters lists the network adapters of the host's own network compartment.
func readAdapters() ([]adapter, error) {
	// All interfaces, because an adapter that is bound to a virtual switch has no address family left and would be missing.
	const flags = windows.GAA_FLAG_SKIP_ANYCAST | windows.GAA_FLAG_SKIP_MULTICAST | windows.GAA_FLAG_SKIP_DNS_SERVER |
		windows.GAA_FLAG_INCLUDE_GATEWAYS | windows.GAA_FLAG_INCLUDE_ALL_INTERFACES
	size := uint32(firstAdapterBuffer)
	for {
		buf := make([]byte, size)
		first := (*windows.IpAdapterAddresses)(unsafe.Pointer(&buf[0]))
		err := windows.GetAdaptersAddresses(windows.AF_UNSPEC, flags, 0, first, &size)
		switch {
		case err == nil && size == 0:
			return nil, nil
		case err == nil:
			return adaptersFrom(first), nil
		case errors.Is(err, windows.ERROR_NO_DATA):
			return nil, nil
		case !errors.Is(err, windows.ERROR_BUFFER_OVERFLOW) || size > maxAdapterBuffer || size <= uint32(len(buf)):
			return nil, failed("list network adapters", "", err)
		}
	}
}

func adaptersFrom(first *windows.IpAdapterAddresses) []adapter {
	var out []adapter
	for a := first; a != nil && len(out) < maxAdapters; a = a.Next {
		out = append(out, adapter{
			name: windows.UTF16PtrToString(a.FriendlyName), index: max(a.IfIndex, a.Ipv6IfIndex),
			up: a.OperStatus == windows.IfOperStatusUp, gateway: a.FirstGatewayAddress != nil,
			loopback: a.IfType == windows.IF_TYPE_SOFTWARE_LOOPBACK, addrs: addrsFrom(a.FirstUnicastAddress),
		})
	}
	return out
}

func addrsFrom(first *windows.IpAdapterUnicastAddress) []adapterAddr {
	var out []adapterAddr
	for u := first; u != nil && len(out) < maxAdapterAddrs; u = u.Next {
		ip, ok := netip.AddrFromSlice(u.Address.IP())
		if !ok {
			continue
		}
		ip = ip.Unmap()
		out = append(out, adapterAddr{
			prefix: netip.PrefixFrom(ip, min(int(u.OnLinkPrefixLength), ip.BitLen())),
			usable: u.DadState == windows.IpDadStatePreferred,
		})
	}
	return out
}
