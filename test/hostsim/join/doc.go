// Package join holds the tests that join simulated machines to a real control plane by a plan made by hand, through the real agent: that the
// node becomes Ready, and that it does not when any one thing that the plan puts on the machine is missing. It has no
// code of its own; it is apart from hostsim so that the tests of that package need no control plane.
package join
