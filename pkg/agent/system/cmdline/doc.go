// Package cmdline turns an argument list into a Windows command line and back, by the rules of CommandLineToArgvW and
// the Microsoft C run-time.
//
// Windows passes a program one string; the program splits it. A service keeps that string in its ImagePath. Join writes a
// string from which Split, CommandLineToArgvW and a Go or C program read exactly the arguments that were given: blanks,
// tabs, quotation marks, trailing backslashes, empty arguments. The package is pure, so that this is proven
// everywhere; on Windows a test of package windows holds it against the system's own function.
//
// The package imports the standard library only.
package cmdline
