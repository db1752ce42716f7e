package windows

import (
	"errors"
	"strings"
	"time"
	"unsafe"

	"github.com/go-ole/go-ole"
	"github.com/go-ole/go-ole/oleutil"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

const (
	// vfpService is the driver of the switch extension VFP.
	vfpService = "vfpext"
	// netNamespace holds the classes of network settings; not every edition has all of them.
	netNamespace = `root\StandardCimv2`
	// surveyTimeout bounds the questions to WMI, which waits for ever where its service is broken.
	surveyTimeout = 5 * time.Second
)

// Survey implements system.Machine.
func (machine) Survey() plan.Survey {
	out := netSurvey()
	out.InstallationType = localString(`SOFTWARE\Microsoft\Windows NT\CurrentVersion`, "InstallationType")
	_, err := services{}.Status(vfpService)
	out.NoVFP = errors.Is(err, system.ErrServiceNotFound)
	for _, k := range restartKeys() {
		if localKey(k.path) {
			out.RestartPending = append(out.RestartPending, k.why)
		}
	}
	// "NV Hostname" is the name on record, "Hostname" the one in use since the last start (Tcpip\Parameters).
	const parameters = `SYSTEM\CurrentControlSet\Services\Tcpip\Parameters`
	if next := localString(parameters, "NV Hostname"); !strings.EqualFold(next, localString(parameters, "Hostname")) {
		out.NextHostname = next
	}
	out.BusyPorts = distinct(append(listeners(windows.AF_INET, tcp4Table()), listeners(windows.AF_INET6, tcp6Table())...))
	return out
}

// restartKeys are the keys below HKEY_LOCAL_MACHINE whose being there says that Windows waits for a restart. The list of files to be renamed
// at the next start is left out: programs leave harmless entries in it for months.
func restartKeys() []struct{ why, path string } {
	return []struct{ why, path string }{
		{plan.RestartServicing, `SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootPending`},
		{plan.RestartUpdate, `SOFTWARE\Microsoft\Windows\CurrentVersion\WindowsUpdate\Auto Update\RebootRequired`},
	}
}

// localString is a value below HKEY_LOCAL_MACHINE, "" when it cannot be read.
func localString(path, name string) string {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE)
	if err != nil {
		return ""
	}
	defer func() { _ = key.Close() }()
	value, _, err := key.GetStringValue(name)
	if err != nil {
		return ""
	}
	return value
}

func localKey(path string) bool {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE)
	if err != nil {
		return false
	}
	_ = key.Close()
	return true
}

// netSurvey asks WMI for teams and port ranges.
func netSurvey() plan.Survey {
	answer := make(chan plan.Survey, 1)
	go func() {
		var out plan.Survey
		_ = withWMI(netNamespace, func(service *ole.IDispatch) error {
			out.Teams = teams(service)
			out.DynamicPorts = append(dynamicPorts(service, "TCP"), dynamicPorts(service, "UDP")...)
			return nil
		})
		answer <- out
	}()
	timer := time.NewTimer(surveyTimeout)
	defer timer.Stop()
	select {
	case out := <-answer:
		return out
	case <-timer.C:
		return plan.Survey{}
	}
}

// teams are the adapters of LBFO teams ("MSFT_NetLbfoTeamNic class").
func teams(service *ole.IDispatch) []string {
	var out []string
	_ = instances(service, "MSFT_NetLbfoTeamNic", func(o *ole.IDispatch) error {
		return wmiValue(o, "Name", func(v *ole.VARIANT) {
			if name, ok := v.Value().(string); ok && name != "" && len(out) < maxTeams {
				out = append(out, name)
			}
		})
	})
	return out
}

// dynamicPorts reads the range, which all settings of a protocol share ("MSFT_NetTCPSetting class", "MSFT_NetUDPSetting class"). The
// settings are templates, of which some leave it empty.
func dynamicPorts(service *ole.IDispatch, protocol string) []plan.PortRange {
	var found []plan.PortRange
	_ = instances(service, "MSFT_Net"+protocol+"Setting", func(o *ole.IDispatch) error {
		var first, count int
		err := errors.Join(
			wmiValue(o, "DynamicPortRangeStartPort", func(v *ole.VARIANT) { first = numberOf(v) }),
			wmiValue(o, "DynamicPortRangeNumberOfPorts", func(v *ole.VARIANT) { count = numberOf(v) }),
		)
		if r, ok := dynamicRange(protocol, first, count); ok && err == nil && len(found) == 0 {
			found = append(found, r)
		}
		return nil
	})
	return found
}

// numberOf reads an integer of any width; WMI's scripting interface hands a uint16 out as a 32-bit one.
func numberOf(v *ole.VARIANT) int {
	switch n := v.Value().(type) {
	case int32:
		return int(n)
	case uint32:
		return int(n)
	case int16:
		return int(n)
	case uint16:
		return int(n)
	}
	return 0
}

func instances(service *ole.IDispatch, class string, f func(*ole.IDispatch) error) error {
	v, err := oleutil.CallMethod(service, "InstancesOf", class)
	return withChild(v, err, func(list *ole.IDispatch) error {
		return oleutil.ForEach(list, func(v *ole.VARIANT) error { return withChild(v, nil, f) })
	})
}

// listeners are the ports on which a program of this machine listens for TCP.
func listeners(family uint32, t portTable) []int {
	const ownerPIDListener = 3 // TCP_TABLE_OWNER_PID_LISTENER; the classes without a process know no IPv6
	proc := windows.NewLazySystemDLL("iphlpapi.dll").NewProc("GetExtendedTcpTable")
	if proc.Find() != nil {
		return nil
	}
	size := uint32(64 << 10)
	for size <= 4<<20 {
		buf := make([]byte, size)
		code, _, _ := proc.Call(uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&size)), 0, uintptr(family), ownerPIDListener, 0)
		switch windows.Errno(code) {
		case windows.ERROR_SUCCESS:
			return t.ports(buf)
		case windows.ERROR_INSUFFICIENT_BUFFER:
			// Programs may begin to listen meanwhile.
			size += 16 << 10
		default:
			return nil
		}
	}
	return nil
}
