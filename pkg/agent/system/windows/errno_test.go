package windows

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

// TestW38ErrorsAreNumbers: what an error means rests on its number, and its text is the same in every language.
func TestW38ErrorsAreNumbers(t *testing.T) {
	// The last ones of a row may be the HRESULT forms of Win32 errors.
	for want, codes := range map[error][]uint32{
		system.ErrNotExist:          {2, 3, 1168, 0x80070002},
		system.ErrExist:             {80, 183, 1073, 5010},
		system.ErrDenied:            {5, 1307, 1314, 4395, 0x80041003, 0x80070005},
		system.ErrBusy:              {32, 33, 303, 1224, 0x80070020},
		system.ErrDiskFull:          {39, 112, 1295, 0x80070070},
		system.ErrDependentsRunning: {1051},
		system.ErrServiceTimeout:    {1053},
		system.ErrServiceRunning:    {1056},
		system.ErrServiceNotFound:   {1060},
		system.ErrServiceNotActive:  {1062},
		system.ErrServiceDependency: {1068, 1075},
		system.ErrServiceMarked:     {1072},
		system.ErrUnsupported:       {50, 126, 127, 0x800f080c, 0x80040154, 0x8004100e, 0x803b0015},
		system.ErrNetworkNotFound:   {0x803b0001},
		system.ErrAdapterNotFound:   {0x803b0006},
		system.ErrNetworkExists:     {0x803b0010},
		fs.ErrInvalid:               {123},
	} {
		for _, code := range codes {
			if err := refuse("try", "it", code); !errors.Is(err, want) {
				t.Errorf("%d is %v, want %v", code, err, want)
			}
		}
	}
}

// Numbers without a sentinel stay what they are: 145 ERROR_DIR_NOT_EMPTY is not "exists", as package syscall has it.
func TestErrorsWithoutSentinel(t *testing.T) {
	for _, code := range []uint32{1, 87, 145, 206, 267, 1052, 1059, 1061, 0x80004005, 0x800706d9} {
		if got := sentinel(code); got != nil {
			t.Errorf("%d is %v", code, got)
		}
	}
}

func TestErrorText(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{refuse("create", `C:\k\x`, 112), `create C:\k\x: disk full (error 112)`},
		{refuse("create", `C:\k\x`, 0x80070070), `create C:\k\x: disk full (error 112)`},
		{refuse("delete network", "cbr0", 0x803b0001), `delete network cbr0: network does not exist (error 0x803b0001)`},
		{refuse("start service", "kubelet", 1067), `start service kubelet: error 1067`},
		{refuse("read boot time", "", 5), `read boot time: permission denied (error 5)`},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}
