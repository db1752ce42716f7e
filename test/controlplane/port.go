package controlplane

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrPortTaken: the port that Options asks for belongs to somebody else.
var ErrPortTaken = errors.New("port is taken")

// reservation keeps a TCP port of 127.0.0.1 for programs of the same user that share ports. The socket is bound with
// SO_REUSEPORT and never listens, so connections reach kube-apiserver only (--permit-port-sharing), while no other program
// can be given the port between two starts. The kernel never hands out a shared port for port 0.
type reservation struct {
	fd, port int
}

// reservePort reserves port, or a free one if it is 0.
func reservePort(port int) (*reservation, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a socket: %w", err)
	}
	bound, err := bindLoopback(fd, port)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reserving port %d of 127.0.0.1: %w", port, err), unix.Close(fd))
	}
	return &reservation{fd: fd, port: bound}, nil
}

func bindLoopback(fd, port int) (int, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, err
	}
	err := unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if errors.Is(err, unix.EADDRINUSE) {
		return 0, fmt.Errorf("%w: %w", ErrPortTaken, err)
	}
	if err != nil {
		return 0, err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	inet, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("the socket is bound to a %T", name)
	}
	return inet.Port, nil
}

func (r *reservation) close() error { return unix.Close(r.fd) }
