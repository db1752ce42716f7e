// Package host turns a WindowsHost into a Ready Node. A pass gathers what is known into a view, decides purely what is true and what
// to do next, and acts; it never talks to a machine itself and never waits. What takes long is started in a Session of
// pkg/host, whose every change brings the next pass.
//
// A pass walks one line and stops at the first phase that is not met:
//
//	allowed → paused → profile → credentials → opened → trust → connect → facts → preflight → plan → stage → apply → registered → ready
//
// status.go derives every condition from what the pass saw, also when it failed. The package writes a host's status (but for what
// belongs to the Machine controller and for status.ticket.approvedCSR, which is the CSR controller's), the host's finalizer, its
// ticket, and the labels and annotation of its Node. It must not import ssh, winrm or machine.openshift.io.
package host
