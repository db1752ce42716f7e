// Command wmcb is the program on a Windows machine that makes it a node and keeps it one. The files here pick the machine and
// the signals, Windows' own or a simulated machine on other systems; everything else is package command.
package main
