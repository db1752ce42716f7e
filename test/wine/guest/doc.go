// Command guest is what a machine of Wine needs inside that a real Windows Server has: an SSH service (guest sshd) where OpenSSH would be, with
// its folders and files in the same places, and what tests do with the service manager (guest services, guest kill, guest start, guest remove).
//
// Of OpenSSH it has the session channel with exec and sftp, public keys from administrators_authorized_keys, cmd.exe as the shell, and that a
// command's processes end with its connection. What it does not prove: anything about OpenSSH's own limits. Tests may import nothing of it; on
// other systems than Windows it does nothing.
package main
