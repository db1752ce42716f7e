// Package machine turns OpenShift Machines into WindowsHosts: one host under the Machine's name in the operator's
// namespace for each Machine whose label machine.openshift.io/os-id is exactly "Windows", with the Machine's address, and tied to it by
// UID without an ownerReference.
//
// It is the only package of the operator that imports machine.openshift.io, and it never talks to a machine. It writes a
// host's spec and the two status fields that come from the Machine; everything else in a host's status belongs to
// package host.
package machine
