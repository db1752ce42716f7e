// Package console is how several commands of the agent run over one channel: the operator starts `wmcb serve` once a connection and
// sends it one command after the other. A channel costs two round trips and a process on the machine; this way a whole configuration takes
// two, one for the agent's file and one for everything else.
//
// # The conversation
//
// On the program's standard input, for each command:
//
//  1. one line of JSON, a Request, with a number and the arguments;
//  2. what the command reads on its standard input, in chunks: four bytes with the length, big-endian, then as many bytes, at most
//     MaxChunk;
//  3. four zero bytes, which end it.
//
// On its standard output comes whatever the command prints, as it prints it, and then one line of JSON, a Done, with the same number, its exit code
// and the beginning of its standard error. The next Request is read when the end of the input has come. The end of the program's input in place of
// a Request ends the program.
//
// Both sides keep to lines that begin with a brace, so that what a login script prints in between is passed over.
//
// The package imports the standard library and pkg/plan only, since the agent on the machine carries it.
package console
