// Command payload packs the files that go to machines into a store, makes a stand-in store for tests and the demo, and
// verifies one.
package main
