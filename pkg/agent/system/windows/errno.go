package windows

import (
	"fmt"
	"io/fs"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

// Error is a refusal of Windows told by its number.
type Error struct {
	// Op is what was tried; Object is the path, service, network or other thing it was tried on.
	Op, Object string
	// Code is the Win32 error ([MS-ERREF] 2.2), or the HRESULT when it stands for no Win32 error.
	Code uint32
	// Err is the sentinel of package system behind Code, or nil.
	Err error
}

// Error implements error. The text is ASCII and the same in every language of Windows.
func (e *Error) Error() string {
	number := fmt.Sprintf("error %d", e.Code)
	if e.Code > 0xffff {
		number = fmt.Sprintf("error 0x%08x", e.Code)
	}
	text := e.Op
	if e.Object != "" {
		text += " " + e.Object
	}
	if e.Err == nil {
		return text + ": " + number
	}
	return fmt.Sprintf("%s: %v (%s)", text, e.Err, number)
}

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

// Win32 errors and HRESULTs that this package names itself: those that it raises or decides on in files without a build
// tag. Sources: [MS-ERREF] 2.2 (Win32), winerror.h (HRESULT), wbemcli.h (WMI).
const (
	codeAccessDenied        = 5
	codeInvalidParameter    = 87
	codeInvalidName         = 123
	codeFilenameTooLong     = 206
	codeNotFound            = 1168
	codeServiceSpecific     = 1066
	codeServiceNeverStarted = 1077
	codeReparsePoint        = 4395
)

// win32 turns the HRESULT form of a Win32 error (facility 7) into the Win32 error and leaves any other number alone.
func win32(code uint32) uint32 {
	if code&0xffff0000 == 0x80070000 {
		return code & 0xffff
	}
	return code
}

// sentinel returns the error of package system behind a number, or nil.
func sentinel(code uint32) error {
	return map[uint32]error{
		2:                system.ErrNotExist,          // ERROR_FILE_NOT_FOUND
		3:                system.ErrNotExist,          // ERROR_PATH_NOT_FOUND
		codeNotFound:     system.ErrNotExist,          // ERROR_NOT_FOUND
		80:               system.ErrExist,             // ERROR_FILE_EXISTS
		183:              system.ErrExist,             // ERROR_ALREADY_EXISTS
		1073:             system.ErrExist,             // ERROR_SERVICE_EXISTS
		5010:             system.ErrExist,             // ERROR_OBJECT_ALREADY_EXISTS
		codeAccessDenied: system.ErrDenied,            // ERROR_ACCESS_DENIED
		1307:             system.ErrDenied,            // ERROR_INVALID_OWNER: the token may not make Administrators the owner
		1314:             system.ErrDenied,            // ERROR_PRIVILEGE_NOT_HELD
		codeReparsePoint: system.ErrDenied,            // ERROR_REPARSE_POINT_ENCOUNTERED
		0x80041003:       system.ErrDenied,            // WBEM_E_ACCESS_DENIED
		32:               system.ErrBusy,              // ERROR_SHARING_VIOLATION
		33:               system.ErrBusy,              // ERROR_LOCK_VIOLATION
		303:              system.ErrBusy,              // ERROR_DELETE_PENDING
		1224:             system.ErrBusy,              // ERROR_USER_MAPPED_FILE
		39:               system.ErrDiskFull,          // ERROR_HANDLE_DISK_FULL
		112:              system.ErrDiskFull,          // ERROR_DISK_FULL
		1295:             system.ErrDiskFull,          // ERROR_DISK_QUOTA_EXCEEDED
		1051:             system.ErrDependentsRunning, // ERROR_DEPENDENT_SERVICES_RUNNING
		1053:             system.ErrServiceTimeout,    // ERROR_SERVICE_REQUEST_TIMEOUT
		1056:             system.ErrServiceRunning,    // ERROR_SERVICE_ALREADY_RUNNING
		1060:             system.ErrServiceNotFound,   // ERROR_SERVICE_DOES_NOT_EXIST
		1062:             system.ErrServiceNotActive,  // ERROR_SERVICE_NOT_ACTIVE
		1068:             system.ErrServiceDependency, // ERROR_SERVICE_DEPENDENCY_FAIL
		1072:             system.ErrServiceMarked,     // ERROR_SERVICE_MARKED_FOR_DELETE
		1075:             system.ErrServiceDependency, // ERROR_SERVICE_DEPENDENCY_DELETED
		50:               system.ErrUnsupported,       // ERROR_NOT_SUPPORTED
		120:              system.ErrUnsupported,       // ERROR_CALL_NOT_IMPLEMENTED
		126:              system.ErrUnsupported,       // ERROR_MOD_NOT_FOUND: the library is not on this edition
		127:              system.ErrUnsupported,       // ERROR_PROC_NOT_FOUND
		0x80040154:       system.ErrUnsupported,       // REGDB_E_CLASSNOTREG
		0x8004100e:       system.ErrUnsupported,       // WBEM_E_INVALID_NAMESPACE
		0x800f080c:       system.ErrUnsupported,       // CBS_E_UNKNOWN_UPDATE: DISM knows no feature of that name
		0x803b0001:       system.ErrNetworkNotFound,   // HCN_E_NETWORK_NOT_FOUND
		0x803b0002:       system.ErrEndpointNotFound,  // HCN_E_ENDPOINT_NOT_FOUND
		0x803b0006:       system.ErrAdapterNotFound,   // HCN_E_ADAPTER_NOT_FOUND
		0x803b0010:       system.ErrNetworkExists,     // HCN_E_NETWORK_ALREADY_EXISTS
		0x803b0015:       system.ErrUnsupported,       // HCN_E_REQUEST_UNSUPPORTED
		codeInvalidName:  fs.ErrInvalid,               // ERROR_INVALID_NAME
	}[win32(code)]
}

// refuse returns the error for a number.
func refuse(op, object string, code uint32) error {
	code = win32(code)
	return &Error{Op: op, Object: object, Code: code, Err: sentinel(code)}
}
