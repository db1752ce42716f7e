//go:build !windows

package windows

import "errors"

// ErrNotWindows: the flag -change-this-machine is for Windows.
var ErrNotWindows = errors.New("this is not Windows: build the test program with GOOS=windows and take it to one")

// Here is the machine that the calling program runs on, and only on Windows can it be exercised.
func Here(func(string, ...any)) (Machine, error) { return Machine{}, ErrNotWindows }

// RunService is for Windows.
func RunService() bool { return false }
