package windows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	"github.com/Microsoft/hcsshim"
	"github.com/Microsoft/hcsshim/hcn"
	"golang.org/x/sys/windows"

	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Numbers of HNS (winerror.h: HCN_E_NETWORK_NOT_FOUND) for an error that hcsshim makes itself, and for one without any number (E_FAIL).
const (
	hcnNetworkNotFound = 0x803b0001
	hcnUnknown         = 0x80004005
)

// networks is the Host Networking Service, reached through hcsshim.
type networks struct{ vmcompute, computenetwork *windows.LazyDLL }

func (n networks) Get(name string) (plan.Network, error) {
	if err := n.ready(); err != nil {
		return plan.Network{}, err
	}
	found, err := hcn.GetNetworkByName(name)
	if err != nil {
		return plan.Network{}, hcnFailed("find network", name, err)
	}
	document, err := json.Marshal(found)
	if err != nil {
		return plan.Network{}, fmt.Errorf("find network %s: %w", name, err)
	}
	// The v2 document of an L2Bridge network does not say which address it was made for; the older view of the same
	// network does. Where that fails the address stays unknown.
	var address string
	if old, err := hcsshim.GetHNSNetworkByID(found.Id); err == nil {
		address = old.ManagementIP
	}
	return networkFrom(document, address)
}

// Create returns when HNS has made the network. The machine's link drops meanwhile if this makes the virtual switch, and its
// address comes back on the switch's port some seconds later; waiting for that is the caller's part.
func (n networks) Create(ctx context.Context, network plan.Network) error {
	if err := errors.Join(ctx.Err(), n.ready()); err != nil {
		return err
	}
	adapters, err := readAdapters()
	if err != nil {
		return err
	}
	name, err := networkAdapter(network.ManagementIP, adapters)
	if err != nil {
		return err
	}
	document, err := networkDocument(network, name)
	if err != nil {
		return err
	}
	var wanted hcn.HostComputeNetwork
	if err := json.Unmarshal(document, &wanted); err != nil {
		return fmt.Errorf("create network %s: %w", network.Name, err)
	}
	made, err := wanted.Create()
	if err != nil {
		return hcnFailed("create network", network.Name, err)
	}
	if network.Type == plan.NetworkOverlay {
		return addHostRoute(made)
	}
	return nil
}

// addHostRoute lets the host reach the pods of an overlay network. A network that lacks it is taken away again, because
// nothing that is read back of a network would tell later that it is not whole.
func addHostRoute(made *hcn.HostComputeNetwork) error {
	err := made.AddPolicy(hcn.PolicyNetworkRequest{
		Policies: []hcn.NetworkPolicy{{Type: policyHostRoute, Settings: json.RawMessage(`{}`)}},
	})
	if err == nil {
		return nil
	}
	return errors.Join(hcnFailed("add host route to network", made.Name, err), hcnFailed("undo network", made.Name, made.Delete()))
}

func (n networks) Delete(ctx context.Context, name string) error {
	if err := errors.Join(ctx.Err(), n.ready()); err != nil {
		return err
	}
	found, err := hcn.GetNetworkByName(name)
	if err != nil {
		return hcnFailed("find network", name, err)
	}
	return hcnFailed("delete network", name, found.Delete())
}

// ready answers ErrUnsupported where HNS is missing (the Containers feature is off) or too old for the v2 API. Package hcn panics
// when computenetwork.dll is absent, so that must be known before it is called.
func (n networks) ready() error {
	for _, p := range []*windows.LazyProc{n.vmcompute.NewProc("HNSCall"), n.computenetwork.NewProc("HcnEnumerateNetworks")} {
		if p.Find() != nil {
			return &Error{Op: "load", Object: p.Name, Code: uint32(windows.ERROR_PROC_NOT_FOUND), Err: system.ErrUnsupported}
		}
	}
	globals, err := hcn.GetGlobals()
	if err != nil {
		return hcnFailed("ask for the version of", "HNS", err)
	}
	if v := (hcnVersion{Major: globals.Version.Major, Minor: globals.Version.Minor}); !v.atLeast(hcnFloor()) {
		return fmt.Errorf("HNS %d.%d is older than %d.%d: %w", v.Major, v.Minor, hcnFloor().Major, hcnFloor().Minor, system.ErrUnsupported)
	}
	return nil
}

// hcnFailed finds the number in an error of hcsshim. Its own not-found errors have none, and what HNS says in words, in the machine's
// language, is not passed on.
func hcnFailed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if missing := (hcn.NetworkNotFoundError{}); errors.As(err, &missing) {
		return refuse(op, name, hcnNetworkNotFound)
	}
	var (
		refused *hcn.HcnError
		code    syscall.Errno
	)
	if errors.As(err, &refused) {
		err = refused.Err
	}
	if errors.As(err, &code) {
		return refuse(op, name, uint32(code))
	}
	return refuse(op, name, hcnUnknown)
}
