// Package programs makes the payload of real programs: it knows which there are and what they come from, builds them from the Go module
// proxy through hack/gobuild, and packs them into a store with pkg/payload.
//
// Promises: the same sources and the same Go give the same bytes, on any machine and in any folder (Rebuild shows it); what is
// finished is found in the user's cache and nothing runs a second time; a file that somebody declared is packed with the SHA-256 that
// was declared, or nothing is packed.
//
// What it does not prove: that a program starts, or does anything, on Windows. It may import pkg/payload and hack/gobuild only.
package programs
