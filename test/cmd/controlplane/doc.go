// Command controlplane builds the test control plane's programs, or runs a control plane until it is interrupted.
package main
