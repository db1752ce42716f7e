// Package hostsim simulates Windows machines: a Host is an SSH server at a loopback address that behaves as OpenSSH for Windows does,
// in front of a modelled Windows (pkg/agent/system/fake) on which the real agent runs (cmd/wmcb/command) and the programs of package
// node stand in for a node's software. Hundreds fit in one process. It is for tests and for the demo.
//
// The SSH server is golang.org/x/crypto/ssh with pkg/sftp on the modelled file system. A command line is taken apart by a small
// tokenizer for the default shell, cmd or PowerShell: plain words only; whatever a shell would expand, split or quote is an error, so
// that nothing can lean on it. A program runs if the file at its path is one: wmcb.exe is known by the SHA-256 of its bytes
// (Options.Agents), the payload by the markers of test/payload; shutdown.exe and hostname.exe of System32 are built in. What a connection
// started ends with it; services go on. A reboot, and a new virtual switch, cut connections without an exit status.
//
// Troubles are set with SetKnobs, CrashAtEntry, and the methods of Machine (FillDisk, SetSkew, PowerCut, SetAdapter, Intercept).
//
// # What it does not prove
//
// That OpenSSH for Windows, its shells and Windows itself behave as modelled: see package fake for the machine and package node for
// the software. The SSH server is Go's: it negotiates what Go's does, and its windows, packet sizes and speed are its own. Loopback
// is faster and more orderly than a network: delay, bandwidth and cuts are simulated above TCP, a dropped link closes
// connections where a real one stalls them first, and connection attempts in that time are reset instead of left unanswered.
// Every machine sees the API server by loopback, so routing, firewalls between machines and name resolution are not
// exercised.
package hostsim
