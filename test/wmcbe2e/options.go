package wmcbe2e

import (
	"errors"
	"flag"
	"fmt"
	"time"
)

// Options are the flags of the test program.
type Options struct {
	// Cluster runs against the cluster of the environment, as a Job; Kubeconfig names another one.
	Cluster    bool
	Kubeconfig string
	// SkipVMSetup takes a Machine that is Provisioned instead of making one.
	SkipVMSetup bool
	// AMI is the Windows image of a MachineSet that is made; it replaces that of the worker MachineSet that is copied.
	AMI string
	// SSHKey is a file with the private key, User the account, Port sshd's.
	SSHKey, User string
	Port         int
	// WMCB is the bootstrapper, Payload the packed programs.
	WMCB, Payload string
	// Ignition is the worker's ignition file; empty composes it of what the cluster renders.
	Ignition string
	// Network is the HNS network for configure-cni and Subnet its pods'; without it configure-cni is not run.
	Network, Subnet string
	// Artifacts is the folder for what is kept, ToLog whether it is also written to standard output between two lines.
	Artifacts string
	ToLog     bool
}

// Register declares the flags.
func (o *Options) Register(f *flag.FlagSet) {
	f.BoolVar(&o.Cluster, "cluster", false, "run in the cluster that this program is a Job of; without it, on a control plane and a simulated machine of its own")
	f.StringVar(&o.Kubeconfig, "cluster-kubeconfig", "", "run in the cluster of this file instead")
	f.BoolVar(&o.SkipVMSetup, "skipVMSetup", false, "use a Machine with label "+osLabel+"=Windows that is Provisioned")
	f.StringVar(&o.AMI, "ami", "", "Windows image for the MachineSet that is made")
	f.StringVar(&o.SSHKey, "ssh-key", "", "file with the private key that logs in to the machine")
	f.StringVar(&o.User, "user", "Administrator", "account on the machine")
	f.IntVar(&o.Port, "ssh-port", 22, "port of the machine's SSH server")
	f.StringVar(&o.WMCB, "wmcb", "", "wmcb.exe")
	f.StringVar(&o.Payload, "payload", "", "folder that make payload has packed")
	f.StringVar(&o.Ignition, "ignition", "", "worker ignition file (default: composed of what the cluster renders)")
	f.StringVar(&o.Network, "hns-network", "", "HNS network on the machine for configure-cni (default: configure-cni is not run)")
	f.StringVar(&o.Subnet, "hns-subnet", "10.132.0.0/24", "subnet of its pods")
	f.StringVar(&o.Artifacts, "artifacts", "", "folder for logs, objects and the machine's journal")
	f.BoolVar(&o.ToLog, "artifacts-to-log", false, "write the artifacts to standard output too, packed")
}

// Namespaces and names that the manifests in hack/wmcb-ci-e2e have too.
const (
	namespace        = "wmcb-e2e"
	account          = "wmcb-e2e"
	bootstrapAccount = "bootstrap"
	machineNamespace = "openshift-machine-api"
	osLabel          = "machine.openshift.io/os-id"
)

// How long things may take.
const (
	// provisionPatience bounds a new machine, 12 minutes as a rule; nodePatience a Node, and what is to be seen in the cluster.
	provisionPatience = 20 * time.Minute
	nodePatience      = 3 * time.Minute
	pollEvery         = time.Second
)

var errUsage = errors.New("flags are missing")

// check names what is missing, all at once.
func (o *Options) check() error {
	var errs []error
	for _, f := range []struct {
		name    string
		missing bool
	}{
		{"-ssh-key", o.SSHKey == ""},
		{"-wmcb", o.WMCB == ""},
		{"-payload", o.Payload == ""},
		{"-artifacts", o.Artifacts == ""},
		{"-ami, or -skipVMSetup", o.AMI == "" && !o.SkipVMSetup},
	} {
		if f.missing {
			errs = append(errs, fmt.Errorf("%w: %s", errUsage, f.name))
		}
	}
	return errors.Join(errs...)
}
