// Package winrm makes first contact with a Windows machine that answers WS-Management (WinRM) only: over HTTPS, whose certificate is verified with a
// given CA, it has OpenSSH installed and started, the operator's key authorized, and reads the host's SSH key. Then SSH goes on. It never carries
// payload.
//
// What it promises: plain HTTP is not spoken, and neither is Basic authentication, over HTTPS either: a password is proven by NTLM version 2, bound
// to the TLS channel, or a client certificate logs in. One Open uses one shell with one command at a time, and deletes the shell also when it is
// cut off. Every request and answer is bounded in size, every wait in time. All commands are constants but for a port number; what else differs between
// hosts travels on standard input. Decisions rest on exit codes, numbers of faults and hexadecimal digits, never on text that Windows translates. Every command can be
// repeated, so Open can be. No state is shared between hosts.
//
// Messages are made with github.com/masterzen/winrm; the connection and the reading of answers are here, since that client reads answers of any
// size, takes a proxy from the environment, may fall back to Basic, and ends no request with its context.
//
// The package may import the standard library, pkg/transport, pkg/powershell, that library and github.com/bodgit/ntlmssp. It imports no Kubernetes.
package winrm
