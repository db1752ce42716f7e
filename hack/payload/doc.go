// Command payload makes the set of files that goes to machines: it builds the real programs from source and packs them, packs files
// from elsewhere, makes a stand-in store for tests and the demo, verifies a store, and builds programs twice to show that the same
// source gives the same bytes.
package main
