package windows

import (
	"context"
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/windowsmachine/operator/pkg/plan"
)

// machine is what the machine says of itself.
type machine struct{}

// Hostname is the DNS host name, case kept. The NetBIOS name would be cut at 15 characters.
func (machine) Hostname() (string, error) {
	buf := make([]uint16, 256) // a DNS label has at most 63 characters
	size := uint32(len(buf))
	if err := windows.GetComputerNameEx(windows.ComputerNameDnsHostname, &buf[0], &size); err != nil {
		return "", failed("read host name", "", err)
	}
	return windows.UTF16ToString(buf), nil
}

// Version asks the kernel, since GetVersionEx answers with what the program's manifest declares. A Windows without an update
// revision in the registry has 0.
func (machine) Version() (build, ubr int, err error) {
	build = int(windows.RtlGetVersion().BuildNumber)
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Windows NT\CurrentVersion`, registry.QUERY_VALUE)
	if err != nil {
		return build, 0, failed("read version", "", err)
	}
	defer func() { _ = key.Close() }()
	revision, _, err := key.GetIntegerValue("UBR")
	return build, int(revision), absent(failed("read update revision", "", err))
}

func (machine) Elevated() (bool, error) { return windows.GetCurrentProcessToken().IsElevated(), nil }

// timeOfDay is SYSTEM_TIMEOFDAY_INFORMATION (NtQuerySystemInformation, winternl.h; the fields by name in the Windows Driver
// Kit's and Wine's headers).
type timeOfDay struct {
	BootTime, CurrentTime, TimeZoneBias int64
	TimeZoneID, Reserved                uint32
	BootTimeBias, SleepTimeBias         uint64
}

func (machine) BootID() (string, error) {
	var t timeOfDay
	err := windows.NtQuerySystemInformation(windows.SystemTimeOfDayInformation, unsafe.Pointer(&t), uint32(unsafe.Sizeof(t)), nil)
	if err != nil {
		return "", failed("read boot time", "", err)
	}
	return bootID(t.BootTime, int64(t.BootTimeBias)), nil
}

// FreeDisk asks the volume that holds the path, which need not exist yet, for what the caller may still use.
func (machine) FreeDisk(path string) (int64, error) {
	if _, _, err := splitPath("look at disk of", path); err != nil {
		return 0, err
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, failed("look at disk of", path, err)
	}
	volume := make([]uint16, len(path)+4)
	if err := windows.GetVolumePathName(name, &volume[0], uint32(len(volume))); err != nil {
		return 0, failed("look at disk of", path, err)
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(&volume[0], &free, nil, nil); err != nil {
		return 0, failed("look at disk of", path, err)
	}
	return int64(min(free, 1<<62)), nil
}

func (machine) Addresses() ([]plan.AdapterAddress, error) {
	list, err := readAdapters()
	return addresses(list), err
}

func (machine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

func (machine) Executable() (string, error) { return os.Executable() }
