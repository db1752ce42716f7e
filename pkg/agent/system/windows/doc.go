// Package windows is the real Windows behind the interfaces of pkg/agent/system. New returns it.
//
// It promises to reach Windows through Go APIs only: native file calls, the service control manager, the registry,
// the DISM, HCN, IP helper, crypto and Firewall APIs, and WMI's scripting objects through COM. It starts no process, runs
// no script and reads no localized text: every decision rests on a number, and every refusal is an *Error that carries
// the number and, where package system has one, the sentinel. An *Error never holds Windows' own message, since that
// is in the machine's language.
//
// Decisions (which access class a descriptor equals, which adapter a network takes, what a number means) are pure
// functions in files without a build tag, with table tests that run everywhere; files named *_windows.go only gather and
// act. Tests in *_windows_test.go hold the expectations against the machine they run on, as an administrator. Wine 10 meets
// those for files, environment, machine, routes' list and a service without recovery actions; it does not meet
// security_windows_test.go (no access control lists, no reparse points, no deletion under readers), nor the ones that write
// recovery actions, routes and firewall rules or take a certificate away, which only Windows can decide.
//
// Paths never follow a reparse point (junction, symbolic link, mount point) below the drive's root: an account that may
// make folders could otherwise send a file that SYSTEM writes to another place. A machine whose C:\ProgramData\containerd is a
// junction is refused with ErrDenied. Stat, Remove and ReadDir see the reparse point itself, as something that is not a
// folder, so that removing a tree takes links and never what they point to.
//
// The package may import pkg/agent/system and pkg/plan, and neither client-go nor anything else of the product.
package windows
