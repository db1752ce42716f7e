package ignition

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that callers branch on; what is returned wraps them.
var (
	// ErrEmpty: there is no document.
	ErrEmpty = errors.New("empty ignition")
	// ErrNotIgnition: the input is something else, or broken JSON.
	ErrNotIgnition = errors.New("not an ignition config")
	// ErrVersion: the spec version is missing, too old, or newer than this package knows.
	ErrVersion = errors.New("unsupported ignition version")
	// ErrTooLarge: one of the limits of limits.go.
	ErrTooLarge = errors.New("too large")
	// ErrRemote: the content stands behind a URL that is not a data: URL.
	ErrRemote = errors.New("content is not in the ignition itself")
	// ErrContents: a file or merged config does not decode as declared.
	ErrContents = errors.New("broken contents")
	// ErrUnit: the kubelet's unit cannot be understood.
	ErrUnit = errors.New("broken unit")
)

// MissingError lists everything that was required and is not there.
type MissingError struct {
	// Missing names each piece in words, in a fixed order: "file /etc/kubernetes/kubelet.conf", "unit kubelet.service (masked)".
	Missing []string
}

// Error implements error.
func (e *MissingError) Error() string { return "the ignition lacks: " + strings.Join(e.Missing, ", ") }

func tooLarge(what string, limit int) error {
	if limit >= 1<<20 {
		return fmt.Errorf("%w: %s exceeds %d MiB", ErrTooLarge, what, limit>>20)
	}
	return fmt.Errorf("%w: %s exceeds %d", ErrTooLarge, what, limit)
}
