// Command demo shows the main job: a Windows MachineSet becomes Ready nodes, and shrinks again. It runs a real control plane, OpenShift's own
// Machine controllers, simulated Windows machines, and the operator as a process of its own.
//
//	demo [--replicas N] [--keep]
package main
