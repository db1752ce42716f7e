// Command demo shows the main job: a Windows MachineSet becomes Ready nodes, and shrinks again. It runs a real control plane, OpenShift's own
// Machine controllers, simulated Windows machines, and the operator as a process of its own.
//
//	demo [--replicas N] [--keep]
//
// Its command vanilla shows the other door: a machine of one's own that joins a cluster which was put together by hand, with the mistakes that such
// clusters have.
//
//	demo vanilla [--keep]
package main
