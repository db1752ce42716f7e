// Package disk holds what the agent does with whole files through system.Files: bounded reads, digests, replacement in
// one step, folders with their parents, deletion of trees, and the arithmetic of Windows paths.
//
// Paths are Windows paths on every operating system that the package is built for: a drive letter and backslashes. It
// imports system, plan and the standard library; it decides nothing about what belongs on a machine.
package disk
