package windows

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/go-ole/go-ole"
	"golang.org/x/sys/windows"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

// failed turns an error of a Windows call into an *Error by its number, and leaves nil and what is an *Error already. An error
// without a number is wrapped.
func failed(op, object string, err error) error {
	if err == nil {
		return nil
	}
	if own := (*Error)(nil); errors.As(err, &own) {
		return err
	}
	if code, ok := number(err); ok {
		return refuse(op, object, code)
	}
	return fmt.Errorf("%s %s: %w", op, object, err)
}

// number finds the number in an error: NTSTATUS, Win32 error or HRESULT.
func number(err error) (uint32, bool) {
	var status windows.NTStatus
	if errors.As(err, &status) {
		return statusNumber(status), true
	}
	var com *ole.OleError
	if errors.As(err, &com) {
		return comNumber(com), true
	}
	var code syscall.Errno
	if errors.As(err, &code) {
		return uint32(code), true
	}
	return 0, false
}

// statusNumber returns the Win32 error of a status. Three statuses all become 5 ERROR_ACCESS_DENIED in Windows' own table though
// they say more: the file is about to go, it is a running image, it stands for another place.
func statusNumber(status windows.NTStatus) uint32 {
	switch status {
	case windows.STATUS_DELETE_PENDING:
		return uint32(windows.ERROR_DELETE_PENDING)
	case windows.STATUS_CANNOT_DELETE:
		return uint32(windows.ERROR_SHARING_VIOLATION)
	case windows.STATUS_REPARSE_POINT_ENCOUNTERED:
		return codeReparsePoint
	}
	return uint32(status.Errno())
}

// comNumber returns the HRESULT; of a failed Invoke (DISP_E_EXCEPTION) the one that the object itself raised.
func comNumber(err *ole.OleError) uint32 {
	const dispException = 0x80020009
	code := uint32(err.Code())
	var raised ole.EXCEPINFO
	if code == dispException && errors.As(err.SubError(), &raised) && raised.SCODE() != 0 {
		return raised.SCODE()
	}
	return code
}

// is reports whether err carries that number.
func is(err error, code uint32) bool {
	if own := (*Error)(nil); errors.As(err, &own) {
		return own.Code == code
	}
	n, ok := number(err)
	return ok && win32(n) == code
}

// absent returns nil for an error that says that the thing is not there, which is what was asked for.
func absent(err error) error {
	if errors.Is(err, system.ErrNotExist) {
		return nil
	}
	return err
}
