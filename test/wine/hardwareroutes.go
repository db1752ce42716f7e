//go:build linux

package wine

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// Win32 errors of the routing table.
const (
	objectExists = 5010
	notFound     = 1168
)

// routing is what a machine's stack has been told of routes and forwarding until the next boot. Nothing goes another way for it.
type routing struct {
	// routes as shim/iphlpapi.c writes them: destination, length, next hop, interface.
	routes []string
	// forwarding are indexes of interfaces.
	forwarding []string
}

// change carries out a verb; ok is false for one that is another's.
func (r *routing) change(verb, rest string) (answer string, ok bool) {
	switch verb {
	case "routes":
		return strings.Join(r.routes, "\n"), true
	case "add-route":
		if slices.Contains(r.routes, rest) {
			return strconv.Itoa(objectExists), true
		}
		r.routes = append(r.routes, rest)
	case "delete-route":
		i := slices.Index(r.routes, rest)
		if i < 0 {
			return strconv.Itoa(notFound), true
		}
		r.routes = slices.Delete(r.routes, i, i+1)
	case "forwarding":
		if slices.Contains(r.forwarding, rest) {
			return "1", true
		}
	case "set-forwarding":
		index, on, _ := strings.Cut(rest, " ")
		r.forwarding = slices.DeleteFunc(r.forwarding, func(i string) bool { return i == index })
		if on == "1" {
			r.forwarding = append(r.forwarding, index)
		}
	default:
		return "", false
	}
	return "0", true
}

// hostAddress gives the machine the address of an endpoint of its own, or takes it away, as an adapter on the virtual switch would. A machine that is off
// has none.
func (m *Machine) hostAddress(address string, there bool) {
	r := m.run()
	if r == nil {
		return
	}
	verb := "del"
	if there {
		verb = "add"
	}
	err := command(context.Background(), "nsenter", "-t", strconv.Itoa(r.cmd.Process.Pid), "-n", "ip", "addr", verb, address+"/32", "dev", "eth0")
	if err != nil {
		m.opts.Logf("machine %s: %v", m.opts.Name, err)
	}
}
