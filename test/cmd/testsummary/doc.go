// Command testsummary runs `go test -json` and shows what a person wants to see: a line for each package as it ends, the output of what
// failed, and last of all "N passed, N failed, N skipped". Its exit code is that of the command, and 1 when no test passed.
//
//	testsummary -- go test -json ./...
//	testsummary -- go test -json ./a -- go test -json ./b
//
// Several commands run one after the other, so that what needs the machine for itself comes last, and have one count and one last line.
//
// Each test and each subtest counts once, so that a failed subtest counts together with the tests around it. A test that began and
// never ended (the process exited, the time ran out) counts as failed, and so does a package that fails without a failed test:
// one that does not build, or whose TestMain says no.
package main
