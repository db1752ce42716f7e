package ssh

import (
	"errors"
	"net"
	"testing"
)

func TestOutside(t *testing.T) {
	for address, want := range map[string]bool{
		"192.0.2.1:22": true, "[2001:db8::1]:22": true,
		"127.0.0.1:22": false, "127.0.1.7:22": false, "[::1]:22": false, "[::ffff:127.0.0.1]:22": false, "0.0.0.0:22": false, "[::]:22": false,
		"169.254.1.1:22": false, "[fe80::1%eth0]:22": false, "224.0.0.1:22": false, "nonsense": false,
	} {
		if err := outside(address); (err == nil) != want {
			t.Errorf("outside(%s) = %v, want allowed %t", address, err, want)
		}
	}
}

// TestOutsideRefusesANameOfOurselves: the check is on the address that a name resolves to.
func TestOutsideRefusesANameOfOurselves(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := Outside(t.Context(), "tcp", net.JoinHostPort("localhost", port))
	if err == nil {
		_ = c.Close()
	}
	if !errors.Is(err, ErrInside) {
		t.Errorf("dialing localhost: %v, want %v", err, ErrInside)
	}
}
