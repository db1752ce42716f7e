// Package consoletest is `wmcb serve` for tests that model a machine as a function from a command to its output. The product does not
// import it. What it does to the streams is what pkg/console does; what SSH does to them it does not show.
package consoletest
