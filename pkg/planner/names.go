package planner

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ErrHostname: a machine's host name cannot be the name of a node.
var ErrHostname = errors.New("host name cannot be a node name")

var labelRule = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

const (
	// maxLabel is the longest DNS label (RFC 1035) and the longest DNS host name of Windows.
	maxLabel = 63
	// maxNetBIOS is the longest computer name in the NetBIOS sense; the sixteenth byte is the service type.
	maxNetBIOS = 15
)

// NodeName returns the node name for a machine's host name: its first label in lower case, at most 63 characters. Clouds
// hand out longer names than a node may have, so a label that is too long is cut. An empty name, one of digits only
// (Windows refuses such a computer name, so it came from somewhere else) and one with other characters than letters,
// digits and hyphens is ErrHostname.
func NodeName(hostname string) (string, error) {
	label, _, _ := strings.Cut(strings.TrimSpace(hostname), ".")
	name := strings.ToLower(label)
	if len(name) > maxLabel {
		name = strings.TrimRight(name[:maxLabel], "-")
	}
	switch {
	case name == "":
		return "", fmt.Errorf("%w: it is empty", ErrHostname)
	case strings.Trim(name, "0123456789") == "":
		return "", fmt.Errorf("%w: %q has digits only", ErrHostname, bounded(hostname))
	case !labelRule.MatchString(name):
		return "", fmt.Errorf("%w: %q must hold letters, digits and hyphens only, and neither begin nor end with a hyphen",
			ErrHostname, bounded(hostname))
	}
	return name, nil
}

// NetBIOSName returns the computer name that Windows derives from a host name, its first 15 characters in upper case, and
// whether it had to be cut. Two machines of one domain whose names share these 15 characters clash, and clouds that name
// the computer after the Machine refuse a longer name.
func NetBIOSName(hostname string) (name string, cut bool) {
	label, _, _ := strings.Cut(hostname, ".")
	name = strings.ToUpper(label)
	if len(name) > maxNetBIOS {
		return name[:maxNetBIOS], true
	}
	return name, false
}

// messageLimit is how much of a machine's text goes into a message, in bytes.
const messageLimit = 120

func bounded(s string) string { return Bounded(s, messageLimit) }

// Bounded shortens text that came from outside to limit bytes for a message, and keeps it printable ASCII.
func Bounded(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, s)
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}
