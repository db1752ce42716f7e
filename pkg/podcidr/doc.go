// Package podcidr judges the pod ranges of Nodes: whether each Node has one where the network mode needs it, and what stands in the way; whether
// the pods of a Node really are in its range; whether a range that one of our Nodes was given holds addresses of others; and which range to
// give a Node where the operator does that. All of it is pure, over Evidence that controllers/podcidr gathers.
//
// It does not prove more than the evidence says: the cause is stated as a fact only where the arguments of the controller manager could be
// read, and a Node whose pods have not shown themselves is taken at its word. Ranges are given out of IPv4 only.
//
// The package imports the standard library and pkg/apis only.
package podcidr
