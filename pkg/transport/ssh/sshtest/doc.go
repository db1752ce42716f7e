// Package sshtest is a small SSH server on loopback for the tests of package ssh and of what is built upon it. Programs are Go
// functions, files are kept in memory under the paths that sftp-server of OpenSSH for Windows uses (/C:/folder/file).
//
// It models what the client must cope with: refused keys, methods that cannot work, a late banner, several host keys, a limit of
// sessions, a program without exit status, a connection that is cut or falls silent. It does not prove anything about Windows:
// there is no shell, no quoting, no file that is in use, and no process. test/hostsim is the machine.
//
// Only tests may import it.
package sshtest
