// Package command is the command line of wmcb, the program on a Windows machine: Run takes the arguments and the machine
// as values, so that a simulated machine runs the very same code as wmcb.exe.
//
// It holds flags, help texts, exit codes and the writing of output, and no decisions: those are pkg/agent's and
// pkg/planner's. It must not import client-go, controller-runtime or any package for one operating system.
package command
