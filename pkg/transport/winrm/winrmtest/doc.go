// Package winrmtest is a WS-Management service on loopback for the tests of package winrm and of what is built upon it: real HTTPS, real SOAP, NTLM
// version 2 with channel binding and message integrity code, client certificates, shells and commands with their quotas. Windows is a model of the few
// programs that first contact runs.
//
// It models what the client must cope with: output in several parts, commands that print nothing for longer than an operation lasts, faults,
// quotas of shells and commands, requests that are too large, ids that are not known, connections that are cut, noise around output, texts in another
// language. Refusals cite where Windows gives them.
//
// It does not prove anything about Windows: not http.sys' renegotiation for client certificates (crypto/tls has no such server; the certificate is asked for in the
// handshake), not Kerberos, not how cmd.exe reads quotes, not what Windows Update, DISM, msiexec.exe or sshd do, and not that access lists are right.
//
// Only tests may import it.
package winrmtest
