// Package cni reads, checks and writes CNI network configurations for Windows: Parse takes a .conf or a .conflist of any
// version of the CNI specification from 0.2.0 to 1.1.0, RenderL2Bridge and RenderOverlay write one for the plugins
// win-bridge and win-overlay, Equal says whether a file on a machine is the wanted one, and Usable says which file of a
// folder a container runtime takes.
//
// Everything is pure. The package imports the standard library only.
package cni
