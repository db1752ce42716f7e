// Package golden compares what a test has made with a file that somebody has read and found right.
//
// Run a test with -update to write the files, and read what has changed before you commit it. The flag is the test's own: a package that has goldens
// registers it.
//
// The package imports the standard library and go-cmp.
package golden
