// Package system is the edge between the agent and the operating system: small interfaces for files, services,
// registry environment, features, firewall, certificates, Defender, networks, routes and the machine itself.
//
// Behind it stand two implementations: package windows (files *_windows.go, through Go APIs, never PowerShell) and
// package fake, a modelled Windows for tests and simulated machines. Decisions belong to pkg/agent/step and pkg/agent,
// which see only these interfaces; errors are sentinel values and numbers, never text, since Windows is localised.
//
// Paths are absolute Windows paths with backslashes and a drive letter, compared without regard to case.
// The package imports the standard library and pkg/plan only.
package system
