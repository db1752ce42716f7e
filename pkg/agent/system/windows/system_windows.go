package windows

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/windows"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

// New returns this machine. Libraries that not every edition has (DISM, HCN) are loaded at their first use; until then a
// call that needs them answers ErrUnsupported. The calling process must be elevated for anything but reading.
func New() (system.System, error) {
	enablePrivileges()
	return system.System{
		Files:        files{},
		Env:          environment{user32: windows.NewLazySystemDLL("user32.dll")},
		Features:     &features{mu: &sync.Mutex{}, api: loadDISM()},
		Services:     services{},
		Networks:     networks{vmcompute: windows.NewLazySystemDLL("vmcompute.dll"), computenetwork: windows.NewLazySystemDLL("computenetwork.dll")},
		Routes:       routes{api: loadIPHelper()},
		Firewall:     firewall{},
		Certificates: certificates{},
		Defender:     defender{},
		Machine:      machine{},
		Programs:     programs{},
		Clock:        clock{},
	}, nil
}

// clock is the machine's own.
type clock struct{}

func (clock) Now() time.Time { return time.Now() }

func (clock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// enablePrivileges switches on those privileges that an administrator has but that are off in a new token: without them
// a folder that some account has made and closed to administrators could not be taken back. What the token does not hold stays
// off, and the call that needs it answers ErrDenied.
func enablePrivileges() {
	var token windows.Token
	if windows.OpenProcessToken(windows.CurrentProcess(), windows.TOKEN_ADJUST_PRIVILEGES|windows.TOKEN_QUERY, &token) != nil {
		return
	}
	defer func() { _ = token.Close() }()
	for _, name := range []string{"SeBackupPrivilege", "SeRestorePrivilege", "SeTakeOwnershipPrivilege"} {
		privileges := windows.Tokenprivileges{PrivilegeCount: 1}
		privileges.Privileges[0].Attributes = windows.SE_PRIVILEGE_ENABLED
		utf16Name, err := windows.UTF16PtrFromString(name)
		if err != nil || windows.LookupPrivilegeValue(nil, utf16Name, &privileges.Privileges[0].Luid) != nil {
			continue
		}
		// The call succeeds with ERROR_NOT_ALL_ASSIGNED where the token lacks the privilege.
		_ = windows.AdjustTokenPrivileges(token, false, &privileges, 0, nil, nil)
	}
}
