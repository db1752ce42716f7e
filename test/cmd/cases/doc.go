// Command cases lists the ids of the public failure reports that the project promises not to repeat, each with the tests that are named
// after it: TestW18… and FuzzW18… belong to case W18, TestW50W53… to both.
//
//	cases            all of them
//	cases --missing  those that have no test yet
//
// A test that is named after an id that is not in test/cases/public-reports.txt is an error, since nobody would find it.
package main
