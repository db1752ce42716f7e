// Package slim says what the operator's cache keeps of the objects that it watches, so that a cluster of a thousand nodes does not take memory for
// what nobody here reads.
//
// A Node or a certificate request that went through Transform must not be written back as a whole; the operator only patches and applies.
//
// The package imports API types only.
package slim
