package windows

import (
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

// texts are the strings of a service as the service manager takes them.
type texts struct{ name, display, line, description *uint16 }

// textsOf encodes the strings of c. The display name is the name where there is none, and the description is "" rather than a
// null pointer, which would leave the old one.
func textsOf(c system.ServiceConfig, line string) (texts, error) {
	display := c.DisplayName
	if display == "" {
		display = c.Name
	}
	var (
		t   texts
		err error
	)
	for _, s := range []struct {
		at   **uint16
		text string
	}{{&t.name, c.Name}, {&t.display, display}, {&t.line, line}, {&t.description, c.Description}} {
		if *s.at, err = windows.UTF16PtrFromString(s.text); err != nil {
			return texts{}, err
		}
	}
	return t, nil
}

// utf16String encodes a string that holds no NUL.
func utf16String(s string) []uint16 {
	encoded, err := windows.UTF16FromString(s)
	if err != nil {
		return []uint16{0}
	}
	return encoded
}

// changeConfig2 is ChangeServiceConfig2 for a structure.
func changeConfig2[T any](service *mgr.Service, level uint32, value *T) error {
	return windows.ChangeServiceConfig2(service.Handle, level, (*byte)(unsafe.Pointer(value)))
}
