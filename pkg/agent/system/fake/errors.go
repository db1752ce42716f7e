package fake

import (
	"errors"
	"fmt"
)

// ErrKilled is what every call of a process's view returns once the process has been killed or has ended.
var ErrKilled = errors.New("process has ended")

// ErrPoweredOff is returned where the machine would have to be up, and is not.
var ErrPoweredOff = errors.New("machine is off")

// ErrBadImage: 193 ERROR_BAD_EXE_FORMAT, the file is no program that this machine can run.
var ErrBadImage = errors.New("not a valid Win32 application")

// Win32 error numbers that the fake answers with ([MS-ERREF] 2.2, system error codes).
const (
	codeFileNotFound       = 2
	codePathNotFound       = 3
	codeAccessDenied       = 5
	codeNotSameDevice      = 17
	codeSharingViolation   = 32
	codeLockViolation      = 33
	codeFileExists         = 80
	codeInvalidParameter   = 87
	codeDiskFull           = 112
	codeInvalidName        = 123
	codeDirNotEmpty        = 145
	codeBadImage           = 193
	codeFilenameTooLong    = 206
	codeDirectory          = 267
	codeDependentsRunning  = 1051
	codeServiceTimeout     = 1053
	codeServiceRunning     = 1056
	codeCircularDependency = 1059
	codeNoService          = 1060
	codeCannotAcceptCtrl   = 1061
	codeServiceNotActive   = 1062
	codeServiceSpecific    = 1066
	codeProcessAborted     = 1067
	codeDependencyFail     = 1068
	codeServiceMarked      = 1072
	codeServiceExists      = 1073
	codeDependencyDeleted  = 1075
	codeShuttingDown       = 1115
	codeNetworkUnreachable = 1231
	codeNotSupported       = 50
	codeNotFound           = 1168
	codeDISMUnknownFeature = 0x800f080c
	codeHCNNetworkNotFound = 0x803b0001
	codeHCNAdapterNotFound = 0x803b0006
	codeHCNNoEndpoint      = 0x803b0002
	codeHCNInvalidPolicy   = 0x803b000e
	codeHCNAddrReserved    = 0x803b002f
	codeObjectExists       = 5010
	codeHCNNetworkExists   = 0x803b0010
)

// Error is a refusal of the fake with its Win32 number (or HRESULT).
type Error struct {
	// Op is what was tried, Name the path, service or network.
	Op, Name string
	// Code is the number that Windows answers with.
	Code uint32
	// Err is the sentinel of pkg/agent/system behind the number, or nil where there is none.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s %s: error %d", e.Op, e.Name, e.Code)
	}
	return fmt.Sprintf("%s %s: %v (%d)", e.Op, e.Name, e.Err, e.Code)
}

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }

func refuse(op, name string, code uint32, sentinel error) error {
	return &Error{Op: op, Name: name, Code: code, Err: sentinel}
}
