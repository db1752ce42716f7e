// Package ssh is package transport over SSH, as OpenSSH for Windows serves it: one connection a machine, a channel for each
// program and each file, files by SFTP.
//
// It promises that the host's key is verified before any credential is sent, that each key is tried once and with SHA-2 at least,
// that every call ends with its context, and that nothing is left running or open after Close. It knows no retries: a lost
// connection is an error value and a closed Done channel.
//
// It may import transport, x/crypto and pkg/sftp, and nothing of Kubernetes or of plans.
package ssh
