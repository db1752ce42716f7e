// Package payload makes a stand-in payload for tests and the demo: files with the names and sizes of the real programs, and
// about as compressible, but without code. Each begins with a marker that names it, so that a simulated machine knows which
// program it was told to start.
//
// The files are the same on every run. What it does not prove: that a real program starts, or that the versions named in the
// manifest exist. It may import pkg/payload only.
package payload
