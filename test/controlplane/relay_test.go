package controlplane

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// TestRelay: what listens on the loopback interface is reached under another address, and closing ends what is under way.
func TestRelay(t *testing.T) {
	api, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	go func() {
		for {
			c, err := api.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	port := api.Addr().(*net.TCPAddr).Port
	other := net.IPv4(127, 0, 0, 2)
	r, err := startRelay(other, port)
	if err != nil {
		t.Fatal(err)
	}
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", net.JoinHostPort(other.String(), strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	if err := r.close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if err := (*relay)(nil).close(); err != nil {
		t.Error(err)
	}
}
