package transport

import (
	"context"
	"errors"
	"net"
	"strconv"
)

// Errors of an Opener that callers branch on, beside those of a Dialer.
var (
	// ErrCertificate: the host's TLS certificate is not one that the given CA has signed for the host's name. Nothing was sent.
	ErrCertificate = errors.New("TLS certificate is not trusted")
	// ErrNoServer: OpenSSH cannot be made to run on the host; the wrapped message names the way out. Terminal until a person acts.
	ErrNoServer = errors.New("the host has no SSH server")
	// ErrOpening: the Opening cannot be used as it is; the wrapped message names the field. Nothing was sent.
	ErrOpening = errors.New("first contact is not possible as asked for")
)

// Opening is what first contact with a machine needs: one that has no SSH server yet, or one that does not know the operator's key.
type Opening struct {
	// Address is an IP address or DNS name, Port the TCP port of the other way in (5986 for WinRM over HTTPS).
	Address string
	Port    int
	// ServerName is the name in the host's certificate, Address when empty.
	ServerName string
	// User is an administrator, DOMAIN\user for one of a domain.
	User string
	// Password of User, or empty where ClientCert logs in.
	Password string
	// ClientCert and ClientKey are PEM texts: a certificate that the host maps to User.
	ClientCert, ClientKey []byte
	// CA holds the certificates that may have signed the host's, as PEM text. There is no default.
	CA []byte
	// AuthorizedKey is the public key that shall log in over SSH: algorithm, blank, base64.
	AuthorizedKey string
	// SSHPort is let in by the host's firewall.
	SSHPort int
	// InstallerURL (https) and InstallerSHA256 (64 lower-case hexadecimal digits) name an installer of OpenSSH (MSI) for hosts that cannot install
	// it by themselves; both may be empty.
	InstallerURL, InstallerSHA256 string
}

// String names the host without any secret.
func (o Opening) String() string {
	return o.User + "@" + net.JoinHostPort(o.Address, strconv.Itoa(o.Port))
}

// GoString is String, so that no format verb prints secrets.
func (o Opening) GoString() string { return o.String() }

// Opener makes a machine reachable over SSH by another way in, which proves first that the machine is the right one.
type Opener interface {
	// Open has OpenSSH installed and started and the key authorized, and returns the host's SSH key as read over the verified channel. It can be
	// repeated at any time, also after it was cut off. Errors wrap ErrOpening, ErrCertificate, ErrAuth, ErrUnreachable, ErrBusy, ErrDisconnected or
	// ErrNoServer.
	Open(ctx context.Context, o Opening) (HostKey, error)
}
