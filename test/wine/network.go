//go:build linux

package wine

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Network is a switch that machines hang on, with an address of its own on which the control plane can listen.
type Network struct {
	kit    *Kit
	name   string
	prefix netip.Prefix
	gate   netip.Addr

	mu    sync.Mutex
	ports int
}

// NewNetwork makes a switch with the first address of a prefix such as 10.77.0.0/24. Close removes it.
func (k *Kit) NewNetwork(ctx context.Context, prefix netip.Prefix) (*Network, error) {
	n := &Network{kit: k, name: "wm" + strconv.Itoa(os.Getpid()), prefix: prefix.Masked()}
	n.gate = n.prefix.Addr().Next()
	for _, args := range [][]string{
		{"link", "add", n.name, "type", "bridge"},
		{"addr", "add", netip.PrefixFrom(n.gate, prefix.Bits()).String(), "dev", n.name},
		{"link", "set", n.name, "up"},
	} {
		if err := command(ctx, "ip", args...); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// Gateway is the address of the side that runs the control plane.
func (n *Network) Gateway() netip.Addr { return n.gate }

// Address is the address of the n-th machine, from 1.
func (n *Network) Address(number int) netip.Addr {
	a := n.gate
	for range 10 + number - 1 {
		a = a.Next()
	}
	return a
}

// Close removes the switch.
func (n *Network) Close() error { return command(context.Background(), "ip", "link", "del", n.name) }

// plug connects a machine's namespace and returns the name of the switch's end of the cable.
func (n *Network) plug(ctx context.Context, pid int, address string) (cable string, err error) {
	n.mu.Lock()
	n.ports++
	cable = n.name + "p" + strconv.Itoa(n.ports)
	n.mu.Unlock()
	peer := []string{"link", "add", cable, "type", "veth", "peer", "name", "eth0", "address", hardwareAddressOf(address), "netns", strconv.Itoa(pid)}
	if err := command(ctx, "ip", peer...); err != nil {
		return "", err
	}
	if err := command(ctx, "ip", "link", "set", cable, "master", n.name, "up"); err != nil {
		return "", err
	}
	inside := func(args ...string) error {
		return command(ctx, "nsenter", append([]string{"-t", strconv.Itoa(pid), "-n", "ip"}, args...)...)
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "add", fmt.Sprintf("%s/%d", address, n.prefix.Bits()), "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		{"route", "add", "default", "via", n.gate.String()},
	} {
		if err := inside(args...); err != nil {
			return "", err
		}
	}
	return cable, nil
}

// hardwareAddressOf is the same in every boot, since others remember it, and in the range of Hyper-V.
func hardwareAddressOf(address string) string {
	b := netip.MustParseAddr(address).As4()
	return fmt.Sprintf("00:15:5d:%02x:%02x:%02x", b[1], b[2], b[3])
}

// unplug removes a cable at once; the kernel takes its time to end a namespace.
func unplug(cable string) error { return command(context.Background(), "ip", "link", "del", cable) }

// link takes the cable out or puts it in.
func link(ctx context.Context, cable, state string) error {
	return command(ctx, "ip", "link", "set", cable, state)
}

// listenIn listens on an address of another process' network. A socket belongs to the network in which its thread was when it made it.
func listenIn(pid int, address string) (net.Listener, error) {
	theirs, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	type result struct {
		l   net.Listener
		err error
	}
	made := make(chan result)
	go func() {
		// The thread ends with the goroutine that locked it and never goes back to other work.
		runtime.LockOSThread()
		if err := unix.Setns(int(theirs.Fd()), unix.CLONE_NEWNET); err != nil {
			made <- result{err: fmt.Errorf("entering the machine's network: %w", err)}
			return
		}
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", address)
		made <- result{l, err}
	}()
	r := <-made
	return r.l, r.err
}
