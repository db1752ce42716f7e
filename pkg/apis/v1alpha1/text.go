package v1alpha1

import "strings"

// Bounds of texts, in bytes.
const (
	// MaxMessage bounds a condition's message. The API takes 32768; nobody reads that much.
	MaxMessage = 2048
	// MaxNote bounds an event's note: events.k8s.io refuses longer ones, and a refused event is lost.
	MaxNote = 1024
)

// Clip returns at most limit bytes of s, with "..." in place of what it leaves out; no character is cut in two. limit is at least 3.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-3], "") + "..."
}
