// Package gobuild builds programs of tools modules once and keeps them in the user's cache folder: the control plane of tests, and
// what goes to machines.
//
// A tools module is a folder with a go.mod and go.sum of its own, so that what it builds never changes the product's dependencies.
// A Set is a group of its programs; the finished ones lie in one folder whose name holds a digest of everything that decides
// their content: go.mod, go.sum, flags, Go's version, system and architecture.
//
// Promises: a folder that is there is whole, since it appears by one rename; processes that come at the same time build once; a build
// says every 20 seconds that it still runs; when its context ends, its compilers end with it.
//
// The package imports the standard library only.
package gobuild
