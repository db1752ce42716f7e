// Package transport is how the operator reaches a machine: a Conn that runs programs with an argument vector and puts
// files, a Dialer that makes one, and sentinel errors that say what went wrong. Package ssh below it is the usual one.
//
// A Conn never builds a command line from data: arguments are plain words (see Command), everything else travels on
// standard input. The package imports the standard library only and knows nothing of Kubernetes or of plans.
package transport
