package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"time"
)

// Errors that callers branch on. Implementations wrap them with what happened.
var (
	// ErrUnreachable: no TCP connection, or no answer in time.
	ErrUnreachable = errors.New("host is unreachable")
	// ErrAuth: the host refused the credentials. While a machine is being provisioned this may pass, since user data
	// installs the key after sshd has come up.
	ErrAuth = errors.New("host refused the credentials")
	// ErrHostKey: the host's key is not the one that is trusted. Terminal until a person acts.
	ErrHostKey = errors.New("host key is not trusted")
	// ErrDisconnected: the connection ended before the answer was complete. The command may have run.
	ErrDisconnected = errors.New("connection lost")
	// ErrBusy: the host or the client has no free session.
	ErrBusy = errors.New("no free session on the host")
	// ErrKey: a private key cannot be used as it is written; the wrapped message says what to do and holds nothing of the key.
	ErrKey = errors.New("private key cannot be used")
	// ErrCommand: a Command holds a word that may not appear on a command line.
	ErrCommand = errors.New("argument is not a plain word")
)

// Command runs a program. Path and Args are plain words of letters, digits and : \ . _ = / , - only, so that cmd.exe and
// PowerShell as default shells read them alike.
type Command struct {
	// Path is the absolute Windows path of the program.
	Path string
	Args []string
	// Stdin is sent and then closed; nil is an empty input.
	Stdin io.Reader
	// Stdout and Stderr receive the output as it comes; nil discards it.
	Stdout, Stderr io.Writer
}

// Conn is a connection to one machine. It is safe for concurrent use. Each Run and each Put is one channel.
type Conn interface {
	// Run returns the program's exit code. An error means that the exit code is not known (ErrDisconnected when the
	// connection ended first).
	Run(ctx context.Context, c Command) (exit int, err error)
	// Put writes a file of size bytes unless one of that size is there: into a temporary name beside it, then renamed.
	// Missing folders are made. It returns whether anything was sent.
	Put(ctx context.Context, path string, size int64, open func() (io.ReadCloser, error)) (sent bool, err error)
	// RemoveAll deletes a file or a folder with all that is in it; one that is absent is no error.
	RemoveAll(ctx context.Context, path string) error
	// Done is closed when the connection has ended; Err then says why.
	Done() <-chan struct{}
	Err() error
	// Stats counts what the connection has cost so far.
	Stats() Stats
	io.Closer
}

// Stats counts the cost of a connection.
type Stats struct {
	// Channels is the number of SSH channels opened, Sent and Received the bytes on the wire.
	Channels       int
	Sent, Received int64
}

// HostKey is a host's public key.
type HostKey struct {
	// Algorithm as in authorized_keys, for example "ssh-ed25519"; Key is the wire format.
	Algorithm string
	Key       []byte
	// Fingerprint is "SHA256:" and unpadded base64, as ssh-keygen prints it.
	Fingerprint string
}

// Target is where and how to connect.
type Target struct {
	// Address is an IP address or DNS name, Port a TCP port.
	Address string
	Port    int
	User    string
	// PrivateKeys are PEM texts in any common format; each is tried once, in order.
	PrivateKeys [][]byte
	// Verify decides about the host's key before any credential is sent; its error is wrapped in ErrHostKey.
	Verify func(HostKey) error
	// Admit is called once, with the first byte that the host sends and before keys are exchanged, and makes the login wait until it returns; nil
	// admits at once. A host that does not answer never gets so far. An error ends the attempt. Waiting does not count against Timeout.
	Admit func(ctx context.Context) error
	// HostKeyAlgorithms are the algorithms of the keys that are already trusted. A host with several keys is asked for one of
	// these first, so that a pinned key is found again; empty is no preference.
	HostKeyAlgorithms []string
	// Timeout bounds connecting and authentication; 0 is 30 s.
	Timeout time.Duration
}

// String names the target without its keys.
func (t Target) String() string {
	return t.User + "@" + net.JoinHostPort(t.Address, strconv.Itoa(t.Port))
}

// GoString is String, so that no format verb prints the keys.
func (t Target) GoString() string { return t.String() }

// Dialer connects to machines.
type Dialer interface {
	Dial(ctx context.Context, t Target) (Conn, error)
}
