package windows

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

// Forwarding reads the setting of the interface that holds the address now (ForwardingEnabled of MIB_IPINTERFACE_ROW).
func (r routes) Forwarding(address string) (bool, error) {
	row, err := r.interfaceOf("query interface of", address)
	if err != nil {
		return false, err
	}
	return row.ForwardingEnabled != 0, nil
}

// SetForwarding changes the active store, which lasts until the interface goes or the machine restarts.
func (r routes) SetForwarding(address string, on bool) error {
	const op = "set forwarding of"
	row, err := r.interfaceOf(op, address)
	if err != nil {
		return err
	}
	row.ForwardingEnabled = 0
	if on {
		row.ForwardingEnabled = 1
	}
	if row.Family == windows.AF_INET {
		// SetIpInterfaceEntry refuses an IPv4 row with the length that GetIpInterfaceEntry gives (its documentation: "must be set to 0").
		row.SitePrefixLength = 0
	}
	return callInterface(op, address, r.api.setInterface, row)
}

func callInterface(op, address string, proc *windows.LazyProc, row *windows.MibIpInterfaceRow) error {
	if err := proc.Find(); err != nil {
		return failed(op, address, err)
	}
	if code, _, _ := proc.Call(uintptr(unsafe.Pointer(row))); code != 0 {
		return failed(op, address, syscall.Errno(code))
	}
	return nil
}

// interfaceOf returns the row of the interface that holds the address, for its family.
func (r routes) interfaceOf(op, address string) (*windows.MibIpInterfaceRow, error) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nil, invalid(op, address, codeInvalidParameter)
	}
	adapters, err := readAdapters()
	if err != nil {
		return nil, err
	}
	a, ok := holding(ip, adapters)
	if !ok {
		return nil, &Error{Op: op, Object: address, Code: codeNotFound, Err: system.ErrAdapterNotFound}
	}
	row := &windows.MibIpInterfaceRow{Family: windows.AF_INET6, InterfaceIndex: a.index}
	if ip.Unmap().Is4() {
		row.Family = windows.AF_INET
	}
	return row, callInterface(op, address, r.api.getInterface, row)
}
