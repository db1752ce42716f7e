package ticket

import (
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// Secret holds bytes that no log, event, error or JSON document may show. Whatever prints it prints "[redacted]"; the bytes
// come out only by conversion: []byte(s).
type Secret []byte

// String implements fmt.Stringer.
func (Secret) String() string { return redacted }

// Format implements fmt.Formatter for every verb, %d and %#v included.
func (Secret) Format(f fmt.State, _ rune) {
	// An error of a formatter's own output has nowhere to go.
	_, _ = io.WriteString(f, redacted)
}

// MarshalText implements encoding.TextMarshaler, which JSON and YAML use too.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalLog implements logr's Marshaler.
func (Secret) MarshalLog() any { return redacted }
