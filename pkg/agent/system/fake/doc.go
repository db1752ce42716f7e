// Package fake is a modelled Windows behind the interfaces of pkg/agent/system, for tests and for simulated machines.
//
// A Machine has a file system, a service control manager, processes, the machine environment, optional features, the
// Host Networking Service, routes, firewall rules, certificate stores, Defender's exclusions, network adapters, a clock
// and a life (Reboot, PowerCut, PowerOn). Machine.System is a view that belongs to no process; a Process has its own
// view, of which every later call fails once the process has been killed. Programs are Go functions that the machine
// finds by what the file holds (Options.Resolve) or by its name (Options.Programs).
//
// Where Windows refuses, the fake refuses, with the sentinel of pkg/agent/system and an *Error that carries the Win32
// number; a comment at each such place names the documented source. Where the documents leave a choice, the fake takes
// the harsher one: a file that a killed process left open stays, half written; unsynced bytes are zero after a power
// cut; a stopped service whose process lingers stays StopPending.
//
// # What it does not prove
//
// The fake shows that the engine's decisions are right for the behaviour written down here. It does not show that
// Windows behaves so, nor that package windows calls it rightly. In particular it knows nothing of: access control
// lists beyond the two classes and "inherited", other accounts than an elevated or not elevated one, reparse points,
// hard links, short (8.3) names, NTFS's own case table (Unicode lower case stands in), write-behind of directory
// entries (a rename is durable at once), command lines (arguments stay a list), job objects (children always end with
// their parent), service accounts and triggers, shutdown order, COM, WMI, DISM and HCN documents, drivers, packets:
// networks and routes are records, and no container ever runs.
//
// The package imports the standard library, pkg/plan and pkg/agent/system only.
package fake
