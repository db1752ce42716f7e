package windows

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windowsmachine/operator/pkg/plan"
)

// maxRoutes bounds how many rows of the routing table are read.
const maxRoutes = 100_000

// ipHelper are the functions of iphlpapi.dll that x/sys does not have (netioapi.h).
type ipHelper struct{ initialize, create, remove, getInterface, setInterface *windows.LazyProc }

func loadIPHelper() ipHelper {
	dll := windows.NewLazySystemDLL("iphlpapi.dll")
	return ipHelper{
		initialize: dll.NewProc("InitializeIpForwardEntry"),
		create:     dll.NewProc("CreateIpForwardEntry2"),
		remove:     dll.NewProc("DeleteIpForwardEntry2"),

		getInterface: dll.NewProc("GetIpInterfaceEntry"),
		setInterface: dll.NewProc("SetIpInterfaceEntry"),
	}
}

// routes are static routes of the active store. CreateIpForwardEntry2 makes a route that lasts until the machine restarts or its
// interface goes (as it does when a virtual switch is made); there is no call for the persistent store. The agent's loop, which
// runs at every start and every few minutes, puts a missing route back.
type routes struct{ api ipHelper }

// List returns the static routes of both families: those that a program or a person has made (MIB_IPPROTO_NETMGMT and the
// NT_STATIC kinds), not what the stack itself keeps for links and addresses.
func (routes) List() ([]plan.Route, error) {
	var table *windows.MibIpForwardTable2
	if err := windows.GetIpForwardTable2(windows.AF_UNSPEC, &table); err != nil {
		return nil, failed("list routes", "", err)
	}
	defer windows.FreeMibTable(unsafe.Pointer(table))
	var out []plan.Route
	for _, row := range table.Rows()[:min(table.NumEntries, maxRoutes)] {
		prefix, hop := addrFrom(&row.DestinationPrefix.Prefix), addrFrom(&row.NextHop)
		if !staticRoute(row.Protocol) || !prefix.IsValid() || !hop.IsValid() {
			continue
		}
		destination := netip.PrefixFrom(prefix, int(row.DestinationPrefix.PrefixLength)).Masked()
		out = append(out, plan.Route{Destination: destination.String(), NextHop: hop.String()})
	}
	return out, nil
}

// Add makes the route on the adapter on whose link the next hop lies; ErrExist (5010 ERROR_OBJECT_ALREADY_EXISTS) when it is there.
func (r routes) Add(route plan.Route) error {
	row, err := r.row("add route to", route)
	if err != nil {
		return err
	}
	return r.call("add route to", route.Destination, r.api.create, row)
}

func (r routes) Delete(route plan.Route) error {
	row, err := r.row("delete route to", route)
	if err != nil {
		return err
	}
	return r.call("delete route to", route.Destination, r.api.remove, row)
}

func (routes) call(op, object string, proc *windows.LazyProc, row *windows.MibIpForwardRow2) error {
	if err := proc.Find(); err != nil {
		return failed(op, object, err)
	}
	if code, _, _ := proc.Call(uintptr(unsafe.Pointer(row))); code != 0 {
		return failed(op, object, syscall.Errno(code))
	}
	return nil
}

func (r routes) row(op string, route plan.Route) (*windows.MibIpForwardRow2, error) {
	destination, hop, err := parseRoute(op, route)
	if err != nil {
		return nil, err
	}
	adapters, err := readAdapters()
	if err != nil {
		return nil, err
	}
	index, err := routeInterface(hop, adapters)
	if err != nil {
		return nil, err
	}
	if err := r.api.initialize.Find(); err != nil {
		return nil, failed(op, route.Destination, err)
	}
	row := new(windows.MibIpForwardRow2)
	_, _, _ = r.api.initialize.Call(uintptr(unsafe.Pointer(row)))
	row.InterfaceIndex = index
	setAddr(&row.DestinationPrefix.Prefix, destination.Addr())
	row.DestinationPrefix.PrefixLength = uint8(destination.Bits())
	setAddr(&row.NextHop, hop)
	row.Metric = 0
	row.Protocol = windows.MIB_IPPROTO_NETMGMT
	return row, nil
}

// addrFrom reads a SOCKADDR_INET; the zero Addr stands for a family that is neither IPv4 nor IPv6.
func addrFrom(s *windows.RawSockaddrInet) netip.Addr {
	switch s.Family {
	case windows.AF_INET:
		return netip.AddrFrom4((*windows.RawSockaddrInet4)(unsafe.Pointer(s)).Addr)
	case windows.AF_INET6:
		return netip.AddrFrom16((*windows.RawSockaddrInet6)(unsafe.Pointer(s)).Addr)
	}
	return netip.Addr{}
}

func setAddr(s *windows.RawSockaddrInet, a netip.Addr) {
	if a.Is4() {
		*(*windows.RawSockaddrInet4)(unsafe.Pointer(s)) = windows.RawSockaddrInet4{Family: windows.AF_INET, Addr: a.As4()}
		return
	}
	*(*windows.RawSockaddrInet6)(unsafe.Pointer(s)) = windows.RawSockaddrInet6{Family: windows.AF_INET6, Addr: a.As16()}
}
