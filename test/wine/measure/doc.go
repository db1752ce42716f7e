// Command measure prints, as one line of JSON, what the real wmcb.exe costs on a machine of Wine: the time from a start to the end of `wmcb version`,
// and the most memory that it has taken when it has answered. Beside it stands the same of a program that does nothing, since most of both is Wine's:
// its loader, its libraries and the way into the machine.
//
// `make bench` runs it in namespaces of its own, as root, where package wine has been prepared. It says nothing of Windows, whose loader is another one.
package main
