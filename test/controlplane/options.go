package controlplane

import (
	"fmt"
	"io"
	"net"
	"net/netip"
)

// defaultServiceCIDR is kubeadm's default.
const defaultServiceCIDR = "10.96.0.0/16"

// Options says how a control plane is started. The zero value is a good one.
type Options struct {
	// Dir is the data folder: absent, empty, or left by a control plane that was killed. Empty: a new temporary folder.
	// Stop removes it, or only what is in it if it was there before.
	Dir string
	// Port is the API server's port on 127.0.0.1; 0: a free one.
	Port int
	// Address is an address of this machine under which nodes that are not on the loopback interface reach the API server. Empty: none.
	Address string
	// ServiceCIDR is the range of service addresses, default 10.96.0.0/16.
	ServiceCIDR string
	// NodeCIDRs is the range from which each node is given a /24 (IPv4) as spec.podCIDR. Empty: nodes are given none.
	NodeCIDRs string
	// NoControllerManager leaves the controller manager out: no CSR is signed and no default service account appears.
	NoControllerManager bool
	// APIServerArgs and ControllerManagerArgs follow our own flags, so that they win.
	APIServerArgs, ControllerManagerArgs []string
	// Progress receives the progress of the programs' first build; nil: silent.
	Progress io.Writer
}

// network is what Options means for addresses.
type network struct {
	serviceCIDR string
	// apiServiceIP is the address of the service "kubernetes", the first of the range.
	apiServiceIP net.IP
	nodeCIDRs    string
	// address is Options.Address, nil for none.
	address net.IP
}

func (o Options) network() (network, error) {
	cidr := o.ServiceCIDR
	if cidr == "" {
		cidr = defaultServiceCIDR
	}
	services, err := netip.ParsePrefix(cidr)
	if err != nil {
		return network{}, fmt.Errorf("service CIDR: %w", err)
	}
	if o.NodeCIDRs != "" {
		nodes, err := netip.ParsePrefix(o.NodeCIDRs)
		if err != nil {
			return network{}, fmt.Errorf("node CIDRs: %w", err)
		}
		if nodes.Overlaps(services) {
			return network{}, fmt.Errorf("node CIDRs %s overlap the service CIDR %s", nodes, services)
		}
	}
	first := services.Masked().Addr().Next()
	n := network{serviceCIDR: services.Masked().String(), apiServiceIP: first.AsSlice(), nodeCIDRs: o.NodeCIDRs}
	if o.Address != "" {
		address, err := netip.ParseAddr(o.Address)
		if err != nil {
			return network{}, fmt.Errorf("address: %w", err)
		}
		n.address = address.AsSlice()
	}
	return n, nil
}
